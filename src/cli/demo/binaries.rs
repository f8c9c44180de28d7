//! Where the installed PostgreSQL keeps its programs, and as whom they may run.

use std::{env, fs, os::unix::fs::MetadataExt, os::unix::process::CommandExt, path::PathBuf, process::Command};

use super::cluster::ClusterError;

/// Programs of one PostgreSQL installation.
#[derive(Clone, Debug)]
pub struct Binaries {
    dir: PathBuf,
    /// Where psql lies: packages of servers alone leave it out.
    clients: PathBuf,
    run_as: Option<Account>,
}

/// A system account that servers run as when we are root: `postgres` refuses to run as root.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// User id.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
}

impl Binaries {
    /// Looks in `PG_BIN`, then in `PATH`, then in Debian's versioned directories (the newest wins). Clients may lie in another of
    /// these than the server: psql talks to any version.
    ///
    /// # Errors
    /// [`ClusterError::NoPostgres`] if not all programs needed are found, [`ClusterError::NoAccount`] if we
    /// are root and there is no `postgres` account.
    pub fn find() -> Result<Self, ClusterError> {
        let named = env::var_os("PG_BIN").map(PathBuf::from);
        let on_path = env::var_os("PATH").map(|p| env::split_paths(&p).collect::<Vec<_>>()).unwrap_or_default();
        let dirs: Vec<PathBuf> = named.into_iter().chain(on_path).chain(debian_dirs()).collect();
        let first_with = |names: &[&str]| {
            let has_all = |dir: &&PathBuf| names.iter().all(|name| dir.join(name).is_file());
            dirs.iter().find(has_all).cloned().ok_or(ClusterError::NoPostgres)
        };
        let dir = first_with(&["postgres", "initdb"])?;
        let clients = if dir.join("psql").is_file() { dir.clone() } else { first_with(&["psql"])? };
        let run_as = if running_as_root() { Some(account("postgres")?) } else { None };
        Ok(Self { dir, clients, run_as })
    }

    /// A command for one of the programs, running as the right account.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.path(program));
        self.as_account(&mut command);
        command
    }

    /// Makes any command run as the account that owns the servers.
    pub fn as_account(&self, command: &mut Command) {
        command.current_dir("/");
        if let Some(account) = self.run_as {
            command.gid(account.gid).uid(account.uid);
        }
    }

    /// The account that must own data directories, if it is not our own.
    pub fn owner(&self) -> Option<Account> {
        self.run_as
    }

    /// Where one of the programs lies.
    pub fn path(&self, program: &str) -> PathBuf {
        let beside = self.dir.join(program);
        if beside.is_file() { beside } else { self.clients.join(program) }
    }
}

fn running_as_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

fn account(name: &str) -> Result<Account, ClusterError> {
    let passwd = fs::read_to_string("/etc/passwd").map_err(|source| ClusterError::io("read /etc/passwd", source))?;
    passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find_map(|fields| match fields.as_slice() {
            [user, _, uid, gid, ..] if *user == name => {
                Some(Account { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
            }
            _ => None,
        })
        .ok_or(ClusterError::NoAccount)
}

/// `/usr/lib/postgresql/<major>/bin`, newest first.
fn debian_dirs() -> Vec<PathBuf> {
    let mut majors: Vec<u32> = fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect())
        .unwrap_or_default();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.iter().map(|major| PathBuf::from(format!("/usr/lib/postgresql/{major}/bin"))).collect()
}
