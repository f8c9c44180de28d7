//! One byte stream, whatever carries it.
//!
//! Plain sockets stand in the enum itself, so that they pay for TLS with nothing but a branch; TLS stands in a box, so that
//! idle plain clients do not pay for its size.

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use rustls::ServerConnection;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

use super::{ParkedSecure, Secure};
use crate::tls::TowardsClients;

/// A connected socket, registered with the reactor of the thread that made it.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// Unix domain.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<Secure>),
    /// Nothing: what was here is on its way into another stream.
    Taken,
}

/// A socket on its way from one reactor to another.
#[derive(Debug)]
pub enum Parked {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix domain.
    Unix(std::os::unix::net::UnixStream),
    /// TLS over TCP.
    Tls(Box<ParkedSecure>),
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An IP address and port.
    Ip(SocketAddr),
    /// The same machine.
    Local,
}

impl Peer {
    /// The address, if there is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(addr) => Some(addr.ip()),
            Self::Local => None,
        }
    }
}

/// Dead peers behind a silent network are found within about a minute and a half.
fn keep_alive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(10)).with_retries(3)
}

fn read<S: AsyncRead + Unpin>(socket: &mut S, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut read = ReadBuf::new(buf);
    let polled = Pin::new(socket).poll_read(cx, &mut read);
    polled.map_ok(|()| read.filled().len())
}

impl Stream {
    /// Takes over a connected TCP socket: no Nagle delay (a reply must not wait for the next one), keep-alives on.
    pub fn from_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        SockRef::from(&stream).set_tcp_keepalive(&keep_alive())?;
        Ok(Self::Tcp(stream))
    }

    /// Who is at the other end.
    pub fn peer(&self) -> Peer {
        match self {
            Self::Tcp(s) => s.peer_addr().map_or(Peer::Local, Peer::Ip),
            Self::Unix(_) | Self::Taken => Peer::Local,
            Self::Tls(s) => s.socket.peer_addr().map_or(Peer::Local, Peer::Ip),
        }
    }

    /// Lets a client that asked for TLS begin it; `hello` is what has been read of its first message already.
    ///
    /// # Errors
    /// `InvalidData` with the reason if the two do not agree, whatever the socket says, `Unsupported` for anything but TCP.
    pub async fn accept_tls(self, with: &TowardsClients, hello: &[u8]) -> io::Result<Self> {
        let Self::Tcp(socket) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let state = ServerConnection::new(with.settings()).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(Secure::begin(socket, state.into(), hello).await?)))
    }

    /// The peer's certificate in DER, if TLS is on and it showed one.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(s) => s.peer_certificate(),
            Self::Tcp(_) | Self::Unix(_) | Self::Taken => None,
        }
    }

    /// The protocol agreed on by ALPN, if TLS is on and one was.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(s) => s.alpn(),
            Self::Tcp(_) | Self::Unix(_) | Self::Taken => None,
        }
    }

    /// Has the peer said something, ended or failed, on a connection that should be silent? No system call in the clear; over
    /// TLS what has arrived is read, and what the peer said is lost.
    pub fn is_readable(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        match self {
            Self::Tcp(s) => s.poll_read_ready(&mut cx).is_ready(),
            Self::Unix(s) => s.poll_read_ready(&mut cx).is_ready(),
            Self::Tls(s) => s.is_readable(),
            Self::Taken => true,
        }
    }

    /// Reads into `buf`; `Ok(0)` is the end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(s) => read(s, cx, buf),
            Self::Unix(s) => read(s, cx, buf),
            Self::Tls(s) => s.poll_read(cx, buf),
            Self::Taken => Poll::Ready(Ok(0)),
        }
    }

    /// Takes a part of `buf`. In the clear that is with the operating system then; over TLS see [`Stream::poll_flush`].
    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(s) => Pin::new(s).poll_write(cx, buf),
            Self::Unix(s) => Pin::new(s).poll_write(cx, buf),
            Self::Tls(s) => s.poll_write(cx, buf),
            Self::Taken => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Gives the operating system what TLS has taken and not sent yet. Whoever has written all it has must wait for this, too.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Taken => Poll::Ready(Ok(())),
            Self::Tls(s) => s.poll_flush(cx),
        }
    }

    /// Reads once; used where nothing is fast.
    pub async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buf)).await
    }

    /// Writes all of `buf`; used where nothing is fast.
    pub async fn write_all(&mut self, mut buf: &[u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let n = poll_fn(|cx| self.poll_write(cx, buf)).await?;
            if n == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            buf = &buf[n..];
        }
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Tells the peer that nothing more will come; the rest is up to the operating system.
    pub fn shut_write(&mut self) {
        let socket = match self {
            Self::Tcp(s) => SockRef::from(&*s),
            Self::Unix(s) => SockRef::from(&*s),
            Self::Taken => return,
            Self::Tls(s) => {
                s.say_goodbye();
                SockRef::from(&s.socket)
            }
        };
        // The peer may be gone already; closing follows anyway.
        let _ = socket.shutdown(std::net::Shutdown::Write);
    }

    /// Leaves the reactor, so that another thread's can take the socket.
    pub fn park(self) -> io::Result<Parked> {
        Ok(match self {
            Self::Tcp(s) => Parked::Tcp(s.into_std()?),
            Self::Unix(s) => Parked::Unix(s.into_std()?),
            Self::Tls(s) => Parked::Tls(Box::new(s.park()?)),
            Self::Taken => return Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl Parked {
    /// Joins the reactor of the current thread.
    pub fn unpark(self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(s) => Stream::Tcp(TcpStream::from_std(s)?),
            Self::Unix(s) => Stream::Unix(UnixStream::from_std(s)?),
            Self::Tls(s) => Stream::Tls(Box::new(s.unpark()?)),
        })
    }
}
