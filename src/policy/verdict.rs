//! What the rules say to a statement.

use std::{sync::Arc, time::Duration};

use super::hits::{HitKind, Hits};
use crate::{
    base::SqlState,
    config::{
        MaxLag,
        rules::{ListedFor, RouteTo, Safety},
    },
    sql::Fingerprint,
};

/// The part of a rule file that a rule stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "interface.md's words")]
pub enum Section {
    Firewall,
    Routing,
    Cache,
    Rewrite,
}

impl Section {
    /// The key in rule files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Firewall => "firewall",
            Self::Routing => "routing",
            Self::Cache => "cache",
            Self::Rewrite => "rewrite",
        }
    }
}

/// A refusal, with the rule that asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The rule's name.
    pub rule: Arc<str>,
    /// Its error.
    pub sqlstate: SqlState,
    /// What the client reads.
    pub message: Arc<str>,
    /// What led to it, where the rule's name does not say that.
    pub why: Option<Arc<str>>,
}

/// How much a statement may give by one rule.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The rule's name.
    pub rule: Arc<str>,
    /// Most rows.
    pub rows: Option<u64>,
    /// Most bytes of rows.
    pub bytes: Option<u64>,
    /// What comes of more: only `HitKind::Deny` ends the statement.
    pub kind: HitKind,
    /// Its counters.
    pub hits: Arc<Hits>,
}

/// Where a rule sends a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteOrder {
    /// The rule's name.
    pub rule: Arc<str>,
    /// Where to.
    pub to: RouteTo,
    /// Only replicas with one of these; empty: any.
    pub tags: Arc<[String]>,
    /// Only replicas that are not further behind.
    pub max_lag: Option<MaxLag>,
    /// Whether the operator answers for it.
    pub safety: Safety,
}

impl RouteOrder {
    /// What it says of a statement's place.
    pub fn place(&self) -> RoutePlace {
        match (self.to, self.safety) {
            (RouteTo::Primary, _) => RoutePlace::Primary,
            (RouteTo::Replica, Safety::Proven) => RoutePlace::Replica,
            (RouteTo::Replica, Safety::Unsafe) => RoutePlace::ReplicaUnproven,
        }
    }
}

/// Where a rule sends a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutePlace {
    /// To the primary.
    Primary,
    /// To a replica, if it is proven to be a read.
    Replica,
    /// To a replica in any case; the operator answers for it.
    ReplicaUnproven,
}

/// A rule that matched.
#[derive(Clone, Debug)]
pub struct Matched {
    /// Where it stands.
    pub section: Section,
    /// Its name.
    pub name: Arc<str>,
    /// What it does, in the word of `explain`.
    pub action: &'static str,
    /// What came of it.
    pub kind: HitKind,
    /// Its counters.
    pub hits: Arc<Hits>,
}

/// What the rules say to a statement of a principal.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// It is refused.
    pub denial: Option<Denial>,
    /// A rule, or the allow list, would have refused it but only watches.
    pub detected: Option<Arc<str>>,
    /// It may give so much; all of them hold.
    pub limits: Box<[Limit]>,
    /// Where it goes.
    pub route: Option<RouteOrder>,
    /// It may run so long.
    pub timeout: Option<Duration>,
    /// Rules to rewrite it by, as indexes into those of the rule set.
    pub rewrites: Box<[u32]>,
    /// Every rule that matched, in order.
    pub matched: Box<[Matched]>,
    /// The allow list wants to know of it.
    pub lesson: Option<Lesson>,
}

/// What the allow list remembers of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// Whose list.
    pub listed_for: Arc<ListedFor>,
    /// The statement's public id.
    pub fingerprint: Fingerprint,
    /// With `$n` in the place of values.
    pub text: Arc<str>,
    /// Its kind, as `explain` names it.
    pub kind: &'static str,
    /// Relations it reads or writes.
    pub tables: Arc<[String]>,
    /// Whether it is allowed from now on.
    pub on: On,
}

/// What was learned of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// It is on the list.
    TheList,
    /// It came while nothing was to be learned: somebody has to promote it.
    Trial,
}

impl Verdict {
    /// The rule that decided what became of the statement.
    pub fn decided_by(&self) -> Option<&str> {
        let routed = self.route.as_ref().map(|route| &route.rule);
        self.denial.as_ref().map(|denial| &denial.rule).or(routed).map(|rule| &**rule)
    }

    /// Counts the rules that matched, but for those that change it.
    pub fn count(&self, worker: usize) {
        for matched in self.matched.iter().filter(|matched| matched.section != Section::Rewrite) {
            matched.hits.count(worker, matched.kind);
        }
    }

    /// Counts the rules that change it: asked of the text as the client has it.
    pub fn count_rewrites(&self, worker: usize) {
        for matched in self.matched.iter().filter(|matched| matched.section == Section::Rewrite) {
            matched.hits.count(worker, matched.kind);
        }
    }
}
