//! The store of the allow list: statements that were seen, in a file that people review.

use std::fmt;

use serde::Serialize;

use super::{Glob, raw::FingerprintWord};
use crate::config::{
    Principal, Warning,
    fault::{Faults, Findings},
    section::section,
    tree,
    value::{Count, Value},
};

/// What the file begins with.
const HEADER: &str = "# Statements that pgsluice has seen, per entry of firewall.allow_list.principals. Only what is `allowed: true` is on the list.\n";

/// Whom a list is for, in the words of `firewall.allow_list.principals`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ListedFor {
    /// Login names.
    pub user: String,
    /// Databases.
    pub database: String,
    /// Application names.
    pub application: String,
    /// Address block; `None`: any.
    pub client: Option<String>,
}

impl ListedFor {
    /// Whoever no entry names.
    pub fn anybody() -> Self {
        let any = || "*".to_owned();
        Self { user: any(), database: any(), application: any(), client: None }
    }
}

impl From<&Principal> for ListedFor {
    fn from(principal: &Principal) -> Self {
        Self {
            user: principal.user.to_string(),
            database: principal.database.to_string(),
            application: principal.application.to_string(),
            client: principal.client.map(|range| range.to_string()),
        }
    }
}

impl fmt::Display for ListedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}, database {}, application {}", self.user, self.database, self.application)?;
        self.client.iter().try_for_each(|client| write!(f, ", client {client}"))
    }
}

/// One statement of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Learned {
    /// Its fingerprint.
    pub fingerprint: String,
    /// Whether it is on the list; if not, it was only seen.
    pub allowed: bool,
    /// With `$n` in the place of values.
    pub text: String,
    /// As `explain` names it.
    pub kind: String,
    /// Relations it reads or writes.
    pub tables: Vec<String>,
    /// UTC.
    pub first_seen: String,
    /// UTC.
    pub last_seen: String,
    /// How often.
    pub count: u64,
}

/// The statements of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LearnedList {
    /// Whom it is for.
    #[serde(flatten)]
    pub listed_for: ListedFor,
    /// What was seen.
    pub statements: Vec<Learned>,
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Store {
    /// Per entry.
    pub principals: Vec<LearnedList>,
}

impl Store {
    /// Reads the text of a store.
    ///
    /// # Errors
    /// Every fault of the text.
    pub fn parse(name: &str, text: &str) -> Result<(Self, Vec<Warning>), Faults> {
        let mut findings = Findings::new(name);
        let store = read(text, &mut findings);
        findings.close(store)
    }

    /// Its text.
    ///
    /// # Errors
    /// Never for what a store can hold; whoever writes the file says so like any other error.
    pub fn to_yaml(&self) -> Result<String, String> {
        let text = serde_yaml::to_string(self).map_err(|error| error.to_string())?;
        Ok(format!("{HEADER}{text}"))
    }

    /// The list of an entry, if there is one.
    pub fn list(&self, listed_for: &ListedFor) -> Option<&LearnedList> {
        self.principals.iter().find(|list| list.listed_for == *listed_for)
    }

    /// The list of an entry, made if there is none.
    pub fn list_mut(&mut self, listed_for: &ListedFor) -> &mut LearnedList {
        let at = match self.principals.iter().position(|list| list.listed_for == *listed_for) {
            Some(at) => at,
            None => {
                self.principals.push(LearnedList { listed_for: listed_for.clone(), statements: Vec::new() });
                self.principals.len() - 1
            }
        };
        &mut self.principals[at]
    }

    /// How many statements.
    pub fn len(&self) -> usize {
        self.principals.iter().map(|list| list.statements.len()).sum()
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reads the text of a store; what is faulty is left out, and told.
pub(in crate::config) fn read(text: &str, findings: &mut Findings) -> Option<Store> {
    let tree = tree::read_verbatim(text, findings)?;
    let raw = RawStore::read(&tree, findings)?;
    let list = |raw: &RawList| LearnedList {
        listed_for: ListedFor {
            user: raw.user.value.to_string(),
            database: raw.database.value.to_string(),
            application: raw.application.value.to_string(),
            client: raw.client.value.map(|range| range.to_string()),
        },
        statements: raw.statements.value.iter().map(statement).collect(),
    };
    Some(Store { principals: raw.principals.value.iter().map(list).collect() })
}

fn statement(raw: &RawStatement) -> Learned {
    Learned {
        fingerprint: raw.fingerprint.value.0.to_string(),
        allowed: raw.allowed.value,
        text: raw.text.value.clone(),
        kind: raw.kind.value.clone(),
        tables: raw.tables.value.clone(),
        first_seen: raw.first_seen.value.clone(),
        last_seen: raw.last_seen.value.clone(),
        count: u64::from(raw.count.value.0),
    }
}

section! {
    /// The store of the allow list.
    RawStore {
        /// Per entry of firewall.allow_list.principals
        principals: Vec<RawList> = "[]";
    }
}

section! {
    /// What was seen of an entry.
    RawList {
        /// As in the entry
        user: Glob = "'*'";
        /// As in the entry
        database: Glob = "'*'";
        /// As in the entry
        application: Glob = "'*'";
        /// As in the entry
        client: Option<crate::config::hba::Range> = "null";
        /// What was seen
        statements: Vec<RawStatement> = "[]";
    }
}

section! {
    /// A statement that was seen.
    RawStatement {
        /// Its public id
        fingerprint: FingerprintWord = "'0000000000000000'", required;
        /// Whether it is on the list
        allowed: bool = "false";
        /// With $n in the place of values
        text: String = "''";
        /// Its kind
        kind: String = "''";
        /// Relations it reads or writes
        tables: Vec<String> = "[]";
        /// UTC
        first_seen: String = "''";
        /// UTC
        last_seen: String = "''";
        /// How often
        count: Count<0, { u32::MAX }> = "0";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let statement = |text: &str, allowed| Learned {
            fingerprint: "0123456789abcdef".to_owned(),
            allowed,
            text: text.to_owned(),
            kind: "read".to_owned(),
            tables: vec!["t".to_owned(), "s.u".to_owned()],
            first_seen: "2026-12-01T00:00:00Z".to_owned(),
            last_seen: "2026-12-01T00:00:01Z".to_owned(),
            count: 7,
        };
        let client = Some("10.0.0.0/8".to_owned());
        let mut store = Store::default();
        let whom = ListedFor { user: "a*".to_owned(), client, ..ListedFor::anybody() };
        let texts = ["select $1", "select 'it''s'\n  -- \"x\"", "null", "on: [", "ünï"];
        store.list_mut(&whom).statements.extend(texts.map(|text| statement(text, true)));
        store.list_mut(&ListedFor::anybody()).statements.push(statement("~", false));
        let text = store.to_yaml().expect("a store can be written");
        assert_eq!(Store::parse("x", &text).expect(&text).0, store, "{text}");
        assert_eq!(Store::parse("x", "").expect("nothing is a store").0, Store::default());
        assert!(Store::parse("x", "principals: [{ statements: [{ fingerprint: x }] }]").is_err());
    }
}
