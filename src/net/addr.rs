//! Where a server listens, and how to get there.

use std::{fmt, io, path::PathBuf, time::Duration};

use tokio::{
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::Stream;

/// A server's address. Host names are resolved at every dial, so a name that moves is followed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Host name or address, and port.
    Tcp(String, u16),
    /// `.s.PGSQL.<port>` inside this directory.
    Unix(PathBuf, u16),
}

/// No connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The operating system said no.
    #[error("cannot connect: {0}")]
    Io(#[from] io::Error),
    /// Nobody answered in time.
    #[error("nobody answered within {0:?}")]
    Deadline(Duration),
}

impl Address {
    /// As PostgreSQL's clients read it: a host that begins with a slash is a socket directory.
    pub fn new(host: &str, port: u16) -> Self {
        if host.starts_with('/') { Self::Unix(PathBuf::from(host), port) } else { Self::Tcp(host.to_owned(), port) }
    }

    /// Connects within `deadline`. TCP connections get no Nagle delay and keep-alives.
    pub async fn dial(&self, deadline: Duration) -> Result<Stream, DialError> {
        let connect = async {
            match self {
                Self::Tcp(host, port) => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    Stream::from_tcp(stream)
                }
                Self::Unix(dir, port) => {
                    Ok(Stream::Unix(UnixStream::connect(dir.join(format!(".s.PGSQL.{port}"))).await?))
                }
            }
        };
        match timeout(deadline, connect).await {
            Ok(stream) => Ok(stream?),
            Err(_) => Err(DialError::Deadline(deadline)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(dir, port) => write!(f, "{}/.s.PGSQL.{port}", dir.display()),
        }
    }
}
