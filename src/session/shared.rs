//! What all workers share. Read on the path of a statement, written only off it.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use arc_swap::ArcSwap;

use super::{
    account::Account, admission::Admission, cancel::Keys, hashing::Hashing, lookup::Lookups, welcome::Singles,
};
use crate::{
    base::{Clock, Generation, NodeId},
    config::{Config, Database, Secret, User},
    observe::{Metrics, QUIET, Repeated, Repeats},
    policy::{Lesson, RuleSet},
    pool::Pools,
    route::ClusterView,
    sql::catalog::Published,
    wire::scram::{DEFAULT_ITERATIONS, MockSecret},
};

/// One generation of everything that a reload can change. A cycle loads it once and uses it to the end.
#[derive(Debug)]
pub struct Snapshot {
    /// Which.
    pub generation: Generation,
    /// The configuration.
    pub config: Arc<Config>,
    /// Per database, in the configuration's order: what is known of its nodes, published by the control plane.
    pub views: Vec<Arc<ArcSwap<ClusterView>>>,
    /// The rules.
    pub rules: Arc<RuleSet>,
    accounts: HashMap<Box<str>, Arc<Account>>,
    /// Those who are not configured, if they are looked up.
    pub(super) lookups: Option<Arc<Lookups>>,
    /// PBKDF2 rounds that unknown users seem to have: those of most known ones.
    pub(super) iterations: u32,
    /// Most known users have a verifier, rather than anything that answers an MD5 challenge.
    pub(super) mostly_scram: bool,
}

impl Snapshot {
    /// Prepares a checked configuration. Hashes passwords in clear text that `old` did not have.
    pub fn new(
        generation: Generation,
        config: Arc<Config>,
        rules: Arc<RuleSet>,
        views: Vec<Arc<ArcSwap<ClusterView>>>,
        old: Option<&Self>,
    ) -> Self {
        let account = |user: &Arc<User>| {
            let old = old.and_then(|old| old.account(&user.name));
            (user.name.as_str().into(), Arc::new(Account::new(Arc::clone(user), old.map(|old| &**old))))
        };
        let accounts: HashMap<Box<str>, Arc<Account>> = config.users.iter().map(account).collect();
        let iterations = usual_iterations(accounts.values());
        let scram = accounts.values().filter(|account| matches!(account.user.secret, Secret::Verifier(_))).count();
        // Without any it is as with PostgreSQL's default of password_encryption.
        let mostly_scram = scram * 2 >= accounts.len();
        let lookups = config.auth.query.as_ref().map(|_| {
            // What was told stays true if the question and who asks it stay the same.
            let kept = old.filter(|old| old.config.auth == config.auth).and_then(|old| old.lookups.clone());
            kept.unwrap_or_else(|| Arc::new(Lookups::new(config.workers)))
        });
        Self { generation, config, views, rules, accounts, lookups, iterations, mostly_scram }
    }

    /// The database a client may name, and its index: an exact name wins over `*`.
    pub fn database(&self, name: &str) -> Option<(usize, &Arc<Database>)> {
        let find = |wanted: &str| self.config.databases.iter().enumerate().find(|(_, d)| d.name == wanted);
        find(name).or_else(|| find("*"))
    }

    /// The configured user of this name.
    pub fn account(&self, name: &str) -> Option<&Arc<Account>> {
        self.accounts.get(name)
    }
}

fn usual_iterations<'a>(accounts: impl Iterator<Item = &'a Arc<Account>>) -> u32 {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for verifier in accounts.filter_map(|account| account.verifier.as_ref()) {
        *counts.entry(verifier.iterations).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(DEFAULT_ITERATIONS, |(iterations, _)| iterations)
}

/// Hears of statements; see [`Shared::learn`].
type Learn = Box<dyn Fn(&Lesson, u64) -> bool + Send + Sync>;

/// Finds a catalog by the names of a database: the configuration's, and the servers'.
pub type FindCatalog = Box<dyn Fn(&str, &str) -> Arc<Published> + Send + Sync>;

/// Everything workers share.
pub struct Shared {
    /// The present generation.
    pub snapshot: ArcSwap<Snapshot>,
    /// Its number; changed after it.
    pub generation: AtomicU64,
    /// Server connections.
    pub pools: Arc<Pools>,
    /// Cancel keys of all sessions.
    pub keys: Keys,
    /// Clients against limits.
    pub admission: Admission,
    /// Makes unknown users indistinguishable from known ones.
    pub mock: MockSecret,
    /// Hashes passwords given in clear text.
    pub hashing: Hashing,
    /// What servers have made of clients' wishes.
    pub singles: Singles,
    /// Nodes that gave no connection.
    pub unreached: Repeats,
    /// Databases whose users could not be looked up.
    pub unasked: Repeats,
    /// Nodes that ended a connection in use.
    pub lost: Repeats,
    /// Rules of the firewall that matched.
    pub matched: Repeats,
    /// Where logins that failed came from.
    pub turned_away: Repeats,
    /// See [`Shared::schema`].
    pub schema: AtomicU64,
    /// No new clients; idle ones leave.
    pub draining: AtomicBool,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The process's clock.
    pub clock: Clock,
    /// Asks the control plane to look at a node at once. Never blocks.
    pub suspect: Box<dyn Fn(NodeId) + Send + Sync>,
    /// Tells the allow list of a statement that came so often; false: there was no room. Never blocks.
    pub learn: Learn,
    /// What is known of the names in a database. Never blocks for long.
    pub catalog: FindCatalog,
    /// Hands a CancelRequest for a session (by pid) to its worker. Never blocks.
    pub forward_cancel: Box<dyn Fn(usize, u32) + Send + Sync>,
}

impl Shared {
    /// The schema may have changed: statements prepared from now on are not those prepared before.
    pub fn schema_changed(&self) {
        self.schema.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the schema may have changed.
    pub fn schema(&self) -> u64 {
        self.schema.load(Ordering::Relaxed)
    }

    /// The generation of the present snapshot, without touching it.
    pub fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// Publishes a new generation.
    pub fn publish(&self, snapshot: Snapshot) {
        let generation = snapshot.generation;
        self.snapshot.store(Arc::new(snapshot));
        self.generation.store(generation.0, Ordering::Release);
    }

    /// Is the process leaving?
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// A node could not be reached or refused a login. Said once, then counted.
    pub(super) fn no_connection(&self, node: &str, error: &dyn Display) {
        if self.unreached.is_new(node, error, Instant::now()) {
            tracing::warn!(node, %error, "no connection to node");
        }
    }

    /// A node has ended a connection on loan. Said once, then counted.
    pub(super) fn connection_lost(&self, node: &str, why: &dyn Display) {
        if self.lost.is_new(node, why, Instant::now()) {
            tracing::warn!(node, %why, "a server connection was lost");
        }
    }

    /// A rule of the firewall has matched. Said once for each user, then counted.
    pub(super) fn firewall_matched(&self, rule: &str, verdict: &str, user: &str, database: &str) {
        let about = format!("{rule} {verdict}");
        let words = format!("{user} {database}");
        if self.matched.is_new(&about, &words, Instant::now()) {
            tracing::warn!(rule, verdict, user, database, "a rule of the firewall matched");
        }
    }

    /// A client could not log in. Said once for each address, then counted.
    pub(super) fn login_failed(&self, client: &dyn Display, error: &dyn Display) {
        if self.turned_away.is_new(&client.to_string(), error, Instant::now()) {
            tracing::warn!(%client, %error, "a login failed");
        }
    }

    /// Users of a database could not be looked up. Said once, then counted.
    pub(super) fn lookup_failed(&self, database: &str, error: &dyn Display) {
        if self.unasked.is_new(database, error, Instant::now()) {
            tracing::warn!(database, %error, "auth.query failed");
        }
    }

    /// Says what was only counted for a while.
    pub(super) fn sum_up(&self, now: Instant) {
        let seconds = QUIET.as_secs();
        for Repeated { about, words, times } in self.unreached.due(now) {
            tracing::warn!(node = %about, times, seconds, error = words, "no connection to node, again and again");
        }
        for Repeated { about, words, times } in self.unasked.due(now) {
            tracing::warn!(database = %about, times, seconds, error = words, "auth.query fails again and again");
        }
        for Repeated { about, words, times } in self.matched.due(now) {
            tracing::warn!(rule = %about, times, seconds, who = words, "a rule of the firewall matched again and again");
        }
        for Repeated { about, words, times } in self.turned_away.due(now) {
            tracing::warn!(client = %about, times, seconds, error = words, "more logins failed");
        }
        for Repeated { about, words, times } in self.lost.due(now) {
            tracing::warn!(node = %about, times, seconds, why = words, "more server connections were lost");
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("clients", &self.clients()).finish_non_exhaustive()
    }
}
