//! The configuration file as it is written: every key once, with its meaning, type, default, and whether a reload
//! takes it over. Readers and the JSON Schema both come from these lists.
//!
//! Durations: `250ms 5s 10m 1h`; sizes: `64KiB 16MiB 1GiB` or bytes. `check` gives the values their meaning.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{
    Balance, Feature, GuardMode, LogFormat, MaxLag, OnNoReplica, OnTimeout, PoolMode, Rate, Reads, RoleSetting,
    UnknownFunctions,
    fault::{At, Findings},
    hba::Range,
    rules::{AllowListMode, FirewallMode, Glob, Hint},
    section::section,
    tree::{Node, Tree},
    value::{Bytes, Count, Named, OneOrMany, Spanned, Value, scalar},
    words::{AuthWord, ConsistencyWord, Invalidation, ResetMode},
};
use crate::tls::{ClientMode, ServerMode};

/// A number of things: 1 to a million.
pub(super) type Some1 = Count<1, 1_000_000>;
/// A TCP port.
pub(super) type Port = Count<1, 65_535>;

section! {
    /// Configuration of pgsluice.
    Raw {
        /// Where clients connect: host:port, or an absolute directory for a Unix socket; one, or a list
        listen: OneOrMany<String> = "[]", required, restart;
        /// Reactor threads: auto (one for every two cores) or a number
        workers: Workers = "auto", restart;
        /// What clients may ask for, by name; "*" takes any other name
        databases: Named<RawDatabase> = "{}", required;
        /// Who may log in
        users: Vec<RawUser> = "[]";
        /// How clients prove who they are
        auth: RawAuth = "{}";
        /// Encryption towards clients and servers
        tls: RawTls = "{}";
        /// Caps and deadlines
        limits: RawLimits = "{}";
        /// What happens when a client uses state that belongs to one server connection
        session_guard: RawSessionGuard = "{}";
        /// Rule files, as globs relative to this file
        rules: OneOrMany<String> = "[]";
        /// The SQL firewall
        firewall: RawFirewall = "{}";
        /// HTTP for metrics, health and the API
        admin: Option<RawAdmin> = "null", restart;
        /// Logging
        log: RawLog = "{}";
    }
}

section! {
    /// A database as clients name it.
    RawDatabase {
        /// Its name on the servers; null: the same
        dbname: Option<String> = "null";
        /// Its PostgreSQL nodes: host:port, or a map
        nodes: Vec<RawNode> = "[]", required;
        /// Log in to servers as this user; null: as the client's user
        server_user: Option<String> = "null";
        /// The password of server_user
        server_password: Option<String> = "null";
        /// Server connections
        pool: RawPool = "{}";
        /// Where statements go
        routing: RawRouting = "{}";
        /// The result cache
        cache: RawCache = "{}";
    }
}

section! {
    /// One PostgreSQL server.
    RawNodeMap {
        /// For people; null: host:port
        name: Option<String> = "null";
        /// Host name, address, or an absolute directory for a Unix socket
        host: String = "''", required;
        /// Port
        port: Port = "5432";
        /// auto: pg_is_in_recovery() decides
        role: RoleSetting = "auto";
        /// Share of reads relative to the others; 0: none
        weight: Count<0, 1_000_000> = "1";
        /// For rules
        tags: Vec<String> = "[]";
    }
}

section! {
    /// Server connections, per node and user.
    RawPool {
        /// When a server connection may go to another client
        mode: PoolMode = "transaction";
        /// Most server connections
        size: Some1 = "20";
        /// Connections kept ready
        min_idle: Count<0, 1_000_000> = "0";
        /// Longest wait for a free connection
        checkout_timeout: Duration = "5s";
        /// A connection idle for longer is closed; 0: never
        idle_timeout: Duration = "10m";
        /// A connection older than this is not used again; 0: never
        max_lifetime: Duration = "1h";
        /// Prepared statements kept on a server connection
        max_prepared: Some1 = "500";
        /// How a server connection is cleaned before another client gets it
        reset: ResetMode = "targeted";
    }
}

section! {
    /// Where statements go.
    RawRouting {
        /// Where proven reads go
        reads: Reads = "replica";
        /// What a session's reads may miss
        consistency: ConsistencyWord = "session";
        /// How long a read may wait for a replica to catch up
        wait: Duration = "0ms";
        /// What happens when that time is over
        on_timeout: OnTimeout = "primary";
        /// A replica further behind takes no reads; a duration or a size of WAL
        max_lag: MaxLag = "30s";
        /// What happens to reads when no replica fits
        on_no_replica: OnNoReplica = "primary";
        /// Where a statement goes that calls a function nothing is known about
        unknown_functions: UnknownFunctions = "primary";
        /// How a replica is chosen
        balance: Balance = "least_latency";
        /// Answer BEGIN at once and send it with the first statement
        defer_begin: bool = "true";
    }
}

section! {
    /// The result cache.
    RawCache {
        /// Not supported by this version
        enabled: bool = "false";
        /// Memory for results
        memory: Bytes<0, { u64::MAX }> = "256MiB";
        /// Longest result that is kept
        max_result: Bytes<0, { u64::MAX }> = "1MiB";
        /// What tells that a result is out of date
        invalidation: Invalidation = "statements";
    }
}

section! {
    /// Somebody who may log in.
    RawUser {
        /// Login name
        name: String = "''", required;
        /// Clear text, a SCRAM-SHA-256$… verifier, or md5…; null: looked up by auth.query, or only let in by trust
        password: Option<String> = "null";
        /// Databases it may use; "*" or null: all
        databases: Option<Vec<Spanned<String>>> = "null";
        /// Overrides pool.size; not where a server_user is shared by all
        pool_size: Option<Some1> = "null";
        /// Most clients of this user; null: limits.per_user
        max_clients: Option<Some1> = "null";
        /// A request running longer is cancelled; the shorter of this and limits.query counts
        statement_timeout: Option<Duration> = "null";
        /// Most statements: 100 or "100/s" a second, "600/m" a minute, "5000/h" an hour, and as many at once
        rate: Option<Rate> = "null";
        /// Hints this user may give: primary, replica, timeout, no_cache; null: those that only tighten, all but replica
        hints: Option<Vec<Hint>> = "null";
    }
}

section! {
    /// How clients prove who they are.
    RawAuth {
        /// As in pg_hba.conf; cert: the common name of the client's certificate is the user's
        method: AuthWord = "scram-sha-256";
        /// A file like pg_hba.conf, relative to this one, that says who may come from where and by which method; replaces method
        hba_file: Option<String> = "null";
        /// Fetches user and secret of $1 from a server, for users that have no password here
        query: Option<String> = "null";
        /// Runs query; null: each database's server_user does. Where a database has none, nodes are probed as this user
        user: Option<String> = "null";
        /// The password of user, in clear text; null: that of the same name in users
        password: Option<String> = "null";
        /// The database on the servers in which query runs; null: the one the client wants (for "*": postgres)
        database: Option<String> = "null";
    }
}

section! {
    /// Encryption over TCP; Unix sockets are never encrypted. Files are PEM, relative to this file.
    RawTls {
        /// Towards clients
        client: RawTlsClient = "{}";
        /// Towards servers
        server: RawTlsServer = "{}";
    }
}

section! {
    /// Encryption towards clients.
    RawTlsClient {
        /// disable: none is offered; prefer: offered; require: clients in the clear are refused; verify: they must show a certificate signed by ca, too
        mode: ClientMode = "disable";
        /// Certificate file, followed by the intermediate ones; needed unless disable
        cert: Option<String> = "null";
        /// Key file, without passphrase; needed unless disable
        key: Option<String> = "null";
        /// Authorities for client certificates: those that are shown must be signed by one; null: none is asked for
        ca: Option<String> = "null";
    }
}

section! {
    /// Encryption towards servers.
    RawTlsServer {
        /// As libpq's sslmode: disable, prefer, require (with ca: verify-ca), verify-ca, verify-full (needs no ca: Mozilla's authorities)
        mode: ServerMode = "disable";
        /// Authorities for server certificates
        ca: Option<String> = "null";
    }
}

section! {
    /// Caps and deadlines. A duration of 0 means: no limit.
    RawLimits {
        /// Most clients
        clients: Some1 = "10000";
        /// Most clients of one user
        per_user: Option<Some1> = "null";
        /// Most clients of one database
        per_database: Option<Some1> = "null";
        /// From connecting to the end of the login
        login: Duration = "60s";
        /// A client idle outside a transaction is disconnected
        idle_client: Duration = "0s";
        /// A client idle inside a transaction is disconnected
        idle_in_transaction: Duration = "0s";
        /// A statement running longer is cancelled
        query: Duration = "0s";
        /// Time for clients to finish at shutdown
        shutdown: Duration = "30s";
        /// Longest message; PostgreSQL's own limit is 1GiB
        message: Bytes<{ 64 << 10 }, { 1 << 30 }> = "1GiB";
        /// Longest statement that is read; a longer one goes to the primary
        parse: Bytes<0, { 1 << 30 }> = "1MiB";
    }
}

section! {
    /// What happens when a client uses state that belongs to one server connection.
    RawSessionGuard {
        /// pin: the client keeps its server connection while the state lasts; warn: so does it, and the log tells; block:
        /// ERROR 0A000; allow: the state stays behind and is gone as soon as another client uses that connection
        mode: GuardMode = "pin";
        /// The same per feature
        features: RawFeatures = "{}";
        /// Most sessions of one pool (node and user) that keep a server connection at once; one more gets ERROR 53400; null: no limit
        max_pinned: Option<Some1> = "null";
    }
}

section! {
    /// session_guard.mode for one feature; null: session_guard.mode.
    RawFeatures {
        /// LISTEN
        listen: Option<GuardMode> = "null";
        /// Temporary tables, views and sequences
        temp_table: Option<GuardMode> = "null";
        /// Session-level advisory locks
        advisory_lock: Option<GuardMode> = "null";
        /// DECLARE … WITH HOLD
        with_hold_cursor: Option<GuardMode> = "null";
        /// PREPARE in SQL
        prepare: Option<GuardMode> = "null";
        /// SET of a parameter that can not follow the client
        set: Option<GuardMode> = "null";
        /// LOAD
        load: Option<GuardMode> = "null";
    }
}

impl RawFeatures {
    /// What the file says about each feature.
    pub(super) fn each(&self) -> [(Feature, &Spanned<Option<GuardMode>>); 7] {
        [
            (Feature::Listen, &self.listen),
            (Feature::TempTable, &self.temp_table),
            (Feature::AdvisoryLock, &self.advisory_lock),
            (Feature::WithHoldCursor, &self.with_hold_cursor),
            (Feature::Prepare, &self.prepare),
            (Feature::Set, &self.set),
            (Feature::Load, &self.load),
        ]
    }
}

section! {
    /// The SQL firewall.
    RawFirewall {
        /// off, detect or protect, for all structural rules that do not say; null: protect. protect also refuses what can not be
        /// parsed; null does so if there are rules of the firewall
        mode: Option<FirewallMode> = "null";
        /// Learned statement shapes
        allow_list: RawAllowList = "{}";
    }
}

section! {
    /// Learned statement shapes.
    RawAllowList {
        /// File of the learned shapes
        store: Option<String> = "null";
        /// Most shapes
        capacity: Some1 = "10000";
        /// For whoever no entry names
        default: AllowListMode = "'off'";
        /// Modes for some; the most specific entry wins
        principals: Vec<RawPrincipal> = "[]";
    }
}

section! {
    /// Whom a mode of the allow-list is for.
    RawPrincipal {
        /// User, a glob
        user: Glob = "'*'";
        /// Database, a glob
        database: Glob = "'*'";
        /// Application name, a glob
        application: Glob = "'*'";
        /// Address block of the client; null: any, and Unix sockets
        client: Option<Range> = "null";
        /// What happens
        mode: AllowListMode = "'off'", required;
    }
}

section! {
    /// HTTP for metrics, health and the API.
    RawAdmin {
        /// host:port
        listen: String = "''", required;
        /// Bearer tokens for everything but /metrics, /healthz, /readyz; none: only from this machine
        tokens: Vec<String> = "[]";
    }
}

section! {
    /// Logging.
    RawLog {
        /// error, warn, info, debug, trace, or a filter such as info,pgsluice::pool=debug
        level: String = "info";
        /// text or json
        format: LogFormat = "text", restart;
    }
}

/// `workers:`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Workers {
    Auto,
    Fixed(u32),
}

impl Value for Workers {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        const ALLOWED: &str = "auto, or a whole number from 1 to 1024";
        let text = scalar(tree, ALLOWED, findings)?;
        let number = text.parse().ok().filter(|n| (1..=1024).contains(n)).map(Self::Fixed);
        let read = if text == "auto" { Some(Self::Auto) } else { number };
        if read.is_none() {
            findings.fault(&tree.at, format!("`{text}` does not fit here"), ALLOWED);
        }
        read
    }

    fn schema() -> Json {
        json!({ "anyOf": [{ "const": "auto" }, { "type": "integer", "minimum": 1, "maximum": 1024 }] })
    }
}

/// `nodes:` entry: short or long.
#[derive(Clone, Debug)]
pub(super) enum RawNode {
    Short(Spanned<String>),
    Long(Box<RawNodeMap>, At),
}

impl Value for RawNode {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        match &tree.node {
            Node::Map(_) => RawNodeMap::read(tree, findings).map(|map| Self::Long(Box::new(map), tree.at.clone())),
            Node::Scalar { .. } | Node::List(_) | Node::Broken => Value::read(tree, findings).map(Self::Short),
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "string", "description": "host:port" }, RawNodeMap::schema()] })
    }
}
