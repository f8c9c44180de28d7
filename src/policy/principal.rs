//! Who sends statements, as far as the rules ask.

use std::{collections::HashMap, net::IpAddr, rc::Rc};

use super::{allow_list::AllowListing, rule_set::RuleSet};

/// Principals that a worker remembers; more of them are not shared between sessions.
const MOST: usize = 4096;

/// What a session is known by.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Its login name.
    pub user: &'a str,
    /// The database as it named it.
    pub database: &'a str,
    /// `application_name`.
    pub application: &'a str,
    /// From where; `None`: a Unix socket.
    pub client: Option<IpAddr>,
    /// Whom a server takes it for: `$user` in `search_path`.
    pub role: &'a str,
    /// `search_path`, as a server shows it; `None`: PostgreSQL's own default.
    pub search_path: Option<&'a str>,
}

/// All sessions for which the same rules may hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Principal {
    /// Unlike any other of its worker.
    pub(super) id: u64,
    /// Rules of the firewall, by index, in order.
    pub(super) firewall: Box<[u32]>,
    /// Routing rules.
    pub(super) routing: Box<[u32]>,
    /// Rewrite rules.
    pub(super) rewrite: Box<[u32]>,
    /// Schemas in which unqualified names are looked for; empty if no rule asks.
    pub(super) path: Box<[Box<str>]>,
    /// What the allow list does.
    pub(super) listing: AllowListing,
}

impl Principal {
    /// What its sessions are judged by; `id` must be unlike any other's.
    pub(super) fn new(id: u64, rules: &RuleSet, identity: &Identity<'_>) -> Self {
        let path = if rules.asks_for_path() { path(identity) } else { Box::default() };
        Self {
            id,
            firewall: rules.firewall_for(identity),
            routing: rules.routing_for(identity),
            rewrite: rules.rewrite_for(identity),
            path,
            listing: rules.listing_for(identity),
        }
    }
}

/// The schemas of `search_path`; without one those of PostgreSQL's default.
fn path(identity: &Identity<'_>) -> Box<[Box<str>]> {
    let text = identity.search_path.unwrap_or("\"$user\", public");
    let schema = |name: &str| -> Box<str> {
        let name = name.trim();
        let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => name.to_lowercase(),
        };
        if name == "$user" { identity.role.into() } else { name.into() }
    };
    let mut schemas: Vec<Box<str>> = vec!["pg_catalog".into()];
    schemas.extend(text.split(',').map(schema).filter(|schema| !schema.is_empty()));
    schemas.into()
}

/// Principals of one worker, shared by the sessions that are alike.
#[derive(Debug, Default)]
pub(super) struct Principals {
    known: HashMap<Box<[u32]>, Vec<Rc<Principal>>>,
    count: usize,
    last: u64,
}

impl Principals {
    /// The principal of a session.
    pub(super) fn find(&mut self, rules: &RuleSet, identity: &Identity<'_>) -> Rc<Principal> {
        self.last += 1;
        let new = Principal::new(self.last, rules, identity);
        let alike = |old: &&Rc<Principal>| {
            (&old.firewall, &old.routing, &old.rewrite, &old.path, &old.listing)
                == (&new.firewall, &new.routing, &new.rewrite, &new.path, &new.listing)
        };
        if let Some(old) = self.known.get(&new.firewall).and_then(|list| list.iter().find(alike)) {
            return Rc::clone(old);
        }
        if self.count >= MOST {
            self.forget_unused();
        }
        let new = Rc::new(new);
        if self.count < MOST {
            self.count += 1;
            self.known.entry(new.firewall.clone()).or_default().push(Rc::clone(&new));
        }
        new
    }

    /// Forgets them all; no number is given twice.
    pub(super) fn clear(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }

    fn forget_unused(&mut self) {
        for list in self.known.values_mut() {
            list.retain(|principal| Rc::strong_count(principal) > 1);
        }
        self.known.retain(|_, list| !list.is_empty());
        self.count = self.known.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_path_is_read_as_the_server_shows_it() {
        for (text, schemas) in [
            (None, "pg_catalog app public"),
            (Some("\"$user\", public"), "pg_catalog app public"),
            (Some("ledger"), "pg_catalog ledger"),
            (Some("Ledger, \"Big One\""), "pg_catalog ledger Big One"),
            (Some(""), "pg_catalog"),
        ] {
            let (user, role, search_path) = ("login", "app", text);
            let identity = Identity { user, database: "d", application: "", client: None, role, search_path };
            assert_eq!(path(&identity).join(" "), schemas, "{text:?}");
        }
    }
}
