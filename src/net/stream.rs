//! One byte stream, whatever carries it.

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A connected socket, registered with the reactor of the thread that made it.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// Unix domain.
    Unix(UnixStream),
}

/// A socket on its way from one reactor to another.
#[derive(Debug)]
pub enum Parked {
    /// TCP.
    Tcp(std::net::TcpStream),
    /// Unix domain.
    Unix(std::os::unix::net::UnixStream),
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
            Self::Unix(_) => Peer::Local,
        }
    }

    /// Waits until a read would give bytes, an end or an error; owns no buffer meanwhile.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(s) => s.poll_read_ready(cx),
            Self::Unix(s) => s.poll_read_ready(cx),
        }
    }

    /// Has the reactor seen bytes, an end or an error on a socket that should be silent? No system call.
    pub fn is_readable(&self) -> bool {
        self.poll_readable(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Reads into `buf`; `Ok(0)` is the end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(buf);
        let polled = match self {
            Self::Tcp(s) => Pin::new(s).poll_read(cx, &mut read),
            Self::Unix(s) => Pin::new(s).poll_read(cx, &mut read),
        };
        polled.map_ok(|()| read.filled().len())
    }

    /// Writes a part of `buf`.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(s) => Pin::new(s).poll_write(cx, buf),
            Self::Unix(s) => Pin::new(s).poll_write(cx, buf),
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
        Ok(())
    }

    /// Tells the peer that nothing more will come; the rest is up to the operating system.
    pub fn shut_write(&self) {
        let socket = match self {
            Self::Tcp(s) => SockRef::from(s),
            Self::Unix(s) => SockRef::from(s),
        };
        // The peer may be gone already; closing follows anyway.
        let _ = socket.shutdown(std::net::Shutdown::Write);
    }

    /// Leaves the reactor, so that another thread's can take the socket.
    pub fn park(self) -> io::Result<Parked> {
        Ok(match self {
            Self::Tcp(s) => Parked::Tcp(s.into_std()?),
            Self::Unix(s) => Parked::Unix(s.into_std()?),
        })
    }
}

impl Parked {
    /// Joins the reactor of the current thread.
    pub fn unpark(self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(s) => Stream::Tcp(TcpStream::from_std(s)?),
            Self::Unix(s) => Stream::Unix(UnixStream::from_std(s)?),
        })
    }
}
