//! Says a script's messages and reads what must come for them, whatever it is. No answer is expected: the other run's is the
//! oracle. To know when nothing more will come, the messages that still wait for an answer are kept in order, as the protocol
//! answers them (PostgreSQL documentation, "Message Flow").

use std::{collections::VecDeque, io, time::Duration};

use super::script::{Message, Names};
use crate::{
    backend::{Detail, Msg},
    client::{Client, Trouble},
};

/// What a message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    /// `1`, `2` or `3`.
    Complete(u8),
    /// `T` or `n`; of a statement `t` comes before.
    Description,
    Execution,
    /// `Z`.
    Ready,
    /// A Query or a function call: `Z`, and never skipped halfway.
    Query,
    Flush,
    CopyData,
    CopyEnd,
}

impl Owed {
    fn of(message: &Message) -> Self {
        match message {
            Message::Query(_) | Message::Call(_) => Self::Query,
            Message::Parse { .. } => Self::Complete(b'1'),
            Message::Bind { .. } => Self::Complete(b'2'),
            Message::Close(..) => Self::Complete(b'3'),
            Message::Describe(..) => Self::Description,
            Message::Execute(..) => Self::Execution,
            Message::Sync => Self::Ready,
            Message::Flush => Self::Flush,
            Message::Data(_) => Self::CopyData,
            Message::Done | Message::Fail => Self::CopyEnd,
        }
    }

    /// Does the server hand out what it has said before, when this comes?
    fn flushes(self) -> bool {
        matches!(self, Self::Ready | Self::Query | Self::Flush)
    }
}

/// One connection in the middle of its script.
pub struct Dialogue<'a> {
    client: Client,
    names: &'a Names,
    owed: VecDeque<Owed>,
    /// After an error: everything up to Sync is ignored.
    skipping: bool,
    /// The first of `owed` takes data.
    copying: bool,
    /// Nothing more will come.
    pub over: bool,
    pub trace: Vec<String>,
}

impl<'a> Dialogue<'a> {
    pub fn new(client: Client, names: &'a Names) -> Self {
        Self { client, names, owed: VecDeque::new(), skipping: false, copying: false, over: false, trace: Vec::new() }
    }

    /// Is every message answered? Then what comes at the end is known.
    pub fn is_quiet(&self) -> bool {
        self.owed.is_empty()
    }

    /// Writes messages, in two writes if `cut` says where.
    pub fn say(&mut self, messages: &[Message], cut: Option<usize>) {
        let bytes = super::script::bytes(messages, self.names);
        self.owed.extend(messages.iter().map(Owed::of));
        let at = cut.map_or(bytes.len(), |cut| bytes.len() * cut / 1000);
        let (first, second) = bytes.split_at(at);
        // The other side may have closed: reading will tell.
        let _ =
            self.client.send(first).and_then(|()| if second.is_empty() { Ok(()) } else { self.client.send(second) });
    }

    /// Reads until nothing more can come before the next write.
    pub fn listen(&mut self) {
        while !self.over && self.awaits() {
            let came = self.client.recv();
            self.take(came);
        }
    }

    /// Is an answer to what was said already on its way? Looks for a moment only.
    pub fn hears(&mut self) -> bool {
        match self.client.recv_within(Duration::from_millis(5)) {
            Err(Trouble::Timeout) => false,
            came => {
                self.take(came);
                true
            }
        }
    }

    /// Whatever still comes after goodbye.
    pub fn listen_to_the_end(&mut self) {
        while !self.over {
            let came = self.client.recv();
            self.take(came);
        }
    }

    pub fn cancel(&self, port: u16) -> io::Result<()> {
        self.client.cancel(port)
    }

    /// Was something said that nobody has asked an answer for yet?
    pub fn was_unasked(&self) -> bool {
        self.owed.iter().any(|owed| *owed != Owed::Flush)
    }

    /// Closes without a word.
    pub fn finish(self) -> Vec<String> {
        self.client.vanish();
        self.trace
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.client.send(bytes);
    }

    /// Drops what gets no answer of its own; true if the first of the rest gets one now.
    pub fn awaits(&mut self) -> bool {
        loop {
            let Some(first) = self.owed.front().copied() else { return false };
            if self.copying {
                match self.owed.get(1) {
                    None => return false,
                    // Flush and Sync are ignored while data is awaited.
                    Some(Owed::CopyData | Owed::Flush | Owed::Ready) => {
                        self.owed.remove(1);
                    }
                    Some(Owed::CopyEnd) => {
                        self.owed.remove(1);
                        self.copying = false;
                    }
                    Some(_) => self.copying = false,
                }
                continue;
            }
            match first {
                Owed::Flush | Owed::CopyData | Owed::CopyEnd => {}
                Owed::Ready => return true,
                _ if self.skipping => {}
                Owed::Query => return true,
                _ => return self.owed.iter().any(|owed| owed.flushes()),
            }
            self.owed.pop_front();
        }
    }

    fn take(&mut self, came: Result<Msg, Trouble>) {
        let msg = match came {
            Ok(msg) => msg,
            Err(trouble) => {
                self.trace.push(trouble.render(Detail::Meaning));
                self.over = true;
                return;
            }
        };
        self.trace.push(self.names.hide(&msg.render(Detail::Meaning)));
        // Data rows and notices come between everything.
        if b"NASDdtVHcW".contains(&msg.tag) {
            return;
        }
        let first = self.owed.front().copied();
        match (msg.tag, first) {
            (b'G', Some(Owed::Query | Owed::Execution)) => self.copying = true,
            (b'E', _) => {
                self.copying = false;
                if !matches!(first, Some(Owed::Query | Owed::Ready) | None) {
                    self.skipping = true;
                    self.owed.pop_front();
                }
            }
            (b'Z', Some(Owed::Query | Owed::Ready)) => {
                self.skipping = false;
                self.owed.pop_front();
            }
            (b'T' | b'C' | b'I', Some(Owed::Query)) => {}
            (b'T' | b'n', Some(Owed::Description)) | (b'C' | b'I' | b's', Some(Owed::Execution)) => {
                self.owed.pop_front();
            }
            (tag, Some(Owed::Complete(wanted))) if tag == wanted => {
                self.owed.pop_front();
            }
            (_, first) => {
                self.trace.push(format!("which has no place here: {first:?}"));
                self.over = true;
            }
        }
    }
}
