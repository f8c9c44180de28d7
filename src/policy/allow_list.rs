//! Learned statements: whom the list is for, and what is on it.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use super::{condition::Text, principal::Identity};
use crate::{
    config::{
        self,
        rules::{AllowListMode, FirewallMode, Glob, ListedFor},
    },
    sql::{
        Facts, Fingerprint,
        facts::{Name, Verb},
    },
};

/// What the allow list does for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowListing {
    /// What happens.
    pub mode: AllowListMode,
    /// Which entry of `principals` it is by; their number stands for the default.
    pub entry: usize,
}

impl AllowListing {
    pub(super) fn is_off(self) -> bool {
        self.mode == AllowListMode::Off
    }
}

/// The list, per entry of `principals`.
#[derive(Debug)]
pub(super) struct AllowList {
    principals: Vec<config::Principal>,
    default: AllowListMode,
    /// Whom each list is for; one more than there are principals.
    listed_for: Vec<Arc<ListedFor>>,
    /// What is on it.
    known: Vec<HashSet<Fingerprint>>,
}

impl Default for AllowList {
    fn default() -> Self {
        Self { principals: Vec::new(), default: AllowListMode::Off, listed_for: Vec::new(), known: Vec::new() }
    }
}

/// What the list says to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// It is on it.
    Known,
    /// It is to be learned, or was.
    Learn,
    /// It is not on it.
    Unknown(FirewallMode),
}

impl AllowList {
    /// A list as it is configured, with what the store allows for each entry and, last, for the default.
    pub(super) fn new(settings: &config::AllowList) -> Self {
        let listed_for = settings.principals.iter().map(ListedFor::from).chain([ListedFor::anybody()]);
        let listed_for: Vec<Arc<ListedFor>> = listed_for.map(Arc::new).collect();
        let known = listed_for.iter().map(|whom| {
            let statements = settings.learned.list(whom).map(|list| list.statements.as_slice()).unwrap_or_default();
            let allowed = statements.iter().filter(|statement| statement.allowed);
            allowed.filter_map(|statement| statement.fingerprint.parse().ok()).collect()
        });
        let known = known.collect();
        Self { principals: settings.principals.clone(), default: settings.default, listed_for, known }
    }

    /// Whom the list of an entry is for.
    pub(super) fn listed_for(&self, listing: AllowListing) -> Option<&Arc<ListedFor>> {
        self.listed_for.get(listing.entry)
    }

    /// Nobody is subject to it.
    pub(super) fn is_off(&self) -> bool {
        self.default == AllowListMode::Off && self.principals.iter().all(|entry| entry.mode == AllowListMode::Off)
    }

    /// The most specific entry for a session; of equally specific ones the first.
    pub(super) fn listing(&self, identity: &Identity<'_>) -> AllowListing {
        let mut best: Option<(u32, usize)> = None;
        for (index, entry) in self.principals.iter().enumerate().filter(|(_, entry)| fits(entry, identity)) {
            let score = specific(entry);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, index));
            }
        }
        match best.and_then(|(_, index)| Some((index, self.principals.get(index)?))) {
            Some((entry, principal)) => AllowListing { mode: principal.mode, entry },
            None => AllowListing { mode: self.default, entry: self.principals.len() },
        }
    }

    /// Looks a statement up. Without a fingerprint it is on no list.
    pub(super) fn look_up(&self, listing: AllowListing, print: impl FnOnce() -> Option<Fingerprint>) -> Listed {
        match listing.mode {
            AllowListMode::Off => Listed::Known,
            AllowListMode::Learn => Listed::Learn,
            mode @ (AllowListMode::Detect | AllowListMode::Protect) => {
                let known = self.known.get(listing.entry).zip(print());
                if known.is_some_and(|(known, print)| known.contains(&print)) {
                    return Listed::Known;
                }
                Listed::Unknown(match mode {
                    AllowListMode::Protect => FirewallMode::Protect,
                    AllowListMode::Off | AllowListMode::Learn | AllowListMode::Detect => FirewallMode::Detect,
                })
            }
        }
    }
}

fn fits(entry: &config::Principal, identity: &Identity<'_>) -> bool {
    entry.user.matches(identity.user)
        && entry.database.matches(identity.database)
        && entry.application.matches(identity.application)
        && entry.client.is_none_or(|range| identity.client.is_some_and(|address| range.contains(address)))
}

/// A whole name says more than a pattern, a pattern more than nothing; the user counts most.
fn specific(entry: &config::Principal) -> u32 {
    let glob = |glob: &Glob| match glob {
        Glob::Any => 0,
        Glob::Pattern(_) => 1,
        Glob::Exact(_) => 2,
    };
    let client = u32::from(entry.client.is_some());
    glob(&entry.user) << 6 | glob(&entry.database) << 4 | glob(&entry.application) << 2 | client
}

/// A statement as people review it: with what its print counts though it is a value.
pub(super) fn shown(facts: &Facts, text: &Text<'_>) -> Option<String> {
    if is_do(facts) {
        return Some(String::from_utf8_lossy(text.bytes()).into_owned());
    }
    let form = text.normalized()?;
    let names: Vec<&str> = set_by_calls(facts).collect();
    Some(if names.is_empty() { form } else { format!("{form} /* {} */", names.join(", ").replace("*/", "")) })
}

/// Relations that a statement reads or writes, as the store has them.
pub(super) fn tables_of(facts: &Facts) -> Arc<[String]> {
    let name = |name: &Name| match &name.schema {
        Some(schema) => format!("{schema}.{}", name.name),
        None => name.name.to_string(),
    };
    let tables: BTreeSet<String> = facts.reads.iter().chain(&facts.writes).map(name).collect();
    tables.into_iter().collect()
}

/// The form of a statement, as the list has it. To pg_query's fingerprint the body of DO and the name that set_config is given are values like any
/// other, and schemas say nothing; so these count here besides.
pub(super) fn print_of(facts: &Facts, text: &Text<'_>) -> Option<Fingerprint> {
    let body = is_do(facts).then(|| text.bytes());
    let set = set_by_calls(facts).map(str::as_bytes);
    let relations =
        facts.reads.iter().chain(&facts.writes).filter_map(|name| Some([name.schema.as_deref()?, &name.name]));
    let parts = body.into_iter().chain(set).chain(relations.flatten().map(str::as_bytes));
    Some(parts.fold(text.fingerprint()?, Fingerprint::and))
}

fn is_do(facts: &Facts) -> bool {
    facts.acts.iter().any(|act| act.verb == Verb::Do)
}

/// Parameters that are set by calls of set_config: of SET itself the fingerprint tells the name.
fn set_by_calls(facts: &Facts) -> impl Iterator<Item = &str> {
    let by_calls = facts.acts.iter().filter(|act| !matches!(act.verb, Verb::Set | Verb::Reset));
    by_calls.flat_map(|act| &act.parameters).map(|name| &**name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_entry_counts() {
        let entry = |user: &str, application: &str, mode| config::Principal {
            user: Glob::new(user).expect("a glob"),
            database: Glob::Any,
            application: Glob::new(application).expect("a glob"),
            client: None,
            mode,
        };
        let settings = config::AllowList {
            default: AllowListMode::Protect,
            principals: vec![
                entry("a*", "*", AllowListMode::Learn),
                entry("app", "*", AllowListMode::Detect),
                entry("app", "psql", AllowListMode::Off),
            ],
            ..config::AllowList::default()
        };
        let list = AllowList::new(&settings);
        for (user, application, mode, entry) in [
            ("anna", "x", AllowListMode::Learn, 0),
            ("app", "x", AllowListMode::Detect, 1),
            ("app", "psql", AllowListMode::Off, 2),
            ("bob", "psql", AllowListMode::Protect, 3),
        ] {
            let identity = Identity { user, database: "d", application, client: None, role: user, search_path: None };
            assert_eq!(list.listing(&identity), AllowListing { mode, entry }, "{user} {application}");
        }
        assert!(!list.is_off());
    }
}
