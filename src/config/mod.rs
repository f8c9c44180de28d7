//! Text → truth, once. `raw` lists the keys of the YAML file, `check` finds every fault and builds [`Config`].
//!
//! No room reads YAML or the environment after this one; nobody changes a [`Config`]: a reload makes a new one.

mod auth;
mod check;
mod encryption;
mod fault;
pub mod hba;
mod hostport;
mod load;
mod nodes;
mod raw;
pub mod rules;
mod schema;
mod section;
mod tree;
mod unbuilt;
mod users;
mod value;
mod verifier;
mod words;

use std::{fmt, net::SocketAddr, num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    base::NodeId,
    tls::{TowardsClients, TowardsServers},
};

pub use fault::{At, Fault, Faults, Warning};
pub use hba::Hba;
pub use load::{load_rules, rule_files};
use rules::{AllowListMode, FirewallMode, Glob, Hint, Store};
pub use schema::json_schema;

/// A checked configuration. Every reference resolves, every number is in range.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect. Not reloadable.
    pub listen: Vec<Listen>,
    /// Reactor threads, ≥ 1 (`auto` = one for every two cores). Not reloadable.
    pub workers: usize,
    /// What clients may ask for. Reloadable.
    pub databases: Vec<Arc<Database>>,
    /// Who may log in. Reloadable.
    pub users: Vec<Arc<User>>,
    /// Client authentication. Reloadable.
    pub auth: Auth,
    /// Encryption, its files read. Reloadable: new clients meet the new files, and servers are connected to anew if theirs
    /// have changed.
    pub tls: Tls,
    /// Caps and deadlines. Reloadable.
    pub limits: Limits,
    /// Admin HTTP listener, if any. Not reloadable.
    pub admin: Option<Admin>,
    /// Log level and format. Level reloads.
    pub log: Log,
    /// What happens to session features. Reloadable.
    pub session_guard: SessionGuard,
    /// The SQL firewall. Reloadable.
    pub firewall: Firewall,
    /// Globs of rule files, relative to the configuration file. Reloadable.
    pub rules: Vec<String>,
}

/// One listening address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `host:port`.
    Tcp(SocketAddr),
    /// A directory in which `.s.PGSQL.<port>` is made; the port is the first TCP listener's (6432 without one).
    Unix(PathBuf),
}

/// How many transactions a server connection serves before it may go to another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PgBouncer's words")]
pub enum PoolMode {
    Transaction,
    Session,
    Statement,
}

/// What clients name in the startup packet.
#[derive(Clone)]
pub struct Database {
    /// The name clients use; `*` matches any other name.
    pub name: String,
    /// The name on the servers; `None`: the same.
    pub dbname: Option<String>,
    /// Its PostgreSQL nodes, ≥ 1.
    pub nodes: Vec<Node>,
    /// Log in to servers as this user instead of the client's.
    pub server_user: Option<String>,
    /// Its password.
    pub server_password: Option<String>,
    /// Pool shape, per node and user.
    pub pool: Pool,
    /// Read/write splitting.
    pub routing: Routing,
}

/// One PostgreSQL server.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Unique over the whole configuration: the same host, port give the same id in every database.
    pub id: NodeId,
    /// For people; default `host:port`.
    pub name: String,
    /// Host name, address, or an absolute directory for a Unix socket.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What the operator says it is.
    pub role: RoleSetting,
    /// Share of reads relative to the others, ≥ 0 (0: none), default 1.
    pub weight: u32,
    /// For rules.
    pub tags: Vec<String>,
}

/// `role:` of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleSetting {
    /// `pg_is_in_recovery()` decides, again and again.
    Auto,
    /// Fixed.
    Primary,
    /// Fixed.
    Replica,
}

/// `pool:`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Default transaction.
    pub mode: PoolMode,
    /// Most server connections per node and user, ≥ 1, default 20.
    pub size: usize,
    /// Kept warm, default 0.
    pub min_idle: usize,
    /// Longest wait for a free connection, default 5 s.
    pub checkout_timeout: Duration,
    /// An idle connection older than this is closed, default 10 min; zero: never.
    pub idle_timeout: Duration,
    /// A connection older than this is not used again, default 1 h; zero: never.
    pub max_lifetime: Duration,
    /// Prepared statements kept per server connection, ≥ 1, default 500.
    pub max_prepared: usize,
}

/// Where reads go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "interface.md's words")]
pub enum Reads {
    Replica,
    Primary,
}

/// What a session's reads may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Any replica within max_lag.
    Off,
    /// A session sees its own writes.
    Session,
}

/// When no replica fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "interface.md's words")]
pub enum OnNoReplica {
    Primary,
    Wait,
    Error,
}

/// `on_timeout:` of a read that waited for a fresh enough replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "interface.md's words")]
pub enum OnTimeout {
    Primary,
    Error,
    Stale,
}

/// `unknown_functions:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "interface.md's words")]
pub enum UnknownFunctions {
    Primary,
    TryReplica,
}

/// `balance:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "interface.md's words")]
pub enum Balance {
    LeastLatency,
    LeastConnections,
    RoundRobin,
    Random,
}

/// A replica further behind than this takes no reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxLag {
    /// By time.
    Time(Duration),
    /// By bytes of WAL.
    Bytes(u64),
}

/// `routing:`.
#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    /// Default replica.
    pub reads: Reads,
    /// Default session.
    pub consistency: Consistency,
    /// How long a read waits for a replica to catch up, default 0.
    pub wait: Duration,
    /// Default primary.
    pub on_timeout: OnTimeout,
    /// Default 30 s.
    pub max_lag: MaxLag,
    /// Default primary.
    pub on_no_replica: OnNoReplica,
    /// Default primary.
    pub unknown_functions: UnknownFunctions,
    /// Default least_latency.
    pub balance: Balance,
    /// BEGIN is answered at once and sent with the first statement, default true.
    pub defer_begin: bool,
}

/// What a user of the configuration proves itself with. Its `Debug` shows only the kind.
#[derive(Clone, PartialEq)]
pub enum Secret {
    /// Clear text.
    Password(String),
    /// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, checked for form.
    Verifier(String),
    /// `md5<32 hex>` as in pg_authid.
    Md5(String),
    /// None: only `trust` lets this user in.
    None,
}

/// `users:` entry.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Password or verifier.
    pub secret: Secret,
    /// Databases it may use; `None`: all.
    pub databases: Option<Vec<String>>,
    /// Overrides `pool.size`.
    pub pool_size: Option<usize>,
    /// Most clients of this user; without it `limits.per_user`.
    pub max_clients: Option<usize>,
    /// A request of it that runs longer is cancelled; zero: only `limits.query` counts.
    pub statement_timeout: Duration,
    /// Most statements in a time; none: as many as it likes.
    pub rate: Option<Rate>,
    /// Hints it may give; `None`: those that only tighten.
    pub hints: Option<Vec<Hint>>,
}

/// `users[].rate`: as many statements may come at once, and come again evenly over the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Statements, 1 to 1,000,000.
    pub statements: NonZeroU32,
    /// A second, a minute or an hour.
    pub per: Duration,
}

/// `auth:`. Its `Debug` shows no password.
#[derive(Clone, PartialEq)]
pub struct Auth {
    /// How clients prove who they are where no [`Hba`] says it.
    pub method: AuthMethod,
    /// Who may come from where, and how it proves who it is. `None`: everybody, by `method`.
    pub hba: Option<Arc<Hba>>,
    /// Asks a server for users that are not configured; `$1` is the name.
    pub query: Option<String>,
    /// Who asks it, and whom nodes are probed as, where a database has no `server_user`.
    pub user: Option<String>,
    /// Its password, in clear text.
    pub password: Option<String>,
    /// The servers' database in which it is asked; `None`: the one the client wants.
    pub database: Option<String>,
}

/// `auth.method`, or a line of an [`Hba`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "pg_hba.conf's words")]
pub enum AuthMethod {
    Trust,
    Md5,
    ScramSha256,
    Cert,
}

/// `tls:`. Concerns TCP only: a Unix socket is never encrypted, as in PostgreSQL.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Towards clients; `None`: SSLRequest is answered N. Default none.
    pub client: Option<Arc<TowardsClients>>,
    /// Towards servers: pools, probes and CancelRequests. Default in the clear.
    pub server: TowardsServers,
}

/// `limits:`. A zero duration means: no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Most clients, default 10000.
    pub clients: usize,
    /// Most clients of one user, default none.
    pub per_user: Option<usize>,
    /// Most clients of one database, default none.
    pub per_database: Option<usize>,
    /// From accept to the first ReadyForQuery, default 60 s.
    pub login: Duration,
    /// A client idle outside a transaction, default none.
    pub idle_client: Duration,
    /// A client idle inside a transaction, default none.
    pub idle_in_transaction: Duration,
    /// A statement's run time, default none.
    pub query: Duration,
    /// From SIGTERM to the last cut, default 30 s.
    pub shutdown: Duration,
    /// Longest message, default 1 GiB (PostgreSQL's own limit).
    pub message: u32,
    /// Longest text that is parsed, default 1 MiB; longer ones go to the primary unread.
    pub parse: usize,
}

/// `admin:`. Its `Debug` shows only the number of tokens.
#[derive(Clone, PartialEq)]
pub struct Admin {
    /// Where /metrics, /healthz, /readyz and the API listen.
    pub listen: SocketAddr,
    /// Bearer tokens for everything but /metrics, /healthz, /readyz; empty: only from loopback.
    pub tokens: Vec<String>,
}

/// `log.format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "interface.md's words")]
pub enum LogFormat {
    Text,
    Json,
}

/// `log:`.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// A tracing filter: `info`, `debug`, `pgsluice::pool=debug`, …
    pub level: String,
    /// Default text.
    pub format: LogFormat,
}

/// State of a server session that does not follow a client to another server connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "interface.md's words")]
pub enum Feature {
    Listen,
    TempTable,
    AdvisoryLock,
    WithHoldCursor,
    Prepare,
    Set,
    Load,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Listen, Self::TempTable, Self::AdvisoryLock, Self::WithHoldCursor, Self::Prepare, Self::Set, Self::Load];

    /// The word in the configuration, in errors and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::TempTable => "temp_table",
            Self::AdvisoryLock => "advisory_lock",
            Self::WithHoldCursor => "with_hold_cursor",
            Self::Prepare => "prepare",
            Self::Set => "set",
            Self::Load => "load",
        }
    }
}

/// What happens when a client uses such a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardMode {
    /// Nothing: the state stays behind on the server connection, and is gone when another client uses that.
    Allow,
    /// Like pin, and the log says so once per session and feature.
    Warn,
    /// The client keeps its server connection while the state lasts.
    Pin,
    /// ERROR 0A000.
    Block,
}

/// `session_guard:`.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionGuard {
    /// For features that are not listed, default pin.
    pub mode: GuardMode,
    /// Overrides per feature.
    pub features: Vec<(Feature, GuardMode)>,
    /// Most sessions of one pool (node and user) that are pinned at once, default no limit.
    pub max_pinned: Option<usize>,
}

impl SessionGuard {
    /// The mode for one feature.
    pub fn mode_of(&self, feature: Feature) -> GuardMode {
        self.features.iter().find(|(listed, _)| *listed == feature).map_or(self.mode, |(_, mode)| *mode)
    }
}

/// `firewall:`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Firewall {
    /// For rules that do not say; `None`: protect.
    pub mode: Option<FirewallMode>,
    /// Learned shapes.
    pub allow_list: AllowList,
}

/// `firewall.allow_list:`.
#[derive(Clone, Debug, PartialEq)]
pub struct AllowList {
    /// The file of the learned shapes, relative to the configuration.
    pub store: Option<PathBuf>,
    /// Most shapes.
    pub capacity: usize,
    /// For whoever no entry names.
    pub default: AllowListMode,
    /// The most specific one that fits counts.
    pub principals: Vec<Principal>,
    /// What the store holds.
    pub learned: Arc<Store>,
}

impl Default for AllowList {
    fn default() -> Self {
        Self {
            store: None,
            capacity: 10_000,
            default: AllowListMode::Off,
            principals: Vec::new(),
            learned: Arc::default(),
        }
    }
}

/// Whom a mode of the allow list is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Principal {
    /// Login names.
    pub user: Glob,
    /// Databases as clients name them.
    pub database: Glob,
    /// Application names.
    pub application: Glob,
    /// Where it comes from; `None`: anywhere.
    pub client: Option<hba::Range>,
    /// What happens.
    pub mode: AllowListMode,
}

impl Config {
    /// The port in the name of Unix sockets: the first TCP listener's, 6432 without one.
    pub fn port(&self) -> u16 {
        let tcp = self.listen.iter().find_map(|listen| match listen {
            Listen::Tcp(address) => Some(address.port()),
            Listen::Unix(_) => None,
        });
        tcp.unwrap_or(6432)
    }

    /// The database for a client's request: its own name, else `*`.
    pub fn database(&self, name: &str) -> Option<&Arc<Database>> {
        let named = self.databases.iter().find(|database| database.name == name && name != "*");
        named.or_else(|| self.databases.iter().find(|database| database.name == "*"))
    }

    /// The keys in which `new` differs and which only a restart takes over.
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        let changes = [
            ("listen", self.listen != new.listen),
            ("workers", self.workers != new.workers),
            (
                "admin.listen",
                self.admin.as_ref().map(|admin| admin.listen) != new.admin.as_ref().map(|admin| admin.listen),
            ),
            ("log.format", self.log.format != new.log.format),
        ];
        changes.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("name", &self.name)
            .field("dbname", &self.dbname)
            .field("nodes", &self.nodes)
            .field("server_user", &self.server_user)
            .field("server_password", &self.server_password.as_ref().map(|_| "…"))
            .field("pool", &self.pool)
            .field("routing", &self.routing)
            .finish()
    }
}

impl Secret {
    /// Tells verifiers and hashes from clear text, as PostgreSQL does; `None` for what is none of them.
    pub fn read(text: &str) -> Option<Self> {
        verifier::secret(text).ok()
    }
}

impl User {
    /// May it use the database of this name? `*` in its list: any.
    pub fn may_use(&self, database: &str) -> bool {
        self.databases.as_ref().is_none_or(|names| names.iter().any(|name| name == database || name == "*"))
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("method", &self.method)
            .field("hba", &self.hba)
            .field("query", &self.query)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("database", &self.database)
            .finish()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password(…)",
            Self::Verifier(_) => "Verifier(…)",
            Self::Md5(_) => "Md5(…)",
            Self::None => "None",
        })
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("listen", &self.listen).field("tokens", &self.tokens.len()).finish()
    }
}

#[cfg(test)]
mod tests;
