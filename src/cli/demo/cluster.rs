//! A primary and its streaming replicas on loopback, below one temporary directory.
//!
//! `initdb` once; each replica begins as a copy of the primary's directory before its first start, which is a
//! cleanly shut down cluster, and then streams. Users `postgres` (superuser) and `app`, both with the
//! password `secret`; database `app` belongs to `app`.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    binaries::Binaries,
    guard::Guard,
    node::{Node, run, until},
};

/// The password of both users.
pub const PASSWORD: &str = "secret";

/// Settings of every server. Durability is not wanted here; `wal_keep_size` lets a replica that was down catch up.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    // Each proxy of a test run keeps three or four for itself.
    ("max_connections", "400"),
    ("shared_buffers", "16MB"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("wal_level", "replica"),
    ("max_wal_senders", "10"),
    ("wal_keep_size", "512MB"),
    ("hot_standby", "on"),
    ("wal_receiver_status_interval", "1s"),
    ("wal_retrieve_retry_interval", "200ms"),
    ("max_prepared_transactions", "10"),
    ("max_logical_replication_workers", "0"),
    ("autovacuum", "off"),
    ("jit", "off"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("lc_messages", "C"),
    ("update_process_title", "off"),
];

/// How servers check who connects over TCP; Unix sockets are always trusted (the directory is private).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAuth {
    /// No question asked.
    Trust,
    /// MD5 challenge.
    Md5,
    /// SCRAM-SHA-256.
    Scram,
}

impl HostAuth {
    fn hba_word(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Md5 => "md5",
            Self::Scram => "scram-sha-256",
        }
    }

    fn password_encryption(self) -> &'static str {
        if self == Self::Md5 { "md5" } else { "scram-sha-256" }
    }
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Streaming replicas, 0 to 8.
    pub replicas: usize,
    /// Authentication over TCP.
    pub auth: HostAuth,
    /// Further settings for all servers, by name; they win over ours.
    pub settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { replicas: 2, auth: HostAuth::Scram, settings: Vec::new() }
    }
}

/// Why a throw-away cluster could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No installation found.
    #[error("no PostgreSQL found: set PG_BIN to the directory with initdb and postgres, or install postgresql")]
    NoPostgres,
    /// We are root, and PostgreSQL must not be.
    #[error("running as root needs the system account postgres for the servers, and there is none")]
    NoAccount,
    /// The operating system said no.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A program or a server said no.
    #[error("{what} failed: {answer}")]
    Refused {
        /// Which program.
        what: String,
        /// What it printed.
        answer: String,
    },
    /// It did not happen in time.
    #[error("waited too long for {what}")]
    TooSlow {
        /// For what.
        what: String,
    },
}

impl ClusterError {
    pub(super) fn io(what: &str, source: io::Error) -> Self {
        Self::Io { what: what.to_owned(), source }
    }

    pub(super) fn refused(what: &str, answer: &str) -> Self {
        Self::Refused { what: what.to_owned(), answer: answer.trim().to_owned() }
    }
}

/// A running primary and its replicas. Dropping it, or the end of this process in any way, removes all of it.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    dir: PathBuf,
    binaries: Binaries,
    _guard: Guard,
}

impl Cluster {
    /// Starts a primary and replicas and waits until every replica streams.
    ///
    /// # Errors
    /// Any [`ClusterError`]; whatever was started is gone again.
    pub fn start(options: &Options) -> Result<Self, ClusterError> {
        let binaries = Binaries::find()?;
        let dir = private_dir(&binaries)?;
        let guard = Guard::over(&dir)?;
        let ports = free_ports(options.replicas.min(8) + 1)?;
        let nodes = ports.iter().enumerate().map(|(i, &port)| {
            let name = if i == 0 { "primary".to_owned() } else { format!("replica{i}") };
            Node::new(name, port, &dir, &binaries)
        });
        let cluster = Self { nodes: nodes.collect(), dir, binaries, _guard: guard };
        cluster.lay_out(options)?;
        cluster.start_all(options)?;
        Ok(cluster)
    }

    /// The node born as primary; after a promotion it may not be one any more.
    pub fn primary(&self) -> &Node {
        &self.nodes[0]
    }

    /// The nodes born as replicas.
    pub fn replicas(&self) -> &[Node] {
        &self.nodes[1..]
    }

    /// All nodes, the primary first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The temporary directory: Unix sockets, logs, data directories, and room for the caller's own files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The programs the cluster runs on (`pgbench`, `psql`).
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Waits until every replica has applied all that the primary has written.
    ///
    /// # Errors
    /// [`ClusterError::TooSlow`] if one does not.
    pub fn catch_up(&self) -> Result<(), ClusterError> {
        self.replicas().iter().try_for_each(|replica| replica.catch_up(self.primary()))
    }

    fn lay_out(&self, options: &Options) -> Result<(), ClusterError> {
        let primary = self.primary();
        let mut initdb = self.binaries.command("initdb");
        initdb
            .args(["--no-sync", "--auth=trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"])
            .arg(primary.data());
        run(initdb, "initdb")?;
        let word = options.auth.hba_word();
        let hba = format!(
            "local all all trust\nlocal replication all trust\nhost all all 127.0.0.1/32 {word}\nhost replication all 127.0.0.1/32 {word}\n"
        );
        fs::write(primary.data().join("pg_hba.conf"), hba)
            .map_err(|source| ClusterError::io("write pg_hba.conf", source))?;
        primary.configure(SETTINGS)?;
        let sockets = self.dir.display().to_string();
        primary.configure(&[
            ("unix_socket_directories", &sockets),
            ("password_encryption", options.auth.password_encryption()),
        ])?;
        for (name, value) in &options.settings {
            primary.configure(&[(name, value)])?;
        }
        for replica in self.replicas() {
            let mut copy = Command::new("cp");
            copy.arg("-a").arg(primary.data()).arg(replica.data());
            run(copy, "cp")?;
            fs::write(replica.data().join("standby.signal"), "")
                .map_err(|source| ClusterError::io("mark a replica", source))?;
            replica.configure(&[("primary_conninfo", &replica.conninfo_of(primary))])?;
        }
        self.nodes.iter().try_for_each(|node| node.configure(&[("port", &node.port().to_string())]))
    }

    fn start_all(&self, options: &Options) -> Result<(), ClusterError> {
        let primary = self.primary();
        primary.launch()?;
        primary.await_ready()?;
        self.replicas().iter().try_for_each(Node::launch)?;
        primary.psql_in(
            "postgres",
            &format!("alter role postgres password '{PASSWORD}'; create role app login password '{PASSWORD}'"),
        )?;
        primary.psql_in("postgres", "create database app owner app")?;
        self.replicas().iter().try_for_each(Node::await_ready)?;
        until("replicas to stream", || {
            let streaming = primary.psql("select count(*) from pg_stat_replication where state = 'streaming'")?;
            Ok((streaming == options.replicas.min(8).to_string()).then_some(()))
        })?;
        self.catch_up()
    }
}

/// A new directory that only the servers' account may enter.
fn private_dir(binaries: &Binaries) -> Result<PathBuf, ClusterError> {
    let base = std::env::temp_dir();
    let base = base.canonicalize().map_err(|source| ClusterError::io("find the temporary directory", source))?;
    let dir = loop {
        let dir = base.join(format!("pgsluice-{:08x}", rand::random::<u32>()));
        match fs::create_dir(&dir) {
            Ok(()) => break dir,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(ClusterError::io("make a temporary directory", source)),
        }
    };
    let ready = fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).and_then(|()| match binaries.owner() {
        Some(account) => chown(&dir, Some(account.uid), Some(account.gid)),
        None => Ok(()),
    });
    ready.map_err(|source| ClusterError::io("hand over the temporary directory", source))?;
    Ok(dir)
}

/// Ports on 127.0.0.1 that nobody listens on, below the range the kernel hands out to outgoing connections.
///
/// # Errors
/// [`ClusterError::TooSlow`] if the range is used up.
pub fn free_ports(count: usize) -> Result<Vec<u16>, ClusterError> {
    let mut ports = Vec::with_capacity(count);
    for _ in 0..10_000 {
        if ports.len() == count {
            return Ok(ports);
        }
        let port = rand::random_range(21_000..32_000);
        if !ports.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            ports.push(port);
        }
    }
    Err(ClusterError::TooSlow { what: "free ports".to_owned() })
}
