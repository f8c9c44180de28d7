//! The one loop that moves bytes: both directions at once, with backpressure both ways.

use std::{
    io,
    task::{Context, Poll},
};

use super::{Attempt, Buffers, Client, ClientGone, Feed, Violation};
use crate::{
    pool::Server,
    wire::{
        WireError,
        frontend::{self, tag},
        next_head,
    },
};

/// While a reply is awaited, this much of what the client sends next is read ahead: enough to notice that it left.
const LOOK_AHEAD: usize = 16 * 1024;
/// Bytes on their way to the server beyond which the client is not read.
const IN_FLIGHT: usize = 128 * 1024;

/// Replies of an attempt that are held back; when there are more, there is no way back.
const HELD: usize = 256 * 1024;

/// Bytes for the server, and how many more of the client's follow unread.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// What to send.
    pub bytes: Vec<u8>,
    sent: usize,
    /// After `bytes`, this many of the client's bytes belong to the same message.
    pub stream: usize,
}

impl Outgoing {
    /// Everything is with the operating system.
    pub fn is_done(&self) -> bool {
        self.bytes.is_empty() && self.stream == 0
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, server: &mut Server) -> Poll<io::Result<()>> {
        while self.sent < self.bytes.len() {
            match server.stream.poll_write(cx, &self.bytes[self.sent..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => self.sent += n,
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.bytes.clear();
        self.sent = 0;
        server.stream.poll_flush(cx)
    }
}

/// How long to pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until all requests are with the server.
    Sent,
    /// Until all replies are in.
    Settled,
    /// Until the client has sent something, with nothing owed: the server may still speak (notifications, its end).
    ClientSpeaks {
        /// Bytes that lie in the inbox already.
        more_than: usize,
    },
}

/// How it ended.
#[derive(Debug)]
pub enum Outcome {
    /// As asked.
    Done,
    /// The attempt can be run again on the primary; nothing was delivered.
    Misrouted,
    /// The client will send nothing more, while replies are owed.
    ClientClosing,
    /// The client is gone.
    ClientGone(ClientGone),
    /// The client broke the protocol inside a COPY.
    ClientBroke(WireError),
    /// What waits for the client shows names of ours ([`Feed::misnamed`]): they are to be mended, then it goes on.
    Misnamed,
    /// A result is longer than it may be (`Feed::meter`): nothing more of it is passed on, and the server need not go on. Said once.
    TooMuch,
    /// A cancel did not end the request in time. Only whoever pumps with a deadline says so.
    Overdue,
    /// The server's connection ended.
    ServerLost(Option<io::Error>),
    /// The server broke the protocol.
    ServerBroke(Violation),
}

/// One conversation between a client and a server.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The client.
    pub client: &'a mut Client,
    /// The server.
    pub server: &'a mut Server,
    /// What is owed.
    pub feed: &'a mut Feed,
    /// What is to be sent.
    pub outgoing: &'a mut Outgoing,
    /// The worker's buffers.
    pub buffers: &'a Buffers,
    /// Longest message a client may send.
    pub cap: u32,
    /// The client's end of file was reported already.
    pub closing_known: bool,
}

impl Exchange<'_> {
    /// Moves bytes until `until` holds or something ends it. Can be given up and started again at any point.
    pub fn poll(&mut self, cx: &mut Context<'_>, until: Until) -> Poll<Outcome> {
        loop {
            if std::mem::take(&mut self.feed.strays.lost_place) {
                return Poll::Ready(Outcome::ClientBroke(WireError::LostPlace));
            }
            self.feed.strays.ask(self.outgoing);
            if std::mem::take(&mut self.feed.refuses_copy) {
                frontend::copy_fail(&mut self.outgoing.bytes, "a result in front of it was refused");
            }
            // To the server first: without the request there is nothing to wait for.
            let sending = match self.outgoing.poll_send(cx, self.server) {
                Poll::Ready(Ok(())) => false,
                Poll::Pending => true,
                // The server's last words explain it; read them before giving up.
                Poll::Ready(Err(e)) => return Poll::Ready(self.last_words(cx, e)),
            };
            if !self.feed.misnamed.is_empty() {
                return Poll::Ready(Outcome::Misnamed);
            }
            if self.feed.meter.as_mut().is_some_and(|meter| meter.take_alarm()) {
                return Poll::Ready(Outcome::TooMuch);
            }
            // An attempt holds its replies back until there is no way back.
            if self.is_attempt() && self.client.out.len() > HELD {
                self.feed.delivered = true;
            }
            let may_flush = self.feed.delivered || !self.is_attempt();
            let blocked = if may_flush {
                match self.client.poll_flush(cx) {
                    Poll::Ready(Ok(())) => false,
                    Poll::Pending => true,
                    Poll::Ready(Err(e)) => return Poll::Ready(Outcome::ClientGone(e.into())),
                }
            } else {
                false
            };
            let done = match until {
                Until::Sent => !sending && self.outgoing.stream == 0,
                Until::Settled => !sending && self.outgoing.stream == 0 && self.feed.is_settled(),
                Until::ClientSpeaks { more_than } => self.client.pending().len() > more_than,
            };
            if done {
                return Poll::Ready(Outcome::Done);
            }
            // What a crossed limit drops needs no place with the client.
            if !blocked || self.feed.is_crossed() {
                match self.poll_server(cx) {
                    Poll::Ready(None) => continue,
                    Poll::Ready(Some(outcome)) => return Poll::Ready(outcome),
                    Poll::Pending => {}
                }
            }
            if blocked && self.client.is_full() && matches!(until, Until::ClientSpeaks { .. }) {
                return Poll::Pending;
            }
            match self.poll_client(cx, until, sending) {
                Poll::Ready(None) => continue,
                Poll::Ready(Some(outcome)) => return Poll::Ready(outcome),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn is_attempt(&self) -> bool {
        self.feed.attempt == Attempt::Repeatable && !self.feed.is_settled()
    }

    /// Reads once from the server. `Ready(None)`: there was something, look again.
    fn poll_server(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        if self.feed.mute && !self.feed.tail_is_part && !self.server.tail.is_empty() {
            // The error that ended the attempt, and what came with it.
            return self.poll_tail();
        }
        let mut scratch = self.buffers.scratch();
        let tail = self.server.tail.len();
        if scratch.len() < tail + 4096 {
            // A message that must be read whole is longer than the scratch buffer: go on in the tail itself.
            drop(scratch);
            return self.poll_server_long(cx);
        }
        let n = match self.server.stream.poll_read(cx, &mut scratch[tail..]) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(0)) => return Poll::Ready(Some(Outcome::ServerLost(None))),
            Poll::Ready(Err(e)) => return Poll::Ready(Some(Outcome::ServerLost(Some(e)))),
            Poll::Ready(Ok(n)) => n,
        };
        if tail > 0 {
            scratch[..tail].copy_from_slice(&self.server.tail);
            self.server.tail.clear();
        }
        let chunk = &scratch[..tail + n];
        let fed = match self.feed.feed(chunk, &mut self.client.out) {
            Ok(fed) => fed,
            Err(violation) => return Poll::Ready(Some(Outcome::ServerBroke(violation))),
        };
        self.server.tail.extend_from_slice(&chunk[fed.consumed..]);
        if self.feed.misrouted {
            return Poll::Ready(Some(Outcome::Misrouted));
        }
        let direct = &chunk[fed.direct];
        if !direct.is_empty() {
            if self.feed.attempt == Attempt::Repeatable && !self.feed.delivered && !self.feed.is_settled() {
                self.client.say().extend_from_slice(direct);
            } else if let Err(e) = self.client.pass(cx, direct) {
                return Poll::Ready(Some(Outcome::ClientGone(e.into())));
            }
        }
        Poll::Ready(None)
    }

    /// Walks what was left unread when an attempt was given up; reads on if that is not a whole message.
    fn poll_tail(&mut self) -> Poll<Option<Outcome>> {
        let chunk = std::mem::take(&mut self.server.tail);
        let mut nothing = Vec::new();
        match self.feed.feed(&chunk, &mut nothing) {
            Ok(fed) => {
                self.server.tail = chunk;
                self.server.tail.drain(..fed.consumed);
                self.feed.tail_is_part = true;
                Poll::Ready(None)
            }
            Err(violation) => Poll::Ready(Some(Outcome::ServerBroke(violation))),
        }
    }

    fn poll_server_long(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let tail = &mut self.server.tail;
        let len = tail.len();
        tail.resize(len + 64 * 1024, 0);
        let polled = self.server.stream.poll_read(cx, &mut tail[len..]);
        let n = match &polled {
            Poll::Ready(Ok(n)) => *n,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        tail.truncate(len + n);
        match polled {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(0)) => return Poll::Ready(Some(Outcome::ServerLost(None))),
            Poll::Ready(Err(e)) => return Poll::Ready(Some(Outcome::ServerLost(Some(e)))),
            Poll::Ready(Ok(_)) => {}
        }
        let chunk = std::mem::take(tail);
        let fed = match self.feed.feed(&chunk, &mut self.client.out) {
            Ok(fed) => fed,
            Err(violation) => return Poll::Ready(Some(Outcome::ServerBroke(violation))),
        };
        if !self.feed.misrouted {
            self.client.say().extend_from_slice(&chunk[fed.direct]);
        }
        self.server.tail = chunk;
        self.server.tail.drain(..fed.consumed);
        Poll::Ready(self.feed.misrouted.then_some(Outcome::Misrouted))
    }

    /// The client's side: the rest of a long message, COPY data, or just a look whether it is still there.
    fn poll_client(&mut self, cx: &mut Context<'_>, until: Until, sending: bool) -> Poll<Option<Outcome>> {
        if self.outgoing.stream > 0 || self.feed.copy_in {
            if sending && self.outgoing.bytes.len() >= IN_FLIGHT {
                return Poll::Pending;
            }
            match self.forward() {
                Ok(true) => return Poll::Ready(None),
                Ok(false) => {}
                Err(e) => return Poll::Ready(Some(Outcome::ClientBroke(e))),
            }
            if self.client.eof {
                return Poll::Ready(Some(Outcome::ClientGone(ClientGone::Eof)));
            }
            return match self.client.poll_fill(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(0)) => Poll::Ready(Some(Outcome::ClientGone(ClientGone::Eof))),
                Poll::Ready(Ok(_)) => Poll::Ready(None),
                Poll::Ready(Err(e)) => Poll::Ready(Some(Outcome::ClientGone(e.into()))),
            };
        }
        if self.client.eof {
            if matches!(until, Until::ClientSpeaks { .. }) {
                return Poll::Ready(Some(Outcome::ClientGone(ClientGone::Eof)));
            }
            if self.closing_known {
                return Poll::Pending;
            }
            return Poll::Ready(Some(Outcome::ClientClosing));
        }
        if !matches!(until, Until::ClientSpeaks { .. }) && self.client.pending().len() >= LOOK_AHEAD {
            return Poll::Pending;
        }
        match self.client.poll_fill(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(_)) => Poll::Ready(None),
            Poll::Ready(Err(e)) => Poll::Ready(Some(Outcome::ClientGone(e.into()))),
        }
    }

    /// Moves what the client has sent towards the server; `Ok(false)`: needs more from the client.
    fn forward(&mut self) -> Result<bool, WireError> {
        let mut moved = false;
        while self.outgoing.bytes.len() < IN_FLIGHT {
            if self.outgoing.stream > 0 {
                let pending = self.client.pending();
                let n = pending.len().min(self.outgoing.stream);
                if n == 0 {
                    return Ok(moved);
                }
                self.outgoing.bytes.extend_from_slice(&pending[..n]);
                self.outgoing.stream -= n;
                self.client.consume(n);
                moved = true;
                continue;
            }
            if !self.feed.copy_in {
                return Ok(true);
            }
            let Some(head) = next_head(self.client.pending(), self.cap)? else { return Ok(moved) };
            match head.tag {
                tag::COPY_DATA => self.outgoing.stream = head.total(),
                tag::COPY_DONE | tag::COPY_FAIL => {
                    let Some(frame) = self.client.pending().get(..head.total()) else { return Ok(moved) };
                    self.outgoing.bytes.extend_from_slice(frame);
                    // In the extended protocol the server keeps its answer until a Sync, and that one comes later.
                    frontend::flush(&mut self.outgoing.bytes);
                    self.client.consume(head.total());
                    self.feed.copy_in = false;
                    moved = true;
                }
                // The server ignores both during COPY (protocol documentation, "COPY Operations"). But if it has just failed, a Sync is
                // what it waits for, or one more to be answered.
                tag::SYNC | tag::FLUSH => {
                    let Some(frame) = self.client.pending().get(..head.total()) else { return Ok(moved) };
                    if head.tag == tag::SYNC {
                        self.outgoing.bytes.extend_from_slice(frame);
                        self.feed.strays.pass_sync();
                    }
                    self.client.consume(head.total());
                    moved = true;
                }
                // To a server in COPY it is an error, and the end. One whose COPY has just failed takes it like any message.
                other => {
                    self.feed.strays.misplace(other, &mut self.outgoing.bytes);
                    self.feed.copy_in = false;
                    moved = true;
                }
            }
        }
        Ok(moved)
    }

    /// The server does not take our bytes any more; what it said before is worth reading.
    fn last_words(&mut self, cx: &mut Context<'_>, error: io::Error) -> Outcome {
        loop {
            match self.poll_server(cx) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(outcome)) => return outcome,
                Poll::Pending => return Outcome::ServerLost(Some(error)),
            }
        }
    }
}
