//! Listening sockets. The first worker accepts on all of them and hands each client to the worker with the fewest.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::workers::{Arrival, Mailbox};
use crate::{
    config::Listen,
    net::Stream,
    observe::{Repeated, Repeats},
    session::Shared,
};

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
                // What is set on the listener, its connections inherit (tcp(7), Linux): no system call for each of them.
                socket.set_tcp_nodelay(true)?;
                socket.set_keepalive(true)?;
                let keep_alive = TcpKeepalive::new()
                    .with_time(Duration::from_secs(60))
                    .with_interval(Duration::from_secs(10))
                    .with_retries(3);
                socket.set_tcp_keepalive(&keep_alive)?;
                socket.set_nonblocking(true)?;
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
                listener.set_nonblocking(true)?;
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
        match self {
            Self::Tcp(listener) => {
                let _ = SockRef::from(listener).shutdown(std::net::Shutdown::Both);
            }
            // Nobody finds it any more, and a file that is gone already is no fault. It is not shut down: accept(2) would say
            // "try again" and poll "ready" for ever.
            Self::Unix(_, path) => {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Joins the reactor of the current thread.
    fn watch(self) -> io::Result<Watched> {
        Ok(match self {
            Self::Tcp(listener) => Watched::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Self::Unix(listener, _) => Watched::Unix(tokio::net::UnixListener::from_std(listener)?),
        })
    }
}

/// A listener that a reactor watches.
enum Watched {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Watched {
    async fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(listener) => Stream::Tcp(listener.accept().await?.0),
            Self::Unix(listener) => Stream::Unix(listener.accept().await?.0),
        })
    }
}

/// Accepts until the process drains. Runs on the first worker; `serve` takes the clients that stay there.
pub(super) async fn accept(door: Door, mailboxes: Vec<Mailbox>, shared: Arc<Shared>, serve: impl Fn(Arrival)) {
    let address = door.address();
    let door = match door.watch() {
        Ok(door) => door,
        Err(error) => {
            tracing::error!(address, %error, "the listener cannot be watched");
            return;
        }
    };
    let complaints = Repeats::default();
    loop {
        match door.accept().await {
            Ok(stream) => {
                let arrival = Arrival { stream, connected: shared.connect() };
                match mailboxes.iter().enumerate().min_by_key(|(_, mailbox)| mailbox.load()) {
                    Some((0, mailbox)) => {
                        mailbox.expect();
                        serve(arrival);
                    }
                    Some((_, mailbox)) => mailbox.hand(arrival).await,
                    None => return,
                }
            }
            Err(_) if shared.is_draining() => return,
            Err(error) => {
                // Out of descriptors, mostly: give those who leave time to leave.
                if complaints.is_new(&address, &error, Instant::now()) {
                    tracing::warn!(address, %error, "accepting a client failed");
                }
                for Repeated { words, times, .. } in complaints.due(Instant::now()) {
                    tracing::warn!(address, times, error = words, "accepting clients failed");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
