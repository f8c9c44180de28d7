//! What PostgreSQL's built-in functions may do (`rules/functions.yaml`).

use std::collections::HashMap;

use serde::Deserialize;

use super::facts::Name;

/// What a built-in function may do; the words of `rules/functions.yaml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionClass {
    /// Harmless and right on any up-to-date replica.
    Read,
    /// Has effects, or a standby refuses it.
    Writes,
    /// Uses or changes state of the server session.
    Session,
    /// Answers from what this very session did before.
    SessionValue,
    /// Asks about the very server it runs on.
    NodeLocal,
    /// Takes, tries or gives up an advisory lock.
    Locks,
    /// Runs SQL that is in its arguments.
    Opaque,
}

/// The file does not hold.
#[derive(Debug, thiserror::Error)]
pub enum BadFunctions {
    /// Not the YAML that is expected.
    #[error("list of functions: {0}")]
    Yaml(#[from] serde_yaml::Error),
    /// One name, two classes.
    #[error("list of functions: {0} is listed twice")]
    Twice(Box<str>),
}

/// What the operator says of a function that is not built in (`functions:` in rule files).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// It changes nothing, and is right on any up-to-date replica.
    ReadOnly,
    /// It writes these relations, and does nothing else that matters.
    Writes(Box<[Name]>),
}

/// Built-in functions by name, without schema, and those that the operator has declared.
#[derive(Clone, Debug)]
pub struct Functions {
    classes: HashMap<Box<str>, FunctionClass>,
    declared: HashMap<Name, Declared>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    read: Vec<Box<str>>,
    writes: Vec<Box<str>>,
    session: Vec<Box<str>>,
    session_value: Vec<Box<str>>,
    node_local: Vec<Box<str>>,
    locks: Vec<Box<str>>,
    opaque: Vec<Box<str>>,
}

impl Functions {
    /// The list that is compiled in.
    ///
    /// # Errors
    /// Never, as a test shows; the caller reports it like any other fault of the installation.
    pub fn built_in() -> Result<Self, BadFunctions> {
        Self::from_yaml(include_str!("../../rules/functions.yaml"))
    }

    /// Reads a list in the form of `rules/functions.yaml`.
    ///
    /// # Errors
    /// Unknown class, missing class, or a name with two classes.
    pub fn from_yaml(text: &str) -> Result<Self, BadFunctions> {
        let file: File = serde_yaml::from_str(text)?;
        let mut classes = HashMap::new();
        for (class, names) in [
            (FunctionClass::Read, file.read),
            (FunctionClass::Writes, file.writes),
            (FunctionClass::Session, file.session),
            (FunctionClass::SessionValue, file.session_value),
            (FunctionClass::NodeLocal, file.node_local),
            (FunctionClass::Locks, file.locks),
            (FunctionClass::Opaque, file.opaque),
        ] {
            for name in names {
                if classes.insert(name.clone(), class).is_some() {
                    return Err(BadFunctions::Twice(name));
                }
            }
        }
        Ok(Self { classes, declared: HashMap::new() })
    }

    /// Names of these classes.
    pub fn names(&self, classes: &[FunctionClass]) -> impl Iterator<Item = &str> {
        self.classes.iter().filter(|(_, class)| classes.contains(class)).map(|(name, _)| &**name)
    }

    /// The same with the functions that the operator declares; a name without a schema stands for all of that name. What is built in stays
    /// what it is.
    #[must_use]
    pub fn with_declared(&self, declared: impl IntoIterator<Item = (Name, Declared)>) -> Self {
        Self { classes: self.classes.clone(), declared: declared.into_iter().collect() }
    }

    /// What the operator says of a function, as far as its name tells which one it is.
    pub fn declared(&self, schema: Option<&str>, name: &str) -> Option<&Declared> {
        if self.declared.is_empty() {
            return None;
        }
        let find =
            |schema: Option<&str>| self.declared.get(&Name { schema: schema.map(Into::into), name: name.into() });
        find(None).or_else(|| find(Some(schema?)))
    }

    /// The class of `name`; `None`: not built in, so it may do anything.
    pub fn class(&self, name: &str) -> Option<FunctionClass> {
        self.classes.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_that_is_compiled_in_holds() {
        let functions = Functions::built_in().unwrap_or_else(|e| panic!("{e}"));
        for (name, class) in [
            ("lower", Some(FunctionClass::Read)),
            ("count", Some(FunctionClass::Read)),
            ("row_number", Some(FunctionClass::Read)),
            ("random", Some(FunctionClass::Read)),
            ("pg_sleep", Some(FunctionClass::Read)),
            ("nextval", Some(FunctionClass::Writes)),
            ("lo_get", Some(FunctionClass::Writes)),
            ("pg_notify", Some(FunctionClass::Writes)),
            ("txid_current", Some(FunctionClass::Writes)),
            ("pg_try_advisory_xact_lock_shared", Some(FunctionClass::Locks)),
            ("lastval", Some(FunctionClass::SessionValue)),
            ("set_config", Some(FunctionClass::Session)),
            ("pg_is_in_recovery", Some(FunctionClass::NodeLocal)),
            ("query_to_xml", Some(FunctionClass::Opaque)),
            ("dblink_exec", None),
            ("my_function", None),
        ] {
            assert_eq!(functions.class(name), class, "{name}");
        }
    }

    #[test]
    fn a_name_has_one_class() {
        let text = "{read: [a], writes: [a], session: [], session_value: [], node_local: [], locks: [], opaque: []}";
        assert!(matches!(Functions::from_yaml(text), Err(BadFunctions::Twice(name)) if &*name == "a"));
        assert!(matches!(Functions::from_yaml("{red: []}"), Err(BadFunctions::Yaml(_))));
    }
}
