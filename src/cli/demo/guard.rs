//! The clean-up that cannot be missed: a small shell waits for our end of a pipe to close.
//!
//! The pipe closes when the cluster is dropped, and also when this process panics, is interrupted or is killed
//! with SIGKILL. Then the guard ends exactly the postmasters whose working directory lies below the temporary
//! directory (PostgreSQL changes into its data directory at start) and removes the directory.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{cluster::ClusterError, node::signal};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
for data in "$0"/node*; do
    pid=$(head -n 1 "$data/postmaster.pid" 2>/dev/null) || continue
    if [ "$(readlink "/proc/$pid/cwd")" = "$data" ]; then
        kill -QUIT "$pid"
        tries=0
        while [ -d "/proc/$pid" ] && [ "$(cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null)" != Z ] && [ $tries -lt 100 ]; do
            tries=$((tries + 1)); sleep 0.02
        done
        [ "$(readlink "/proc/$pid/cwd")" = "$data" ] && kill -KILL "$pid"
    fi
done
rm -rf "$0"
"#;

/// Removes a directory and the servers in it once dropped, or once this process is gone.
#[derive(Debug)]
pub struct Guard {
    shell: Child,
}

impl Guard {
    /// Watches over `dir`, an absolute path without symbolic links.
    ///
    /// # Errors
    /// [`ClusterError::Io`] if the shell cannot be started.
    pub fn over(dir: &Path) -> Result<Self, ClusterError> {
        let shell = Command::new("sh")
            .arg("-c")
            .arg(SCRIPT)
            .arg(dir)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Its own process group: Ctrl-C in a terminal must not reach it before its work is done.
            .process_group(0)
            .spawn()
            .map_err(|source| ClusterError::io("start the guard", source))?;
        Ok(Self { shell })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // A guard that cannot be waited for goes on alone; there is nobody to tell.
        let _ = self.shell.wait();
    }
}

const TETHER: &str = r#"
"$@" </dev/null >>"$0" 2>&1 &
pid=$!
echo $pid
exec >/dev/null
cat
kill -KILL $pid 2>/dev/null; wait
"#;

/// A child process that ends when this value is dropped, or when this process is gone in any way.
///
/// A shell stands between: it is the parent, so the process id stays valid until the shell ends.
#[derive(Debug)]
pub struct Tethered {
    shell: Child,
    pid: u32,
}

impl Tethered {
    /// Starts `program`; what it prints is appended to `log`. It runs in a process group of its own.
    ///
    /// # Errors
    /// [`ClusterError::Io`] if the shell cannot be started. A program that cannot be started has ended at once.
    pub fn start(program: &Path, arguments: &[&OsStr], log: &Path) -> Result<Self, ClusterError> {
        let mut shell = Command::new("sh")
            .arg("-c")
            .arg(TETHER)
            .arg(log)
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| ClusterError::io("start a shell", source))?;
        let mut line = String::new();
        if let Some(out) = shell.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|source| ClusterError::io("read a process id", source))?;
        }
        let pid = line.trim().parse().map_err(|_| ClusterError::refused("sh", &line))?;
        Ok(Self { shell, pid })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it runs no more.
    pub fn ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The state follows the command's name, which stands in parentheses.
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
    }

    /// Sends a signal by name (`TERM`, `HUP`).
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if the process is gone.
    pub fn signal(&self, name: &str) -> Result<(), ClusterError> {
        signal(self.pid, name)
    }
}

impl Drop for Tethered {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
