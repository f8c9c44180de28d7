//! One reactor's own things: buffers, the classifier, its sessions, its ways into the pools.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;

use super::{
    account::Account,
    cancel::Handle,
    half_open::HalfOpen,
    rewriting::Changes,
    rules::Lessons,
    scope::{Declarations, Scopes},
    shared::Shared,
    statements::Intern,
    unseen::{Stamp, Unseen, Words},
    welcome::Welcomes,
};
use crate::{
    base::Generation,
    config::{Database, Limits, User},
    net::Address,
    observe::WorkerMetrics,
    policy::Judgements,
    pool::{ConnectError, Local, Login, Owner, PoolKey, Proof, Settings},
    relay::Buffers,
    route::{ClusterView, Dice, NodeLoad},
    sql::{Classifier, Misroutes, catalog::Published},
    wire::scram::client::ServerFault,
};

/// What sessions on one thread share. Never crosses to another.
pub struct Worker {
    /// Its number.
    pub index: usize,
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// Its counters.
    pub metrics: Arc<WorkerMetrics>,
    /// Buffers.
    pub buffers: Rc<Buffers>,
    pub(super) classifier: RefCell<Classifier>,
    declared: Declarations,
    pub(super) judgements: RefCell<Judgements>,
    pub(super) lessons: RefCell<Lessons>,
    pub(super) changes: RefCell<Changes>,
    pub(super) misroutes: Arc<Misroutes>,
    pub(super) scopes: Scopes,
    pub(super) intern: Rc<Intern>,
    pub(super) dice: RefCell<Dice>,
    pub(super) welcomes: RefCell<Welcomes>,
    pub(super) half_open: Rc<HalfOpen>,
    /// What a server is asked about code that statements do not show.
    pub(super) words: Words,
    /// Counts spans of [`STALE`].
    time: Cell<u64>,
    since: Cell<Option<Instant>>,
    owners: Cell<u64>,
    tenants: RefCell<Tenants>,
    sessions: RefCell<HashMap<u32, Rc<Handle>>>,
    live: Cell<usize>,
}

/// After this long the schema is looked at again: somebody may have changed it without us.
const STALE: Duration = Duration::from_secs(10);

/// Verdicts each worker remembers.
const JUDGEMENTS: usize = 50_000;

/// Tenants by database and user.
type Tenants = HashMap<(Box<str>, Box<str>), Rc<Tenant>>;

/// A user of a database, on one worker: the pools its sessions lend from.
#[derive(Debug)]
pub struct Tenant {
    /// The generation it was made from.
    pub generation: Generation,
    /// The database.
    pub database: Arc<Database>,
    /// Its index.
    pub database_index: usize,
    /// Its slot in the metrics.
    pub slot: usize,
    /// The user.
    pub account: Arc<Account>,
    /// What is known of the nodes.
    pub view: Arc<ArcSwap<ClusterView>>,
    /// What is known of the names in it.
    pub catalog: Arc<Published>,
    /// Whom its servers take the sessions for.
    pub login: Box<str>,
    /// One per node, in the order of the database's nodes.
    pub locals: Box<[Rc<Local>]>,
    /// What the workers have measured of each node.
    pub loads: Box<[Arc<NodeLoad>]>,
    /// The generation's limits; those of this user where they are closer.
    pub limits: Limits,
    /// What is known of code that statements do not show.
    pub(super) unseen: RefCell<Unseen>,
    /// Sessions have asked what their sequences gave them last (currval, lastval).
    pub(super) recalls: Cell<bool>,
}

impl Worker {
    /// The worker of this number.
    pub fn new(
        index: usize,
        shared: Arc<Shared>,
        classifier: Classifier,
        misroutes: Arc<Misroutes>,
        metrics: Arc<WorkerMetrics>,
        buffers: Buffers,
    ) -> Self {
        let words = Words::new(classifier.functions());
        Self {
            index,
            metrics,
            shared,
            buffers: Rc::new(buffers),
            declared: Declarations::new(&classifier),
            classifier: RefCell::new(classifier),
            judgements: RefCell::new(Judgements::new(JUDGEMENTS)),
            lessons: RefCell::default(),
            changes: RefCell::default(),
            misroutes,
            scopes: Scopes::default(),
            intern: Rc::default(),
            dice: RefCell::new(Dice::seeded(rand::random::<u64>() ^ index as u64)),
            welcomes: RefCell::default(),
            half_open: Rc::default(),
            words,
            time: Cell::new(0),
            since: Cell::new(None),
            owners: Cell::new(0),
            tenants: RefCell::default(),
            sessions: RefCell::default(),
            live: Cell::new(0),
        }
    }

    /// The tenant of today's generation.
    pub(super) fn tenant(&self, account: &Arc<Account>, database: &str) -> Option<Rc<Tenant>> {
        let snapshot = self.shared.snapshot.load();
        self.declared.follow(&snapshot, &self.classifier);
        // What the caller has may be of an older generation than what it becomes part of here.
        let account = &account.today(&snapshot);
        let user = &account.user;
        let key = (user.name.as_str().into(), database.into());
        if let Some(tenant) = self.tenants.borrow().get(&key)
            && tenant.generation == snapshot.generation
            && tenant.account.is(account)
        {
            return Some(Rc::clone(tenant));
        }
        let (database_index, found) = snapshot.database(database)?;
        let view = Arc::clone(snapshot.views.get(database_index)?);
        let loads = view.load().nodes.iter().map(|node| Arc::clone(&node.load)).collect();
        let pool = &found.pool;
        let settings = Settings {
            // A server user's pool is that of all clients, so it can not have the size of one of them.
            size: user.pool_size.filter(|_| found.server_user.is_none()).unwrap_or(pool.size),
            min_idle: pool.min_idle,
            checkout_timeout: pool.checkout_timeout,
            idle_timeout: pool.idle_timeout,
            max_lifetime: pool.max_lifetime,
            max_prepared: pool.max_prepared,
            tls: snapshot.config.tls.server.clone(),
        };
        let server_user = found.server_user.as_deref().unwrap_or(&user.name);
        // The keys a client proves are those of its own user, never of the server_user.
        let (proof, keys) = match (&found.server_user, &found.server_password) {
            (Some(_), Some(password)) => (Proof::Password(password.as_str().into()), Arc::default()),
            (Some(_), None) => (Proof::None, Arc::default()),
            (None, _) => (account.proof(), Arc::clone(&account.keys)),
        };
        let dbname = found.dbname.as_deref().unwrap_or(database);
        let login = Login::new(server_user, dbname, proof, keys);
        let locals = found.nodes.iter().map(|node| {
            let key = PoolKey {
                database: found.name.as_str().into(),
                node: node.id,
                address: Address::new(&node.host, node.port),
                dbname: dbname.into(),
                user: server_user.into(),
            };
            let pool = self.shared.pools.pool(key, login.clone(), settings.clone());
            Rc::new(Local { pool, worker: self.index })
        });
        let tenant = Rc::new(Tenant {
            generation: snapshot.generation,
            database: Arc::clone(found),
            database_index,
            slot: self.shared.metrics.database(&found.name),
            account: Arc::clone(account),
            view,
            catalog: (self.shared.catalog)(&found.name, dbname),
            login: server_user.into(),
            locals: locals.collect(),
            loads,
            limits: limits_of(user, &snapshot.config.limits),
            unseen: RefCell::default(),
            recalls: Cell::default(),
        });
        self.tenants.borrow_mut().insert(key, Rc::clone(&tenant));
        Some(tenant)
    }

    /// A node gave no connection to somebody.
    pub(super) fn no_connection(&self, tenant: &Tenant, node: usize, error: &ConnectError) {
        if let Some(node) = tenant.database.nodes.get(node) {
            self.shared.no_connection(&node.name, error);
        }
        if matches!(error, ConnectError::Scram(ServerFault::ForeignKeys)) {
            // Its password was changed: the next login is to hear of that.
            if let Some(lookups) = &self.shared.snapshot.load().lookups {
                lookups.forget(&tenant.database.name, &tenant.account.user.name);
            }
        }
    }

    /// Goes up when other functions are declared.
    pub(super) fn declarations(&self) -> u64 {
        self.declared.count()
    }

    /// The state of the schema, as far as this worker knows.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp { schema: self.shared.schema(), time: self.time.get() }
    }

    /// A number for a new session.
    pub(super) fn owner(&self) -> Owner {
        let count = self.owners.replace(self.owners.get() + 1);
        Owner(count << 16 | self.index as u64)
    }

    /// Sessions living here.
    pub fn sessions(&self) -> usize {
        self.live.get()
    }

    pub(super) fn enter(&self, pid: u32) -> Rc<Handle> {
        let handle = Rc::<Handle>::default();
        self.sessions.borrow_mut().insert(pid, Rc::clone(&handle));
        self.live.set(self.live.get() + 1);
        handle
    }

    pub(super) fn leave(&self, pid: u32) {
        self.shared.keys.revoke(pid);
        if self.sessions.borrow_mut().remove(&pid).is_some() {
            self.live.set(self.live.get() - 1);
        }
    }

    /// A CancelRequest whose key was right.
    pub fn cancel(&self, pid: u32) {
        if let Some(handle) = self.sessions.borrow().get(&pid) {
            handle.cancel();
        }
    }

    /// Sessions should end when they are idle, and no others begin.
    pub fn drain(&self) {
        self.tell_lessons();
        self.half_open.end();
        for handle in self.sessions.borrow().values() {
            handle.end();
        }
    }

    /// Sessions end now, whatever they do.
    pub fn cut(&self) {
        for handle in self.sessions.borrow().values() {
            handle.cut();
        }
    }

    /// Closes what has been idle too long, and warms what should be. About once a second.
    pub fn sweep(&self) {
        self.tell_lessons();
        let now = Instant::now();
        if self.since.get().is_none_or(|since| now.saturating_duration_since(since) >= STALE) {
            self.since.set(Some(now));
            self.time.set(self.time.get() + 1);
        }
        for (_, pool) in self.shared.pools.all() {
            pool.sweep(self.index, now);
            if self.index == 0 && pool.wants() > 0 && pool.may_log_in() {
                let local = Rc::new(Local { pool, worker: self.index });
                tokio::task::spawn_local(async move {
                    if let Err(error) = local.warm().await {
                        tracing::debug!(%error, "warming a pool failed");
                    }
                });
            }
        }
        let snapshot = self.shared.snapshot.load();
        for (_, pool) in snapshot.lookups.iter().flat_map(|lookups| lookups.pools().all()) {
            pool.sweep(self.index, now);
        }
        let generation = snapshot.generation;
        // A client may ask a `*` entry for any name; what nobody uses and has no connections costs nothing to make again.
        self.tenants.borrow_mut().retain(|_, tenant| {
            let used = Rc::strong_count(tenant) > 1 || tenant.locals.iter().any(|local| local.pool.census().0 > 0);
            tenant.generation == generation && used
        });
        if self.index == 0 {
            self.shared.pools.forget_unused();
            if let Some(lookups) = &snapshot.lookups {
                lookups.pools().forget_unused();
            }
            self.shared.sum_up(now);
        }
        self.intern.sweep();
        self.metrics.prepared_texts(self.intern.len());
    }
}

fn limits_of(user: &User, limits: &Limits) -> Limits {
    let times = [user.statement_timeout, limits.query];
    let query = times.into_iter().filter(|time| !time.is_zero()).min().unwrap_or_default();
    Limits { query, ..limits.clone() }
}
