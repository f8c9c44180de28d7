//! Where a server listens, and how to get there.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};
use tokio::{
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::{Secure, Stream};
use crate::{
    tls::{ServerMode, TowardsServers},
    wire::frontend,
};

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
    /// `tls.server.mode` asks for TLS.
    #[error("the server does not offer TLS, and tls.server.mode demands it (ssl = on is missing there)")]
    NoTls,
    /// The two sides did not agree, or the certificate is not believed.
    #[error("no TLS connection to the server: {0}")]
    Tls(io::Error),
    /// Neither S nor N, or more than that. What came in the clear behind an S must not be taken for the server's
    /// (CVE-2021-23222).
    #[error(
        "the server's answer to SSLRequest is not one byte, S or N: this is no PostgreSQL, or somebody is in between"
    )]
    Answer,
}

impl DialError {
    /// Is TLS, and so most likely a configuration, to blame?
    pub fn is_about_tls(&self) -> bool {
        match self {
            Self::Io(_) | Self::Deadline(_) => false,
            Self::NoTls | Self::Tls(_) | Self::Answer => true,
        }
    }
}

impl Address {
    /// As PostgreSQL's clients read it: a host that begins with a slash is a socket directory.
    pub fn new(host: &str, port: u16) -> Self {
        if host.starts_with('/') { Self::Unix(PathBuf::from(host), port) } else { Self::Tcp(host.to_owned(), port) }
    }

    /// Connects within `deadline`, TLS included. TCP connections get no Nagle delay and keep-alives; Unix sockets never get
    /// TLS, as in libpq.
    pub async fn dial(&self, tls: &TowardsServers, deadline: Duration) -> Result<Stream, DialError> {
        let connect = async {
            match self.attempt(tls).await {
                Err(DialError::Tls(error)) => match tls.fallback() {
                    Some(clear) => self.attempt(&clear).await,
                    None => Err(DialError::Tls(error)),
                },
                other => other,
            }
        };
        timeout(deadline, connect).await.unwrap_or(Err(DialError::Deadline(deadline)))
    }

    async fn attempt(&self, tls: &TowardsServers) -> Result<Stream, DialError> {
        let (host, port) = match self {
            Self::Tcp(host, port) => (host.as_str(), *port),
            Self::Unix(dir, port) => {
                return Ok(Stream::Unix(UnixStream::connect(dir.join(format!(".s.PGSQL.{port}"))).await?));
            }
        };
        let stream = Stream::from_tcp(TcpStream::connect((host, port)).await?)?;
        match tls.settings() {
            None => Ok(stream),
            Some(settings) => encrypt(stream, host, tls.mode(), settings).await,
        }
    }
}

/// Asks for TLS and begins it.
async fn encrypt(
    mut stream: Stream,
    host: &str,
    mode: ServerMode,
    settings: Arc<ClientConfig>,
) -> Result<Stream, DialError> {
    let mut request = Vec::with_capacity(8);
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await?;
    // Room for one byte more than there may be. What comes later in the clear is no TLS record and ends the handshake.
    let mut answer = [0; 2];
    let n = stream.read(&mut answer).await?;
    match (&answer[..n], stream) {
        (b"S", Stream::Tcp(socket)) => {
            // What cannot be a name matches no certificate; an address is not sent as one.
            let name = ServerName::try_from(host.to_owned())
                .unwrap_or(ServerName::IpAddress(IpAddr::from(Ipv4Addr::UNSPECIFIED).into()));
            let state = ClientConnection::new(settings, name).map_err(|e| DialError::Tls(io::Error::other(e)))?;
            let begun = Secure::begin(socket, state.into(), &[]).await;
            let secure = begun.map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => DialError::Tls(error),
                _ => DialError::Io(error),
            })?;
            Ok(Stream::Tls(Box::new(secure)))
        }
        (b"N", stream) if mode == ServerMode::Prefer => Ok(stream),
        (b"N", _) => Err(DialError::NoTls),
        (b"", _) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        _ => Err(DialError::Answer),
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
