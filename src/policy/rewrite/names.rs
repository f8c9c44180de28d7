//! Names of relations in rules, and which relations of a statement they mean.

use glob::Pattern as Glob;

use crate::sql::facts::Name;

/// The session's schemas, in the order in which they are searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a>(pub(super) &'a [&'a str]);

/// A relation's new name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    schema: Option<Box<str>>,
    name: Box<str>,
}

impl Table {
    pub(super) fn read(text: &str) -> Option<Self> {
        match identifiers(text)?.as_slice() {
            [name] => Some(Self { schema: None, name: name.as_str().into() }),
            [schema, name] => Some(Self { schema: Some(schema.as_str().into()), name: name.as_str().into() }),
            _ => None,
        }
    }

    /// Instead of `old`: without a schema of its own it is in the same one.
    pub(super) fn instead_of(&self, old: &Name) -> Name {
        Name { schema: self.schema.clone().or_else(|| old.schema.clone()), name: self.name.clone() }
    }
}

/// Which relations a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    schema: Option<Glob>,
    name: Glob,
}

impl Pattern {
    /// One relation.
    pub(super) fn exact(text: &str) -> Option<Self> {
        Self::of(&identifiers(text)?, Glob::escape)
    }

    /// `table.column`, `schema.table.column`.
    pub(super) fn of_column(text: &str) -> Option<(Self, Box<str>)> {
        let parts = identifiers(text)?;
        let (column, table) = parts.split_last()?;
        Some((Self::of(table, Glob::escape)?, column.as_str().into()))
    }

    /// Relations with `*` and `?` in their names.
    pub(super) fn glob(text: &str) -> Option<Self> {
        Self::of(&identifiers(text)?, str::to_owned)
    }

    fn of(parts: &[String], written: fn(&str) -> String) -> Option<Self> {
        let glob = |part: &String| Glob::new(&written(part)).ok();
        match parts {
            [name] => Some(Self { schema: None, name: glob(name)? }),
            [schema, name] => Some(Self { schema: Some(glob(schema)?), name: glob(name)? }),
            _ => None,
        }
    }

    /// Does it mean this relation of a statement? Where the search path leaves two possibilities, it does.
    pub(super) fn matches(&self, relation: &Name, path: Path<'_>) -> bool {
        if !self.name.matches(&relation.name) {
            return false;
        }
        match (&self.schema, relation.schema.as_deref()) {
            (Some(wanted), Some(schema)) => wanted.matches(schema),
            (Some(wanted), None) => !is_system(relation) && path.0.iter().any(|schema| wanted.matches(schema)),
            (None, Some(schema)) => path.0.contains(&schema),
            (None, None) => !is_system(relation),
        }
    }

    /// The same for what keeps rows apart: without a schema it means the tables of all schemas, whatever search_path a client sets.
    pub(super) fn covers(&self, relation: &Name, path: Path<'_>) -> bool {
        let anywhere =
            relation.schema.as_deref().is_some_and(|schema| !matches!(schema, "pg_catalog" | "information_schema"));
        match self.schema {
            None if anywhere => self.name.matches(&relation.name),
            _ => self.matches(relation, path),
        }
    }

    /// Does the answer depend on the search path?
    pub(super) fn hangs_on_path(&self, relation: &Name) -> bool {
        self.schema.is_some() != relation.schema.is_some() && !is_system(relation) && self.name.matches(&relation.name)
    }
}

/// Without a schema it can only be a system catalog: pg_catalog is searched first.
pub(super) fn is_system(relation: &Name) -> bool {
    relation.schema.is_none() && relation.name.starts_with("pg_")
}

/// The parts of a dotted name, folded as SQL folds them; `None`: not a name.
pub(super) fn identifiers(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    loop {
        let (part, behind) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut end = quoted.find('"')?;
                while quoted.get(end + 1..)?.starts_with('"') {
                    end += 2 + quoted.get(end + 2..)?.find('"')?;
                }
                (quoted.get(..end)?.replace("\"\"", "\""), quoted.get(end + 1..)?)
            }
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                let word = rest.get(..end)?;
                let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '*' | '?' | '[' | ']' | '-');
                word.chars().all(plain).then(|| (word.to_ascii_lowercase(), rest.get(end..).unwrap_or_default()))?
            }
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match behind.strip_prefix('.') {
            Some(more) => rest = more,
            None if behind.is_empty() => return Some(parts),
            None => return None,
        }
    }
}
