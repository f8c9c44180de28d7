//! TLS over a TCP socket: rustls keeps the state, this file moves the bytes.
//!
//! rustls itself and not tokio-rustls, because the socket must be able to leave one reactor for another's while the state
//! stays, and because an idle connection must be looked at without taking the layer's own messages for the peer's.

use std::{
    future::poll_fn,
    io::{self, IoSlice, Read, Write},
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use rustls::Connection;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Most ciphertext read from the socket at once, on the stack: large results cost few system calls, idle clients no memory.
const STAGE: usize = 64 * 1024;
/// The same during the handshake; what may follow it then fits rustls's own buffer (16 KiB).
const HANDSHAKE: usize = 8 * 1024;

/// An encrypted TCP connection.
#[derive(Debug)]
pub struct Secure {
    pub(super) socket: TcpStream,
    state: Connection,
}

/// The same on its way between reactors.
#[derive(Debug)]
pub struct ParkedSecure {
    socket: std::net::TcpStream,
    state: Connection,
}

impl Secure {
    /// Runs the handshake; `early` is what has been read of the peer's part already.
    ///
    /// # Errors
    /// `InvalidData` with rustls's error, the socket's errors, `UnexpectedEof`.
    pub(super) async fn begin(socket: TcpStream, state: Connection, mut early: &[u8]) -> io::Result<Self> {
        let mut this = Self { socket, state };
        poll_fn(|cx| -> Poll<io::Result<()>> {
            let mut nothing: [u8; 0] = [];
            this.feed(cx, std::mem::take(&mut early), &mut nothing)?;
            loop {
                ready!(this.poll_flush(cx))?;
                if !this.state.is_handshaking() {
                    return Poll::Ready(Ok(()));
                }
                if ready!(this.poll_receive(cx, &mut nothing, HANDSHAKE))?.is_end {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
            }
        })
        .await?;
        Ok(this)
    }

    /// The peer's own certificate in DER, verified or not as was asked at the beginning.
    pub(super) fn peer_certificate(&self) -> Option<&[u8]> {
        self.state.peer_certificates().and_then(|chain| chain.first()).map(|certificate| &**certificate)
    }

    /// What both sides agreed to speak, if they did.
    pub(super) fn alpn(&self) -> Option<&[u8]> {
        self.state.alpn_protocol()
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.state.reader().read(buf) {
                Ok(n) => return Poll::Ready(Ok(n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An end without TLS's goodbye. PostgreSQL's messages tell whether something is missing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(0)),
                Err(error) => return Poll::Ready(Err(error)),
            }
            let limit = buf.len().min(STAGE);
            let received = ready!(self.poll_receive(cx, buf, limit))?;
            if received.plaintext > 0 {
                return Poll::Ready(Ok(received.plaintext));
            }
        }
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        // What was taken before goes first, so that never more than one buffer of rustls's (64 KiB) waits.
        ready!(self.poll_flush(cx))?;
        let taken = self.state.writer().write(buf)?;
        match self.poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // The rest is poll_flush's.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(taken)),
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.state.wants_write() {
            match self.state.write_tls(&mut Out { socket: &mut self.socket, cx }) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Has the peer spoken, ended or failed, on a connection that should be silent? Session tickets and key updates are the
    /// layer's own: they are taken in and count for nothing. What the peer said is lost.
    pub(super) fn is_readable(&mut self) -> bool {
        let mut lost = [0; 1024];
        self.poll_read(&mut Context::from_waker(Waker::noop()), &mut lost).is_ready()
    }

    /// Says goodbye in TLS's way, as far as the socket takes it now.
    pub(super) fn say_goodbye(&mut self) {
        self.state.send_close_notify();
        // A peer that takes nothing more learns from the socket's end.
        let _ = self.poll_flush(&mut Context::from_waker(Waker::noop()));
    }

    pub(super) fn park(self) -> io::Result<ParkedSecure> {
        Ok(ParkedSecure { socket: self.socket.into_std()?, state: self.state })
    }

    /// Reads at most `limit` bytes from the socket. `buf` gets the plaintext, must be empty or at least `limit` bytes long, and
    /// rustls must hold no plaintext: then it never holds more than one record of it, which is its limit.
    fn poll_receive(&mut self, cx: &mut Context<'_>, buf: &mut [u8], limit: usize) -> Poll<io::Result<Received>> {
        let mut stage = [const { MaybeUninit::uninit() }; STAGE];
        let mut read = ReadBuf::uninit(&mut stage[..limit]);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut read))?;
        let is_end = read.filled().is_empty();
        if is_end {
            // This is how rustls learns of it.
            self.state.read_tls(&mut io::empty())?;
        }
        let plaintext = self.feed(cx, read.filled(), buf)?;
        Poll::Ready(Ok(Received { plaintext, is_end }))
    }

    fn feed(&mut self, cx: &mut Context<'_>, mut ciphertext: &[u8], buf: &mut [u8]) -> io::Result<usize> {
        let mut plaintext = 0;
        while !ciphertext.is_empty() {
            if self.state.read_tls(&mut ciphertext)? == 0 {
                // TLS has ended; whatever follows is nobody's.
                break;
            }
            let processed = self.state.process_new_packets();
            if processed.is_err() || self.state.wants_write() {
                // An alert for the peer, or what the handshake goes on with. If it cannot be written now, the next flush will.
                let _ = self.poll_flush(cx);
            }
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if let Some(room) = buf.get_mut(plaintext..).filter(|room| !room.is_empty()) {
                plaintext += match self.state.reader().read(room) {
                    Ok(n) => n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(plaintext)
    }
}

impl ParkedSecure {
    pub(super) fn unpark(self) -> io::Result<Secure> {
        Ok(Secure { socket: TcpStream::from_std(self.socket)?, state: self.state })
    }
}

/// What one read gave.
struct Received {
    plaintext: usize,
    is_end: bool,
}

/// Lets rustls write to a socket that may not take it now.
struct Out<'a, 'b> {
    socket: &'a mut TcpStream,
    cx: &'a mut Context<'b>,
}

impl Out<'_, '_> {
    fn done(polled: Poll<io::Result<usize>>) -> io::Result<usize> {
        match polled {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Out<'_, '_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Self::done(Pin::new(&mut *self.socket).poll_write(self.cx, buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Self::done(Pin::new(&mut *self.socket).poll_write_vectored(self.cx, bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
