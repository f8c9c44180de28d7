//! What the tests run against: one cluster for the whole run, and proxies in front of it, started when first asked for.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::HashMap,
    env,
    ffi::OsStr,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    time::{Duration, Instant},
};

use pgsluice::cli::demo::{Cluster, HostAuth, Node, Options, Tethered, cluster::free_ports};

use crate::{
    client::{Client, Login},
    frontend,
    lifecycle::http,
    tls::Papers,
};

/// What stands between the client and the servers. `PGSLUICE_TEST_VIA` chooses; the others check the tests themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The system under test.
    Pgsluice,
    /// Nothing: each trace must equal itself.
    Direct,
    /// PgBouncer in the same pool mode.
    Pgbouncer,
}

/// How a proxy is to be configured. Each field becomes a word in the generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// `transaction`, `session` or `statement`.
    pub mode: &'static str,
    /// Server connections per node and user.
    pub size: u32,
    /// How long a client waits for one.
    pub checkout_timeout: &'static str,
    /// Client authentication: a method, or the keys of `auth`.
    pub auth: String,
    /// With the replicas, or with the primary alone.
    pub replicas: bool,
    /// Result cache.
    pub cache: bool,
    /// Instead of the cluster's nodes, this port of this machine.
    pub only_node: Option<u16>,
    /// Further keys of the database's `pool`.
    pub pool: &'static str,
    /// Further keys of the database's `routing`.
    pub routing: &'static str,
    /// Further top-level lines.
    pub top: String,
    /// Further entries of `databases`, with `{nodes}` where the list of nodes belongs.
    pub databases: String,
    /// The entries of `users`, instead of app, bob and postgres with their passwords.
    pub users: String,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mode: "transaction",
            size: 1,
            checkout_timeout: "5s",
            auth: "scram-sha-256".to_owned(),
            replicas: true,
            cache: false,
            only_node: None,
            pool: "",
            routing: "",
            top: String::new(),
            databases: String::new(),
            users: USERS.to_owned(),
        }
    }
}

const USERS: &str =
    "{ name: app, password: secret }, { name: bob, password: secret }, { name: postgres, password: secret }";

impl Setup {
    pub fn size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }

    pub fn mode(mut self, mode: &'static str) -> Self {
        self.mode = mode;
        self
    }

    pub fn checkout_timeout(mut self, timeout: &'static str) -> Self {
        self.checkout_timeout = timeout;
        self
    }

    pub fn auth(mut self, auth: &str) -> Self {
        self.auth = auth.to_owned();
        self
    }

    pub fn primary_only(mut self) -> Self {
        self.replicas = false;
        self
    }

    pub fn cached(mut self) -> Self {
        self.cache = true;
        self
    }

    pub fn only_node(mut self, port: u16) -> Self {
        self.only_node = Some(port);
        self
    }

    pub fn pool(mut self, pool: &'static str) -> Self {
        self.pool = pool;
        self
    }

    pub fn routing(mut self, routing: &'static str) -> Self {
        self.routing = routing;
        self
    }

    pub fn top(mut self, lines: &str) -> Self {
        self.top = lines.to_owned();
        self
    }

    pub fn databases(mut self, entries: &str) -> Self {
        self.databases = entries.to_owned();
        self
    }

    pub fn users(mut self, entries: &str) -> Self {
        self.users = entries.to_owned();
        self
    }

    fn yaml(&self, port: u16, admin: u16, cluster: &Cluster) -> String {
        let nodes = cluster.nodes().iter().take(if self.replicas { 9 } else { 1 });
        let nodes: Vec<String> =
            nodes.map(|n| format!("{{ name: {}, host: 127.0.0.1, port: {} }}", n.name(), n.port())).collect();
        let nodes = match self.only_node {
            Some(port) => format!("127.0.0.1:{port}"),
            None => nodes.join(", "),
        };
        let auth = if self.auth.contains(':') { self.auth.clone() } else { format!("method: {}", self.auth) };
        let further = |keys: &str| if keys.is_empty() { String::new() } else { format!(", {keys}") };
        format!(
            "listen: 127.0.0.1:{port}\n\
             workers: 2\n\
             databases:\n  app:\n    nodes: [{nodes}]\n    \
             pool: {{ mode: {mode}, size: {size}, checkout_timeout: {timeout}{pool} }}\n    \
             routing: {{ reads: replica{routing} }}\n    \
             cache: {{ enabled: {cache} }}\n\
             {databases}\
             users: [{users}]\n\
             auth: {{ {auth} }}\n\
             admin: {{ listen: \"127.0.0.1:{admin}\" }}\n\
             {top}\n",
            databases = self.databases.replace("{nodes}", &nodes),
            users = self.users,
            mode = self.mode,
            size = self.size,
            timeout = self.checkout_timeout,
            pool = further(self.pool),
            routing = further(self.routing),
            cache = self.cache,
            top = self.top,
        )
    }

    fn pgbouncer_ini(&self, port: u16, cluster: &Cluster, users: &Path) -> String {
        format!(
            "[databases]\napp = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=\n\
             auth_type=scram-sha-256\nauth_file={}\npool_mode={}\ndefault_pool_size={}\nquery_wait_timeout=5\n\
             ignore_startup_parameters=extra_float_digits,options,search_path\n",
            cluster.primary().port(),
            users.display(),
            self.mode,
            self.size
        )
    }
}

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    pub port: u16,
    pub admin: u16,
    pub config: PathBuf,
    log: PathBuf,
    process: Option<Tethered>,
    /// How many changes behind its back it has been told of.
    told: Cell<u64>,
}

impl Proxy {
    pub fn login(&self) -> Client {
        self.login_as(&Login::default())
    }

    pub fn login_as(&self, login: &Login) -> Client {
        Client::login(self.port, login).unwrap_or_else(|trouble| panic!("login: {trouble}\n{}", self.log()))
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Has it look at everything anew, and waits until it has.
    pub fn reload(&self) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin)).expect("the admin interface");
        stream.write_all(b"POST /reload HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("ask");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}\n{}", self.log());
    }

    /// The process, unless there is none between us and the servers.
    pub fn process(&self) -> Option<&Tethered> {
        self.process.as_ref()
    }
}

/// Proxies that are kept for later tests. Each looks at the servers' catalog after every change of a test's, so many are slow.
const KEPT: usize = 6;

/// Everything that is shared by the tests of one run.
pub struct World {
    pub via: Via,
    cluster: OnceCell<Cluster>,
    tls_cluster: OnceCell<Cluster>,
    papers: OnceCell<Papers>,
    /// Those of late, the one asked for last at the end.
    proxies: RefCell<Vec<(Setup, Rc<Proxy>)>>,
    standing: RefCell<HashMap<(u16, String), Client>>,
    /// Changes made behind the proxies' backs.
    changes: Cell<u64>,
}

impl World {
    pub fn new() -> Self {
        let via = match env::var("PGSLUICE_TEST_VIA").as_deref() {
            Ok("direct") => Via::Direct,
            Ok("pgbouncer") => Via::Pgbouncer,
            Ok("pgsluice") | Err(_) => Via::Pgsluice,
            Ok(other) => panic!("PGSLUICE_TEST_VIA={other}: pgsluice, direct or pgbouncer"),
        };
        Self {
            via,
            cluster: OnceCell::new(),
            tls_cluster: OnceCell::new(),
            papers: OnceCell::new(),
            proxies: RefCell::default(),
            standing: RefCell::default(),
            changes: Cell::new(0),
        }
    }

    /// A primary and two replicas, shared by all tests that leave them as they were.
    pub fn cluster(&self) -> &Cluster {
        self.cluster.get_or_init(|| start_cluster(2))
    }

    /// Certificates of everybody.
    pub fn papers(&self) -> &Papers {
        self.papers.get_or_init(|| Papers::make(self.cluster()))
    }

    /// A primary and a replica that let nobody in over TCP without TLS, shared like [`World::cluster`].
    pub fn tls_cluster(&self) -> &Cluster {
        self.tls_cluster.get_or_init(|| {
            let cluster = start_cluster(1);
            self.papers().arm(&cluster, &self.papers().server, "hostssl all all 127.0.0.1/32 scram-sha-256");
            cluster
        })
    }

    /// A proxy of this setup in front of the shared cluster, which other tests may have used before. It knows of everything that was
    /// prepared up to now.
    pub fn proxy(&self, setup: &Setup) -> Rc<Proxy> {
        let mut proxies = self.proxies.borrow_mut();
        if let Some(place) = proxies.iter().position(|(known, _)| known == setup) {
            proxies[place..].rotate_left(1);
            let proxy = Rc::clone(&proxies[proxies.len() - 1].1);
            if proxy.told.replace(self.changes.get()) != self.changes.get() && self.via == Via::Pgsluice {
                proxy.reload();
            }
            return proxy;
        }
        if proxies.len() == KEPT {
            proxies.remove(0);
        }
        let proxy = Rc::new(self.start_proxy(setup, self.cluster()));
        proxies.push((setup.clone(), Rc::clone(&proxy)));
        proxy
    }

    /// A proxy of a test's own, in front of any cluster; gone when dropped.
    pub fn start_proxy(&self, setup: &Setup, cluster: &Cluster) -> Proxy {
        let ports = free_ports(2).expect("free ports");
        let (port, admin) = (ports[0], ports[1]);
        let base = cluster.dir().join(format!("proxy-{port}"));
        let (config, log) = (base.with_extension("yaml"), base.with_extension("log"));
        let process = match self.via {
            Via::Direct => {
                return Proxy { port: cluster.primary().port(), admin, config, log, process: None, told: Cell::new(0) };
            }
            Via::Pgsluice => {
                fs::write(&config, setup.yaml(port, admin, cluster)).expect("write the configuration");
                let arguments = [OsStr::new("run"), OsStr::new("-c"), config.as_os_str()];
                Tethered::start(Path::new(env!("CARGO_BIN_EXE_pgsluice")), &arguments, &log)
            }
            Via::Pgbouncer => {
                let users = base.with_extension("users");
                fs::write(&users, "\"app\" \"secret\"\n\"bob\" \"secret\"\n\"postgres\" \"secret\"\n")
                    .expect("write users");
                fs::write(&config, setup.pgbouncer_ini(port, cluster, &users)).expect("write the configuration");
                let mut arguments = vec![config.as_os_str()];
                if let Some(account) = cluster.binaries().owner() {
                    // The directory is the servers' account's; PgBouncer refuses root as well.
                    for file in [&users, &config] {
                        std::os::unix::fs::chown(file, Some(account.uid), Some(account.gid)).expect("chown");
                    }
                    arguments.splice(0..0, [OsStr::new("-u"), OsStr::new("postgres")]);
                }
                Tethered::start(Path::new("/usr/sbin/pgbouncer"), &arguments, &log)
            }
        };
        let process = Some(process.expect("start the proxy"));
        let proxy = Proxy { port, admin, config, log, process, told: Cell::new(self.changes.get()) };
        await_listener(&proxy);
        if self.via == Via::Pgsluice && proxy.log().contains("not all nodes have answered yet") {
            // On a busy machine its own first look may take longer than it waits for it.
            let known = || !http(proxy.admin, "/nodes").1.contains("\"health\":\"unknown\"");
            eventually("the nodes to be known", known);
            proxy.reload();
        }
        proxy
    }

    /// A cluster of a test's own, which it may break.
    pub fn own_cluster(&self, replicas: usize) -> Cluster {
        start_cluster(replicas)
    }

    /// Asks a node of the shared cluster on a standing connection that goes around the proxy; the first value of the answer.
    pub fn ask(&self, node: &Node, user: &str, sql: &str) -> String {
        if !sql.starts_with("select") {
            self.changes.set(self.changes.get() + 1);
        }
        let mut standing = self.standing.borrow_mut();
        let client = standing.entry((node.port(), user.to_owned())).or_insert_with(|| direct(node, user));
        client.value(sql)
    }

    /// The same as superuser on the primary.
    pub fn superuser(&self, sql: &str) -> String {
        self.ask(self.cluster().primary(), "postgres", sql)
    }

    /// Runs SQL as the application's user on the shared primary and waits until the replicas have it.
    pub fn prepare(&self, sql: &str) {
        self.ask(self.cluster().primary(), "app", sql);
        self.settle();
    }

    /// Waits until the replicas have applied all that the primary has committed.
    pub fn settle(&self) {
        let target = self.superuser("select pg_current_wal_flush_lsn()");
        let sql = format!("select pg_last_wal_replay_lsn() >= '{target}'::pg_lsn");
        for replica in self.cluster().replicas() {
            eventually("the replicas to catch up", || self.ask(replica, "postgres", &sql) == "t");
        }
    }
}

fn start_cluster(replicas: usize) -> Cluster {
    let options = Options {
        replicas,
        auth: HostAuth::Scram,
        settings: [("log_statement", "all"), ("log_line_prefix", "%p %a: "), ("deadlock_timeout", "200ms")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
    };
    let cluster = Cluster::start(&options).expect("start a cluster");
    cluster.primary().psql("create role bob login password 'secret'").expect("create bob");
    cluster.catch_up().expect("replicas catch up");
    cluster
}

/// Whether a configuration with this in a database's entry is taken by the program under test.
pub fn accepts(database: &str) -> bool {
    let file = env::temp_dir().join(format!("pgsluice-check-{}.yaml", std::process::id()));
    let text = format!(
        "listen: 127.0.0.1:6432\ndatabases: {{ app: {{ nodes: [127.0.0.1:5432], {database} }} }}\nusers: [{{ name: app, password: secret }}]\n"
    );
    fs::write(&file, text).expect("write a configuration");
    let checked = Command::new(env!("CARGO_BIN_EXE_pgsluice")).args(["check", "-c"]).arg(&file).output();
    let _ = fs::remove_file(&file);
    checked.expect("run pgsluice check").status.success()
}

/// A connection that goes around the proxy.
pub fn direct(node: &Node, user: &str) -> Client {
    let login = Login::default().user(user).param("application_name", "keep");
    Client::login(node.port(), &login).unwrap_or_else(|t| panic!("{}: {t}", node.name()))
}

/// Looks until it is so; panics after a long while.
pub fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !look() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The kernel takes connections as soon as the port is bound; an answered question says that somebody is at work.
fn await_listener(proxy: &Proxy) {
    eventually("the proxy to listen", || {
        let gone = proxy.process.as_ref().is_some_and(Tethered::ended);
        assert!(!gone, "the proxy ended:\n{}", proxy.log());
        let answered = |mut client: Client| client.send(&frontend::ssl_request()).is_ok() && client.recv_byte().is_ok();
        Client::dial(proxy.port).is_ok_and(answered)
    });
}
