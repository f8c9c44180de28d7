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
    /// Reads `name` or `schema.name`; the last dot counts.
    ///
    /// # Errors
    /// As [`Glob::new`].
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let (schema, name) = match text.rsplit_once('.') {
            Some((schema, name)) => (Some(Glob::new(schema)?), name),
            None => (None, text),
        };
        Ok(Self { schema, name: Glob::new(name)? })
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
        ] {
            let glob = NameGlob::new(pattern).expect(pattern);
            let path = ["app", "public"].into_iter();
            assert_eq!(glob.matches(schema, name, path), fits, "{pattern} {schema:?}.{name}");
        }
        assert!(Glob::new("a[").is_err() && Glob::new("a***").is_err());
    }
}
