//! Accepts the API's connections: few at a time, and none for long.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{extract::connect_info::Connected, serve::IncomingStream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};

/// Most connections at once; further ones wait in the kernel's queue.
const SEATS: usize = 64;
/// Longest life of a connection, keep-alive included: a peer that sends nothing cannot hold a seat for ever.
const LIFETIME: Duration = Duration::from_secs(60);
/// Rest after a failed accept (no file descriptors left, as a rule).
const REST: Duration = Duration::from_millis(200);

/// A listener with a limited number of seats.
pub(super) struct Seats {
    listener: TcpListener,
    free: Arc<Semaphore>,
}

/// A connection on its seat.
pub(super) struct Seated {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _seat: Option<OwnedSemaphorePermit>,
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

impl Seats {
    /// Takes over a bound listener.
    pub(super) fn new(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener: TcpListener::from_std(listener)?, free: Arc::new(Semaphore::new(SEATS)) })
    }
}

impl axum::serve::Listener for Seats {
    type Io = Seated;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Seated, SocketAddr) {
        // The semaphore is never closed, so there is always a permit in the end.
        let seat = Arc::clone(&self.free).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => return (Seated { stream, end: Box::pin(sleep(LIFETIME)), _seat: seat }, peer),
                Err(error) => {
                    tracing::warn!(%error, "admin connection not accepted");
                    sleep(REST).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, Seats>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Seats>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl AsyncRead for Seated {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Seated {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
