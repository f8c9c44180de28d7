//! Patterns for names: `*`, `?`, `[a-z]`.

use std::fmt;

/// A pattern for one name. Most are plain names, which cost a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glob {
    /// `*`.
    Any,
    /// A name without special characters.
    Exact(Box<str>),
    /// Anything else.
    Pattern(glob::Pattern),
}

impl Glob {
    /// Reads a pattern, or says what is wrong with it.
    ///
    /// # Errors
    /// Unbalanced brackets and the like, in the words of the library.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        match text {
            "*" => Ok(Self::Any),
            text if !text.contains(['*', '?', '[', ']']) => Ok(Self::Exact(text.into())),
            text => glob::Pattern::new(text).map(Self::Pattern).map_err(|error| error.msg),
        }
    }

    /// Does the whole name fit?
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => **exact == *name,
            Self::Pattern(pattern) => pattern.matches(name),
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "*",
            Self::Exact(name) => name,
            Self::Pattern(pattern) => pattern.as_str(),
        })
    }
}

/// A pattern for the name of a relation or function: `name` in any schema, or `schema.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameGlob {
    /// `None`: any schema.
    pub schema: Option<Glob>,
    /// The name itself.
    pub name: Glob,
}

impl NameGlob {
    /// Reads `name` or `schema.name`. What stands in double quotes is no pattern.
    ///
    /// # Errors
    /// As [`Glob::new`]; also more than two parts.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        Self::read(text, str::to_owned)
    }

    /// The same with names folded as SQL folds them.
    ///
    /// # Errors
    /// As [`NameGlob::new`].
    pub fn folded(text: &str) -> Result<Self, &'static str> {
        Self::read(text, str::to_ascii_lowercase)
    }

    fn read(text: &str, plain: fn(&str) -> String) -> Result<Self, &'static str> {
        let (first, rest) = part(text, plain)?;
        let Some(rest) = rest else { return Ok(Self { schema: None, name: first }) };
        let (name, rest) = part(rest, plain)?;
        match rest {
            None => Ok(Self { schema: Some(first), name }),
            Some(_) => Err("a name has a schema at most before it"),
        }
    }

    /// Does a name fit? An unqualified one may be in any schema of `path`.
    pub fn matches<'a>(&self, schema: Option<&str>, name: &str, mut path: impl Iterator<Item = &'a str>) -> bool {
        if !self.name.matches(name) {
            return false;
        }
        match (&self.schema, schema) {
            (None, _) => true,
            (Some(wanted), Some(schema)) => wanted.matches(schema),
            (Some(wanted), None) => path.any(|schema| wanted.matches(schema)),
        }
    }
}

/// A part of a dotted name, and what follows its dot.
fn part(text: &str, plain: fn(&str) -> String) -> Result<(Glob, Option<&str>), &'static str> {
    const UNFINISHED: &str = "a quoted name must end before a dot or the end";
    let (glob, behind) = match text.strip_prefix('"') {
        Some(quoted) => {
            let mut end = quoted.find('"').ok_or(UNFINISHED)?;
            while quoted.get(end + 1..).is_some_and(|behind| behind.starts_with('"')) {
                end += 2 + quoted.get(end + 2..).and_then(|behind| behind.find('"')).ok_or(UNFINISHED)?;
            }
            let name = quoted.get(..end).unwrap_or_default().replace("\"\"", "\"");
            (Glob::Exact(name.into()), quoted.get(end + 1..).unwrap_or_default())
        }
        None => {
            let (name, behind) = text.split_at(text.find('.').unwrap_or(text.len()));
            (Glob::new(&plain(name))?, behind)
        }
    };
    match behind.strip_prefix('.') {
        Some(rest) => Ok((glob, Some(rest))),
        None if behind.is_empty() => Ok((glob, None)),
        None => Err(UNFINISHED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit() {
        for (pattern, schema, name, fits) in [
            ("orders", None, "orders", true),
            ("orders", Some("x"), "orders", true),
            ("orders", None, "Orders", false),
            ("order?", None, "orders", true),
            ("*", None, "anything", true),
            ("public.*", None, "orders", true),
            ("ledger.*", None, "orders", false),
            ("ledger.*", Some("ledger"), "entries", true),
            ("ledger.*", Some("public"), "entries", false),
            ("led*.e*", Some("ledger"), "entries", true),
            ("[a-c]*", None, "d", false),
            ("\"Users\"", None, "Users", true),
            ("\"a.b\".\"x\"\"*\"", Some("a.b"), "x\"*", true),
            ("\"U*\"", None, "Users", false),
        ] {
            let glob = NameGlob::new(pattern).expect(pattern);
            let path = ["app", "public"].into_iter();
            assert_eq!(glob.matches(schema, name, path), fits, "{pattern} {schema:?}.{name}");
        }
        assert!(Glob::new("a[").is_err() && Glob::new("a***").is_err());
        for bad in ["a.b.c", "\"a", "\"a\"b", "a.\"\"\""] {
            assert!(NameGlob::new(bad).is_err(), "{bad}");
        }
        let folded = NameGlob::folded("PG_Catalog.PG_SLEEP").expect("a name");
        assert_eq!(folded, NameGlob::new("pg_catalog.pg_sleep").expect("a name"));
    }
}
