//! What all workers share. Read on the path of a statement, written only off it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::{account::Account, cancel::Keys, hashing::Hashing};
use crate::{
    base::{Clock, Generation, NodeId},
    config::{Config, Database, Secret, User},
    observe::Metrics,
    pool::Pools,
    route::ClusterView,
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
    accounts: HashMap<Box<str>, Arc<Account>>,
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
        Self { generation, config, views, accounts, iterations, mostly_scram }
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

/// Counts clients against the limits.
#[derive(Debug, Default)]
pub struct Admission {
    total: AtomicUsize,
    by_name: Mutex<HashMap<(Axis, Box<str>), usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Axis {
    User,
    Database,
}

/// A client that was let in; dropping it makes room.
#[derive(Debug)]
pub struct Admitted {
    shared: Arc<Shared>,
    names: [(Axis, Box<str>); 2],
}

/// A connection that is counted; dropping it makes room.
#[derive(Debug)]
pub struct Connected(Arc<Shared>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.admission.total.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.shared.admission.by_name.lock();
        for name in &self.names {
            if let Some(n) = counts.get_mut(name) {
                *n -= 1;
                if *n == 0 {
                    counts.remove(name);
                }
            }
        }
    }
}

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
    /// Hands a CancelRequest for a session (by pid) to its worker. Never blocks.
    pub forward_cancel: Box<dyn Fn(usize, u32) + Send + Sync>,
}

/// Too many, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// `limits.clients`.
    All,
    /// `limits.per_user` or the user's `max_clients`.
    User,
    /// `limits.per_database`.
    Database,
}

impl Shared {
    /// Counts a connection; it is over the limit or not, it is counted until dropped.
    pub fn connect(self: &Arc<Self>) -> (Connected, bool) {
        let before = self.admission.total.fetch_add(1, Ordering::Relaxed);
        (Connected(Arc::clone(self)), before < self.snapshot.load().config.limits.clients)
    }

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

    /// Connected clients.
    pub fn clients(&self) -> usize {
        self.admission.total.load(Ordering::Relaxed)
    }

    /// Lets a client in that has proved who it is, so that nobody can fill another's places without its password.
    pub fn admit(self: &Arc<Self>, user: &User, database: &Database, config: &Config) -> Result<Admitted, Full> {
        let names = [(Axis::User, user.name.as_str().into()), (Axis::Database, database.name.as_str().into())];
        let caps = [user.max_clients.or(config.limits.per_user), config.limits.per_database];
        let mut counts = self.admission.by_name.lock();
        for ((name, cap), full) in names.iter().zip(caps).zip([Full::User, Full::Database]) {
            if cap.is_some_and(|cap| counts.get(name).copied().unwrap_or(0) >= cap) {
                return Err(full);
            }
        }
        for name in &names {
            *counts.entry(name.clone()).or_default() += 1;
        }
        drop(counts);
        Ok(Admitted { shared: Arc::clone(self), names })
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("clients", &self.clients()).finish_non_exhaustive()
    }
}
