//! The client's end of the corridor: what has arrived from it, and what it has not taken yet.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
};

use super::Buffers;
use crate::{
    net::Stream,
    tls::TowardsClients,
    wire::{Head, WireError, next_head},
};

/// A read asks for at least this much room.
const ROOM: usize = 4 * 1024;

/// Bytes a client may leave untaken before we stop reading what it sends.
const UNTAKEN: usize = 256 * 1024;

/// The client left, or its socket failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientGone {
    /// End of file.
    #[error("the client closed the connection")]
    Eof,
    /// The socket failed.
    #[error("the client's connection failed: {0}")]
    Io(#[from] io::Error),
}

/// A client's socket with its two buffers; both are lent and empty while nothing is in flight.
#[derive(Debug)]
pub struct Client {
    /// The socket.
    pub stream: Stream,
    /// Bytes for the client that it has not taken yet; also where replies of our own are written.
    pub out: Vec<u8>,
    /// It will send nothing more, but may still read (PostgreSQL answers a half-closed client, too).
    pub eof: bool,
    /// Read into as a whole; only `start..end` means anything. Never cleared, so that a read costs no memset.
    inbox: Vec<u8>,
    start: usize,
    end: usize,
    sent: usize,
    buffers: Rc<Buffers>,
}

impl Client {
    /// A client that has sent nothing yet.
    pub fn new(stream: Stream, buffers: Rc<Buffers>) -> Self {
        Self { stream, out: Vec::new(), eof: false, inbox: Vec::new(), start: 0, end: 0, sent: 0, buffers }
    }

    /// Lets it begin TLS; what is pending is its hello. Where that fails, or is given up, there is no connection any more.
    ///
    /// # Errors
    /// See [`Stream::accept_tls`].
    pub async fn accept_tls(&mut self, with: &TowardsClients) -> io::Result<()> {
        let hello = self.pending().to_vec();
        self.consume(hello.len());
        self.rest();
        self.stream = std::mem::replace(&mut self.stream, Stream::Taken).accept_tls(with, &hello).await?;
        Ok(())
    }

    /// What has arrived and is not consumed.
    pub fn pending(&self) -> &[u8] {
        self.inbox.get(self.start..self.end).unwrap_or_default()
    }

    /// The next `n` bytes are done with.
    pub fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// The next frame's head, if its five bytes are there.
    pub fn head(&self, cap: u32) -> Result<Option<Head>, WireError> {
        next_head(self.pending(), cap)
    }

    /// Gives the buffers back if they are empty.
    pub fn rest(&mut self) {
        if self.end == 0 && !self.inbox.is_empty() {
            self.buffers.give_back_inbox(std::mem::take(&mut self.inbox));
        }
        if self.out.is_empty() && self.out.capacity() > 0 {
            self.buffers.give_back(std::mem::take(&mut self.out));
        }
    }

    /// Reads what has arrived behind what is pending; `Ok(0)` is the end of the stream.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.inbox.is_empty() {
            self.inbox = self.buffers.lend_inbox();
        }
        if self.start > 0 && self.inbox.len() - self.end < ROOM {
            self.inbox.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.inbox.len() - self.end < ROOM {
            self.inbox.resize(self.inbox.len() * 2, 0);
        }
        let polled = self.stream.poll_read(cx, &mut self.inbox[self.end..]);
        match &polled {
            Poll::Ready(Ok(n)) => self.end += n,
            // Whoever waits owns no buffer.
            Poll::Pending if self.end == 0 => self.rest(),
            Poll::Pending | Poll::Ready(Err(_)) => {}
        }
        if let Poll::Ready(Ok(0)) = polled {
            self.eof = true;
        }
        polled
    }

    /// Waits until more has arrived.
    pub async fn fill(&mut self) -> Result<(), ClientGone> {
        if self.eof {
            return Err(ClientGone::Eof);
        }
        match poll_fn(|cx| self.poll_fill(cx)).await? {
            0 => Err(ClientGone::Eof),
            _ => Ok(()),
        }
    }

    /// It is gone, or as good as gone: nothing more is read from it or written to it than what it has not taken yet, which this gives.
    pub fn give_up(&mut self) -> Vec<u8> {
        self.eof = true;
        let mut rest = std::mem::take(&mut self.out);
        rest.drain(..std::mem::take(&mut self.sent));
        rest
    }

    /// It has left so much untaken that nothing more is done for it.
    pub fn is_full(&self) -> bool {
        self.out.len() - self.sent > UNTAKEN
    }

    /// Writes until the client has taken everything.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            match self.stream.poll_write(cx, &self.out[self.sent..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => self.sent += n,
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => {
                    if self.sent > 64 * 1024 {
                        self.out.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Poll::Pending;
                }
            }
        }
        self.out.clear();
        self.sent = 0;
        self.stream.poll_flush(cx)
    }

    /// Writes everything.
    pub async fn flush(&mut self) -> Result<(), ClientGone> {
        Ok(poll_fn(|cx| self.poll_flush(cx)).await?)
    }

    /// Room for replies of our own.
    pub fn say(&mut self) -> &mut Vec<u8> {
        if self.out.capacity() == 0 {
            self.out = self.buffers.lend();
        }
        &mut self.out
    }

    /// Sends `bytes` now as far as the socket takes them, and keeps the rest.
    pub fn pass(&mut self, cx: &mut Context<'_>, mut bytes: &[u8]) -> io::Result<()> {
        if self.out.is_empty() {
            while !bytes.is_empty() {
                match self.stream.poll_write(cx, bytes) {
                    Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                    Poll::Ready(Ok(n)) => bytes = &bytes[n..],
                    Poll::Ready(Err(e)) => return Err(e),
                    Poll::Pending => break,
                }
            }
        }
        if !bytes.is_empty() {
            self.say().extend_from_slice(bytes);
        }
        Ok(())
    }
}

impl Drop for Client {
    /// The next client need not make buffers of its own.
    fn drop(&mut self) {
        self.buffers.give_back_inbox(std::mem::take(&mut self.inbox));
        self.buffers.give_back(std::mem::take(&mut self.out));
    }
}
