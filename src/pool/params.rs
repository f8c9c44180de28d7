//! Session parameters as values: what a client has set, what a server has been given, and the SQL between the two.
//!
//! Values are those the server itself reported (`current_setting`), so they can be given back by `set_config`
//! whatever their syntax in SET was.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

/// An immutable set of parameters that differ from the server's defaults. Cheap to clone and to compare.
#[derive(Clone, Debug, Default)]
pub struct Params(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    values: BTreeMap<Box<str>, Box<str>>,
    /// Of everything.
    hash: u64,
    /// Of what can change the meaning of a prepared statement.
    meaning: u64,
    /// `default_transaction_read_only` is on.
    read_only: bool,
    /// Whether `default_transaction_isolation` is serializable, if it is set.
    serializable: Option<bool>,
    /// `idle_session_timeout` and `idle_in_transaction_session_timeout`, unless they are off.
    idle: Idle,
}

/// How long a session may say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Outside of a transaction.
    pub outside: Option<Duration>,
    /// In one, failed or not.
    pub in_transaction: Option<Duration>,
}

/// The SQL that turns one set into another.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// One or more statements for one simple Query.
    pub sql: String,
    /// May the client's request travel in the same write? Only if the change cannot fail: were it to fail, the request
    /// would run with somebody else's settings.
    pub together: Together,
}

/// See [`Change::together`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// Cannot fail.
    Yes,
    /// Could fail (a role that was dropped, a privilege that was revoked, a time limit): wait for the answer first.
    No,
}

/// Parameters anybody may set to a value that was accepted once, and whose setting cannot be interrupted.
const SAFE: &[&str] = &[
    "application_name",
    "bytea_output",
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "extra_float_digits",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "intervalstyle",
    "search_path",
    "standard_conforming_strings",
    "synchronous_commit",
    "timezone",
    "work_mem",
];

/// Parameters that cannot change what a prepared statement means.
const MEANINGLESS: &[&str] = &[
    "application_name",
    "client_min_messages",
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "transaction_timeout",
    "synchronous_commit",
    "extra_float_digits",
];

impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || (a.hash == b.hash && a.values == b.values),
            _ => false,
        }
    }
}

/// Can setting it to a value that was accepted once not fail, whoever is the role?
pub fn is_safe(name: &str) -> bool {
    name.contains('.') || SAFE.contains(&name)
}

impl Params {
    fn from_map(values: BTreeMap<Box<str>, Box<str>>) -> Self {
        if values.is_empty() {
            return Self(None);
        }
        let (mut all, mut meaning) = (DefaultHasher::new(), DefaultHasher::new());
        let mut plain = true;
        for (name, value) in &values {
            (name, value).hash(&mut all);
            if !MEANINGLESS.contains(&&**name) {
                (name, value).hash(&mut meaning);
                plain = false;
            }
        }
        // The same as without any settings at all.
        let meaning = if plain { 0 } else { meaning.finish() };
        let read_only = values.get("default_transaction_read_only").is_some_and(|value| **value == *"on");
        let serializable = values.get("default_transaction_isolation").map(|level| **level == *"serializable");
        let time = |name: &str| values.get(name).and_then(|value| shown_time(value));
        let idle =
            Idle { outside: time("idle_session_timeout"), in_transaction: time("idle_in_transaction_session_timeout") };
        Self(Some(Arc::new(Inner { values, hash: all.finish(), meaning, read_only, serializable, idle })))
    }

    fn map(&self) -> BTreeMap<Box<str>, Box<str>> {
        self.0.as_ref().map(|inner| inner.values.clone()).unwrap_or_default()
    }

    /// The set with some names changed (`Some`) or back at their default (`None`). Names are lower case.
    pub fn with<'a>(&self, changes: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Self {
        let mut map = self.map();
        for (name, value) in changes {
            match value {
                Some(value) => {
                    map.insert(name.into(), value.into());
                }
                None => {
                    map.remove(name);
                }
            }
        }
        Self::from_map(map)
    }

    /// A parameter's value, if it is not the server's default.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.values.get(name).map(|v| &**v)
    }

    /// Are transactions READ ONLY unless they say otherwise? Asked for every statement, so it is kept.
    pub fn read_only_by_default(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.read_only)
    }

    /// Are transactions SERIALIZABLE unless they say otherwise? `None` if the session has set nothing.
    pub fn serializable_by_default(&self) -> Option<bool> {
        self.0.as_ref()?.serializable
    }

    /// How long the session may say nothing, by its own wish. Asked for every statement, so it is kept.
    pub fn idle(&self) -> Idle {
        self.0.as_ref().map_or_else(Idle::default, |inner| inner.idle)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|inner| inner.values.iter().map(|(n, v)| (&**n, &**v)))
    }

    /// Is it certainly the same set? Costs one comparison.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Nothing differs from the defaults.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Differs when a prepared statement of the same text could mean something else.
    pub fn meaning(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.meaning)
    }

    /// What must be sent to a server that has `self` so that it has `wanted`; `None` if nothing.
    pub fn change_to(&self, wanted: &Self) -> Option<Change> {
        if self == wanted {
            return None;
        }
        let (have, want) = (self.map(), wanted.map());
        let differs = |name: &str| have.get(name) != want.get(name);
        let mut sql = String::new();
        let mut together = Together::Yes;
        // Identity first back to the login user, so that the rest is set with its rights; then forward, last.
        // A change of the session's user takes the role back as well (SetSessionUserId).
        let moves = |name: &str| differs(name) || (name == "role" && differs("session_authorization"));
        for name in ["role", "session_authorization"] {
            if moves(name) && have.contains_key(name) {
                sql.push_str(if name == "role" { "RESET ROLE;" } else { "RESET SESSION AUTHORIZATION;" });
                together = Together::No;
            }
        }
        let identity = |name: &str| matches!(name, "role" | "session_authorization");
        let quick = |map: &BTreeMap<Box<str>, Box<str>>| {
            map.get("statement_timeout")
                .is_none_or(|v| &**v == "0" || v.ends_with("min") || v.ends_with('h') || v.ends_with('d'))
        };
        for name in have.keys().filter(|n| !want.contains_key(*n) && !identity(n)) {
            sql.push_str("RESET ");
            quote_name(&mut sql, name);
            sql.push(';');
        }
        let mut sets: Vec<(&str, &str)> =
            want.iter().filter(|(n, _)| differs(n) && !identity(n)).map(|(n, v)| (&**n, &**v)).collect();
        for name in ["session_authorization", "role"] {
            if let Some(value) = want.get(name).filter(|_| moves(name)) {
                sets.push((name, value));
                together = Together::No;
            }
        }
        if sets.iter().any(|(name, _)| !SAFE.contains(name)) {
            together = Together::No;
        }
        set_all(&mut sql, sets.into_iter());
        if !quick(&have) || !quick(&want) {
            together = Together::No;
        }
        Some(Change { sql, together })
    }
}

/// What `current_setting` shows of a time in milliseconds (guc.c, `convert_int_from_base_unit`); `None`: it is off.
fn shown_time(value: &str) -> Option<Duration> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let unit = match unit {
        "ms" | "" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let ms = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// Appends one SELECT that sets all of them, or nothing if there are none.
pub fn set_all<'a>(sql: &mut String, parameters: impl Iterator<Item = (&'a str, &'a str)>) {
    for (i, (name, value)) in parameters.enumerate() {
        sql.push_str(if i == 0 { "SELECT pg_catalog.set_config(" } else { ",pg_catalog.set_config(" });
        quote_literal(sql, name);
        sql.push(',');
        quote_literal(sql, value);
        sql.push_str(",false)");
    }
}

/// Quotes a parameter name for RESET; `a.b` is two identifiers.
fn quote_name(out: &mut String, name: &str) {
    for (i, part) in name.split('.').enumerate() {
        if i > 0 {
            out.push('.');
        }
        out.push('"');
        out.push_str(&part.replace('"', "\"\""));
        out.push('"');
    }
}

/// Quotes a literal so that it reads the same with standard_conforming_strings on and off.
pub fn quote_literal(out: &mut String, value: &str) {
    let escapes = value.contains('\\');
    out.push_str(if escapes { "E'" } else { "'" });
    for c in value.chars() {
        match c {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    out.push('\'');
}

#[cfg(test)]
mod tests;
