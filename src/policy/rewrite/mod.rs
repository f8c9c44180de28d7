//! Rules that change statements: tables and columns under other names, a condition for every use of a table, a schema for names
//! without one.
//!
//! Compiled once ([`Rewriting::compile`]) and applied to the tree's places; the text outside of the changed spans stays as it was
//! written, and `$n` keep their numbers. What cannot be changed so that it is certain to say what the rules want is refused and must
//! never be sent as it was: a forgotten condition would show one tenant's rows to another. Even so this is no substitute for
//! row-level security: functions and views are not looked into, and what INSERT puts into a table is not filtered.

mod change;
mod names;

use crate::sql::{self, Facts, quoted};
pub use crate::sql::{CannotEdit as CannotRewrite, Edited as Rewritten};
use names::{Path, Pattern, Table};

/// What a rule of the section `rewrite` says, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// From relation to relation.
    pub rename_table: Vec<(String, String)>,
    /// From table.column to column.
    pub rename_column: Vec<(String, String)>,
    /// From relation to a condition.
    pub add_where: Vec<(String, String)>,
    /// Unqualified relations are taken from this schema.
    pub qualify_schema: Option<String>,
}

/// An entry of a rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{action}: {key}: {why}")]
pub struct BadRewrite {
    /// `rename_table`, `rename_column`, `add_where` or `qualify_schema`.
    pub action: &'static str,
    /// The entry's key, or the schema.
    pub key: Box<str>,
    /// What is wrong.
    pub why: Box<str>,
}

/// What a rule does, compiled.
#[derive(Clone, Debug, Default)]
pub struct Rewriting {
    tables: Vec<(Pattern, Table)>,
    columns: Vec<(Pattern, Box<str>, Box<str>)>,
    filters: Vec<(Pattern, Condition)>,
    schema: Option<Box<str>>,
}

impl Rewriting {
    /// Reads what a rule says.
    ///
    /// # Errors
    /// All entries that do not hold.
    pub fn compile(wanted: &Wanted) -> Result<Self, Vec<BadRewrite>> {
        let (mut rewriting, mut bad) = (Self::default(), Vec::new());
        let mut refuse =
            |action, key: &str, why: &str| bad.push(BadRewrite { action, key: key.into(), why: why.into() });
        if !sql::can_edit() {
            refuse("rewrite", "", "needs PostgreSQL's own parser, and this program was built without it");
        }
        for (from, to) in &wanted.rename_table {
            match (Pattern::exact(from), Table::read(to)) {
                (Some(from), Some(to)) => rewriting.tables.push((from, to)),
                (None, _) => refuse("rename_table", from, "not a name of a table, with or without schema"),
                (_, None) => refuse("rename_table", from, "the new name is not a name of a table"),
            }
        }
        for (from, to) in &wanted.rename_column {
            let new = names::identifiers(to).filter(|parts| parts.len() == 1).and_then(|mut parts| parts.pop());
            match (Pattern::of_column(from), new) {
                (Some((table, old)), Some(new)) => rewriting.columns.push((table, old, new.into())),
                (None, _) => refuse("rename_column", from, "not a column with its table, as in table.column"),
                (_, None) => refuse("rename_column", from, "the new name is not a name of a column"),
            }
        }
        for (table, condition) in &wanted.add_where {
            match (Pattern::glob(table), Condition::read(condition)) {
                (Some(table), Ok(condition)) => rewriting.filters.push((table, condition)),
                (None, _) => refuse("add_where", table, "not a name or pattern of tables, with or without schema"),
                (_, Err(why)) => refuse("add_where", table, &why.to_string()),
            }
        }
        if let Some(schema) = &wanted.qualify_schema {
            match names::identifiers(schema).as_deref() {
                Some([one]) => rewriting.schema = Some(one.as_str().into()),
                _ => refuse("qualify_schema", schema, "not a name of a schema"),
            }
        }
        if bad.is_empty() { Ok(rewriting) } else { Err(bad) }
    }

    /// Does it depend on the search path which of these relations it is about?
    pub fn hangs_on_path(&self, facts: &Facts) -> bool {
        let tables = self.tables.iter().map(|(pattern, _)| pattern);
        let columns = self.columns.iter().map(|(pattern, ..)| pattern);
        let mut patterns = tables.chain(columns).chain(self.filters.iter().map(|(pattern, _)| pattern));
        patterns.any(|pattern| facts.reads.iter().chain(&facts.writes).any(|name| pattern.hangs_on_path(name)))
    }

    /// Changes a text as the rule wants; `None`: there is nothing in it to change. `search_path`: the session's schemas in their
    /// order, by which a name without schema and one with it can be the same table.
    ///
    /// # Errors
    /// It cannot be changed safely: it must be refused.
    pub fn rewrite(&self, text: &[u8], search_path: &[&str]) -> Result<Option<Rewritten>, CannotRewrite> {
        sql::edited(text, |_, places| change::changes(self, places, Path(search_path)))
    }
}

/// A condition to be added, cut where its columns are qualified.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    /// Before each column and behind the last one.
    pieces: Vec<Box<str>>,
}

impl Condition {
    fn read(text: &str) -> Result<Self, CannotRewrite> {
        let mut columns = sql::condition(text)?;
        columns.sort_by_key(|column| column.name.start);
        let (mut pieces, mut at) = (Vec::new(), 0);
        for column in columns {
            if column.qualifier.is_some() {
                return Err(CannotRewrite::new(
                    "columns of a condition have no qualifier: each use of the table gets its own",
                ));
            }
            let piece = text.get(at..column.name.start).ok_or_else(|| CannotRewrite::new("not a condition"))?;
            pieces.push(piece.into());
            at = column.name.start;
        }
        pieces.push(text.get(at..).unwrap_or_default().into());
        Ok(Self { pieces })
    }

    /// The condition on the table that the statement calls `name`.
    fn on(&self, name: &str) -> String {
        self.pieces.join(&format!("{}.", quoted(name)))
    }
}

#[cfg(test)]
mod tests;
