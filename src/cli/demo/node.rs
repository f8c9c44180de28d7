//! One PostgreSQL server of a throw-away cluster.

use std::{
    fs,
    io::Write as _,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{binaries::Binaries, cluster::ClusterError};

/// How long a server may take to start, stop or promote before we give up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often we look meanwhile.
const GLANCE: Duration = Duration::from_millis(10);

/// How to end a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Disconnect everybody and shut down with a checkpoint.
    Fast,
    /// Disconnect everybody at once; the next start recovers from the log.
    Immediate,
    /// SIGKILL to the postmaster, as a lost machine looks to a proxy.
    Kill,
}

/// One server: its directory, its port, and its process while it runs.
#[derive(Debug)]
pub struct Node {
    name: String,
    port: u16,
    data: PathBuf,
    log: PathBuf,
    binaries: Binaries,
    process: Mutex<Option<Child>>,
}

impl Node {
    pub(super) fn new(name: String, port: u16, dir: &Path, binaries: &Binaries) -> Self {
        Self {
            port,
            data: dir.join(format!("node_{name}")),
            log: dir.join(format!("{name}.log")),
            name,
            binaries: binaries.clone(),
            process: Mutex::new(None),
        }
    }

    /// `primary`, `replica1`, …: the role it was born with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its TCP port on 127.0.0.1, and the number in its Unix socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// What it has logged so far; empty if the log cannot be read.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Starts the server and waits until it accepts connections.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with the log's end if it exits, [`ClusterError::TooSlow`] after half a minute.
    pub fn start(&self) -> Result<(), ClusterError> {
        self.launch()?;
        self.await_ready()
    }

    pub(super) fn launch(&self) -> Result<(), ClusterError> {
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(|source| ClusterError::io("open the server log", source))?;
        // The name of a crashed postmaster's process id would make the new one hesitate.
        let _ = fs::remove_file(self.data.join("postmaster.pid"));
        let child = self
            .binaries
            .command("postgres")
            .arg("-D")
            .arg(&self.data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(|source| ClusterError::io("start postgres", source))?;
        *self.process.lock() = Some(child);
        Ok(())
    }

    pub(super) fn await_ready(&self) -> Result<(), ClusterError> {
        until(&format!("{} to accept connections", self.name), || {
            if let Some(child) = self.process.lock().as_mut()
                && let Ok(Some(status)) = child.try_wait()
            {
                return Err(ClusterError::refused(&format!("postgres ({}), {status}", self.name), &tail(&self.log())));
            }
            let status = fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
            // Line 8 of postmaster.pid (src/include/utils/pidfile.h): ready, standby (no connections yet), starting, stopping.
            Ok((status.lines().nth(7).map(str::trim) == Some("ready")).then_some(()))
        })
    }

    /// Ends the server and waits until its process is gone. A server that does not run is left alone.
    ///
    /// # Errors
    /// [`ClusterError::TooSlow`] if it does not end.
    pub fn stop(&self, how: Stop) -> Result<(), ClusterError> {
        let mut process = self.process.lock();
        let Some(child) = process.as_mut() else { return Ok(()) };
        signal(
            child.id(),
            match how {
                Stop::Fast => "INT",
                Stop::Immediate => "QUIT",
                Stop::Kill => "KILL",
            },
        )?;
        until(&format!("{} to end", self.name), || {
            child
                .try_wait()
                .map(|status| status.map(|_| ()))
                .map_err(|source| ClusterError::io("wait for postgres", source))
        })?;
        *process = None;
        Ok(())
    }

    /// Stops all of the server's processes where they are (SIGSTOP): it keeps its sockets and answers nothing.
    ///
    /// # Errors
    /// [`ClusterError::Io`] if the signal could not be sent.
    pub fn freeze(&self) -> Result<(), ClusterError> {
        self.signal_all("STOP")
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    /// [`ClusterError::Io`] if the signal could not be sent.
    pub fn thaw(&self) -> Result<(), ClusterError> {
        self.signal_all("CONT")
    }

    fn signal_all(&self, name: &str) -> Result<(), ClusterError> {
        let Some(postmaster) = self.process.lock().as_ref().map(Child::id) else { return Ok(()) };
        let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap_or_default();
        for pid in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            // A backend may have ended meanwhile.
            let _ = signal(pid, name);
        }
        signal(postmaster, name)
    }

    /// Makes a replica the primary of a new timeline and waits until it takes writes.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if the server says no.
    pub fn promote(&self) -> Result<(), ClusterError> {
        self.psql("select pg_promote(true, 30)").map(|_| ())
    }

    /// Points a replica at another primary of the same cluster.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if the server says no.
    pub fn follow(&self, primary: &Node) -> Result<(), ClusterError> {
        self.configure(&[("primary_conninfo", &self.conninfo_of(primary))])?;
        self.psql("select pg_reload_conf()").map(|_| ())
    }

    /// Stops applying the primary's log: the replica goes on answering with what it has.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] on a server that is not a replica.
    pub fn pause_replay(&self) -> Result<(), ClusterError> {
        self.psql("select pg_wal_replay_pause()")?;
        until(&format!("{} to pause replay", self.name), || {
            Ok((self.psql("select pg_get_wal_replay_pause_state()")? == "paused").then_some(()))
        })
    }

    /// Goes on applying.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] on a server that is not a replica.
    pub fn resume_replay(&self) -> Result<(), ClusterError> {
        self.psql("select pg_wal_replay_resume()").map(|_| ())
    }

    /// Waits until this replica has applied everything `primary` has written so far.
    ///
    /// # Errors
    /// [`ClusterError::TooSlow`] after half a minute.
    pub fn catch_up(&self, primary: &Node) -> Result<(), ClusterError> {
        let target = primary.psql("select pg_current_wal_flush_lsn()")?;
        until(&format!("{} to catch up", self.name), || {
            let reached =
                self.psql_in("postgres", &format!("select pg_last_wal_replay_lsn() >= '{target}'::pg_lsn"))?;
            Ok((reached == "t").then_some(()))
        })
    }

    /// Runs SQL as the superuser in database `app`; returns unaligned rows without headings.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with psql's message.
    pub fn psql(&self, sql: &str) -> Result<String, ClusterError> {
        self.psql_in("app", sql)
    }

    /// Like [`Node::psql`], in another database.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with psql's message.
    pub fn psql_in(&self, database: &str, sql: &str) -> Result<String, ClusterError> {
        let mut command = self.binaries.command("psql");
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-p"]);
        command.arg(self.port.to_string()).arg("-h").arg(self.socket_dir()).arg("-c").arg(sql);
        run(command, "psql").map(|out| out.trim_end().to_owned())
    }

    /// Transactions ended in database `app` so far, from `pg_stat_database`; the server updates it about once a second.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with psql's message.
    pub fn transactions(&self) -> Result<u64, ClusterError> {
        let text = self.psql("select xact_commit + xact_rollback from pg_stat_database where datname = 'app'")?;
        text.parse().map_err(|_| ClusterError::refused("pg_stat_database", &text))
    }

    pub(super) fn conninfo_of(&self, primary: &Node) -> String {
        let (host, port) = (self.socket_dir().display().to_string(), primary.port);
        format!("host={host} port={port} user=postgres application_name={}", self.name)
    }

    pub(super) fn configure(&self, settings: &[(&str, &str)]) -> Result<(), ClusterError> {
        let file = fs::OpenOptions::new().append(true).open(self.data.join("postgresql.auto.conf"));
        let lines: String =
            settings.iter().map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''"))).collect();
        file.and_then(|mut file| file.write_all(lines.as_bytes()))
            .map_err(|source| ClusterError::io("write settings", source))
    }

    fn socket_dir(&self) -> &Path {
        self.data.parent().unwrap_or(Path::new("/"))
    }
}

/// Runs a command to its end and returns what it printed.
pub(super) fn run(mut command: Command, what: &str) -> Result<String, ClusterError> {
    let out = command.stdin(Stdio::null()).output().map_err(|source| ClusterError::io(what, source))?;
    if !out.status.success() {
        return Err(ClusterError::refused(what, &tail(&String::from_utf8_lossy(&out.stderr))));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Looks again and again until there is an answer.
pub(super) fn until<T>(
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>, ClusterError>,
) -> Result<T, ClusterError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(ClusterError::TooSlow { what: what.to_owned() });
        }
        sleep(GLANCE);
    }
}

/// Sends a signal to a process that we started.
pub(super) fn signal(pid: u32, name: &str) -> Result<(), ClusterError> {
    let mut command = Command::new("kill");
    command.arg(format!("-{name}")).arg(pid.to_string());
    run(command, "kill").map(|_| ())
}

/// The last lines of a log.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}
