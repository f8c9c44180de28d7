//! Listening sockets. Each has a thread that accepts and hands each client to the worker with the fewest.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::workers::Mailbox;
use crate::{config::Listen, net::Parked, session::Shared};

/// Connections the kernel keeps for us while we are busy.
const BACKLOG: i32 = 4096;

/// A bound listener.
pub(super) enum Door {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Door {
    /// Binds; a port in use is an error that names it.
    pub(super) fn open(listen: &Listen, port: u16) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => {
                let socket = Socket::new(Domain::for_address(*address), Type::STREAM, Some(Protocol::TCP))?;
                socket.set_reuse_address(true)?;
                socket
                    .bind(&(*address).into())
                    .and_then(|()| socket.listen(BACKLOG))
                    .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))?;
                Ok(Self::Tcp(socket.into()))
            }
            Listen::Unix(dir) => {
                let path = dir.join(format!(".s.PGSQL.{port}"));
                let named = |error: io::Error| {
                    io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display()))
                };
                // A socket file that nobody listens on is a crashed predecessor's.
                if path.exists() && std::os::unix::net::UnixStream::connect(&path).is_err() {
                    fs::remove_file(&path).map_err(named)?;
                }
                let listener = UnixListener::bind(&path).map_err(named)?;
                // As PostgreSQL's unix_socket_permissions: who may connect is decided by authentication.
                fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).map_err(named)?;
                Ok(Self::Unix(listener, path))
            }
        }
    }

    /// For the log.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or_else(|e| e.to_string(), |a| a.to_string()),
            Self::Unix(_, path) => path.display().to_string(),
        }
    }

    /// Another handle on the same socket, to close it from elsewhere.
    pub(super) fn handle(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener, path) => Ok(Self::Unix(listener.try_clone()?, path.clone())),
        }
    }

    /// Refuses everybody from now on; a thread that waits in accept returns.
    pub(super) fn close(&self) {
        let socket = match self {
            Self::Tcp(listener) => SockRef::from(listener),
            Self::Unix(listener, path) => {
                // Removing a file that is gone already is no fault.
                let _ = fs::remove_file(path);
                SockRef::from(listener)
            }
        };
        let _ = socket.shutdown(std::net::Shutdown::Both);
    }

    fn accept(&self) -> io::Result<Parked> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let keep_alive = TcpKeepalive::new()
                    .with_time(Duration::from_secs(60))
                    .with_interval(Duration::from_secs(10))
                    .with_retries(3);
                SockRef::from(&stream).set_tcp_keepalive(&keep_alive)?;
                Ok(Parked::Tcp(stream))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Parked::Unix(stream))
            }
        }
    }
}

/// Accepts on a thread of its own until the process drains.
pub(super) fn start(door: Door, mailboxes: Vec<Mailbox>, shared: Arc<Shared>) -> io::Result<()> {
    thread::Builder::new().name("accept".into()).spawn(move || {
        loop {
            match door.accept() {
                Ok(socket) => {
                    let (connected, fits) = shared.connect();
                    if let Some(mailbox) = mailboxes.iter().min_by_key(|mailbox| mailbox.load()) {
                        mailbox.hand(socket, connected, !fits);
                    }
                }
                Err(_) if shared.is_draining() => return,
                Err(error) => {
                    // Out of descriptors, mostly: give those who leave time to leave.
                    tracing::warn!(%error, "accepting a client failed");
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
    })?;
    Ok(())
}
