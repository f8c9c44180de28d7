//! `pgsluice demo`: a private primary with replicas, served for as long as the command runs.
//!
//! Everything lives below one temporary directory and is gone afterwards, whatever ends the command.
//! The tests use the same throw-away [`cluster`]; nothing here may touch a PostgreSQL it did not start.

use std::{
    ffi::{OsStr, OsString},
    fmt, fs, io,
    io::Write as _,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    time::Duration,
};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    time::{interval, sleep},
};

pub mod binaries;
pub mod cluster;
pub mod guard;
pub mod node;
mod show;

pub use cluster::{Cluster, ClusterError, HostAuth, Options};
pub use guard::Tethered;
pub use node::{Node, Stop};

/// What the demo may be told.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Where to listen on 127.0.0.1; the next port serves the admin interface.
    #[arg(long, default_value_t = 6432, value_parser = clap::value_parser!(u16).range(1..65535))]
    pub port: u16,
    /// Keep pgbench running until the end.
    #[arg(long)]
    pub load: bool,
    /// Finish after the show instead of waiting for Ctrl-C.
    #[arg(long)]
    pub once: bool,
}

/// Why the demo ended early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Somebody listens there already.
    #[error("port {port} on 127.0.0.1 cannot be used ({source}); choose another with --port")]
    Port {
        /// The port asked for, or the one behind it.
        port: u16,
        /// Why not.
        source: io::Error,
    },
    /// The servers could not be started or asked.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// pgsluice itself ended.
    #[error("pgsluice ended; it said:\n{log}")]
    ProxyEnded {
        /// What it printed.
        log: String,
    },
    /// A statement of the show failed where it should not.
    #[error("the show: {0}")]
    Show(#[from] tokio_postgres::Error),
    /// The operating system said no.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Starts everything, shows what goes where, and stays until it is told to end.
///
/// # Errors
/// [`DemoError`]; nothing is left behind then either.
pub fn run(arguments: &Arguments) -> Result<(), DemoError> {
    for port in [arguments.port, arguments.port + 1] {
        TcpListener::bind(("127.0.0.1", port)).map_err(|source| DemoError::Port { port, source })?;
    }
    say("Starting a primary and two replicas in a temporary directory …");
    let cluster = Cluster::start(&Options::default())?;
    for node in cluster.nodes() {
        say(format_args!("  {:<9} 127.0.0.1:{}", node.name(), node.port()));
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(perform(arguments, &cluster))
}

async fn perform(arguments: &Arguments, cluster: &Cluster) -> Result<(), DemoError> {
    let proxy = Proxy::start(arguments.port, cluster)?;
    proxy.ready().await?;
    say(format_args!("Serving them on 127.0.0.1:{}.\n", arguments.port));
    show::statements(arguments.port, cluster).await?;
    let load = Load::start(arguments.port, cluster)?;
    show::traffic(cluster, 5).await?;
    let load = arguments.load.then_some(load);
    if arguments.once {
        return Ok(());
    }
    say(format_args!(
        "\nConnect with:\n\n    psql {}\n\nAfter a statement, SHOW pgsluice.route tells where it ran and why. Admin: http://127.0.0.1:{}",
        url(arguments.port),
        arguments.port + 1
    ));
    say(if load.is_some() {
        "The load goes on. Ctrl-C ends and removes everything."
    } else {
        "Ctrl-C ends and removes everything."
    });
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut glance = interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = glance.tick() => proxy.alive()?,
        }
    }
    say("\nRemoving everything …");
    Ok(())
}

/// How to connect as the demo's user.
fn url(port: u16) -> String {
    format!("postgresql://app:{}@127.0.0.1:{port}/app", cluster::PASSWORD)
}

/// A line for the person who watches; nobody watching is no reason to end.
fn say(line: impl fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// pgsluice itself, as a child: the same program, serving.
struct Proxy {
    process: Tethered,
    port: u16,
    log: PathBuf,
}

impl Proxy {
    fn start(port: u16, cluster: &Cluster) -> Result<Self, DemoError> {
        let nodes = cluster
            .nodes()
            .iter()
            .map(|n| format!("      - {{ name: {}, host: 127.0.0.1, port: {} }}\n", n.name(), n.port()));
        let yaml = format!(
            "listen: 127.0.0.1:{port}\n\
             databases:\n  app:\n    nodes:\n{}    pool: {{ size: 10 }}\n\
             users: [{{ name: app, password: {password} }}]\n\
             admin: {{ listen: \"127.0.0.1:{admin}\" }}\n",
            nodes.collect::<String>(),
            password = cluster::PASSWORD,
            admin = port + 1,
        );
        let (config, log) = (cluster.dir().join("pgsluice.yaml"), cluster.dir().join("pgsluice.log"));
        fs::write(&config, yaml)?;
        let arguments = [OsStr::new("run"), OsStr::new("-c"), config.as_os_str()];
        let process = Tethered::start(&std::env::current_exe()?, &arguments, &log)?;
        Ok(Self { process, port, log })
    }

    async fn ready(&self) -> Result<(), DemoError> {
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            self.alive()?;
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn alive(&self) -> Result<(), DemoError> {
        if self.process.ended() {
            return Err(DemoError::ProxyEnded { log: fs::read_to_string(&self.log).unwrap_or_default() });
        }
        Ok(())
    }
}

/// pgbench: mostly reads, some writes, for as long as it is kept.
struct Load {
    _process: Tethered,
}

impl Load {
    fn start(port: u16, cluster: &Cluster) -> Result<Self, DemoError> {
        let dir = cluster.dir();
        let (read, write) = (dir.join("read.sql"), dir.join("write.sql"));
        fs::write(&read, "\\set id random(1, 100)\nselect name, price from products where id = :id;\n")?;
        fs::write(
            &write,
            "\\set id random(1, 100)\nbegin;\nupdate products set stock = stock - 1 where id = :id;\n\
             insert into orders(product, amount) values (:id, 1);\ncommit;\n",
        )?;
        let mix = |script: PathBuf, weight: u8| {
            let mut text = OsString::from(script);
            text.push(format!("@{weight}"));
            text
        };
        let arguments = [
            OsString::from("-n"),
            "-c4".into(),
            "-T86400".into(),
            "--rate=400".into(),
            "-f".into(),
            mix(read, 9),
            "-f".into(),
            mix(write, 1),
            url(port).into(),
        ];
        let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        let process = Tethered::start(&cluster.binaries().path("pgbench"), &arguments, &dir.join("pgbench.log"))?;
        Ok(Self { _process: process })
    }
}
