//! Statements that rules change on their way: what a server is sent instead of the client's text, and that its errors point where the
//! client's text has the fault.

use std::{hash::Hasher, rc::Rc};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::{
    refusal::Refusal,
    rules::{Protocol, denied},
    state::Session,
};
use crate::{
    base::SqlState,
    policy::{Changed, Verdict},
    sql::{Known, Shape, Table},
    wire::{HEAD_BYTES, next_head},
};

/// Changed texts each worker remembers.
const TEXTS: usize = 4096;
/// A longer text is changed each time it comes.
const LONGEST: usize = 64 * 1024;
/// What a server says when a plan made anew gives other columns than before: drivers prepare such a statement again.
const CHANGED: &str = "cached plan must not change result type";

/// What rules made of texts, by everything that decides it. Bounded.
pub(super) struct Changes {
    key: (u64, u64),
    known: Table<Remembered>,
}

/// A changed text. The verdict is kept because its place in memory, which is part of the key, must be nobody else's meanwhile.
struct Remembered {
    text: Box<[u8]>,
    verdict: Rc<Verdict>,
    changed: Rc<Changed>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { key: (rand::random(), rand::random()), known: Table::new(TEXTS) }
    }
}

/// A text as the client has it, if what the server was sent is another.
#[derive(Clone, Debug)]
pub(super) struct Original {
    pub known: Rc<Known>,
    pub text: Rc<[u8]>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a text.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Changed(Rc<Changed>),
    /// It could not be changed safely.
    Refused(Box<Refusal>),
}

impl Session {
    /// What rules make of a text; `None`: they leave it as it is. [`Session::take_seat`] comes first.
    pub(super) fn change(
        &self,
        known: &Rc<Known>,
        text: &[u8],
        protocol: Protocol,
    ) -> Result<Option<Rc<Changed>>, Refusal> {
        let Some(seat) = self.seat.as_ref().filter(|seat| seat.rules.changes_texts()) else { return Ok(None) };
        let Some(verdict) = self.consult(known, text, protocol) else { return Ok(None) };
        if known.facts.error.is_some()
            && let Some(denial) = &verdict.denial
        {
            return Err(denied(denial).by(verdict.clone()));
        }
        if verdict.rewrites.is_empty() {
            return Ok(None);
        }
        verdict.count_rewrites(self.worker.index);
        let mut changes = self.worker.changes.borrow_mut();
        let key = changes.key_of(text, &verdict);
        if let Some(remembered) = changes.known.find(key)
            && *remembered.text == *text
            && Rc::ptr_eq(&remembered.verdict, &verdict)
        {
            return Ok(Some(Rc::clone(&remembered.changed)));
        }
        match seat.rules.change(&seat.principal, &verdict, &known.facts, self.moment(protocol), text) {
            Ok(changed) => {
                let changed = changed.map(Rc::new);
                if let Some(changed) = changed.as_ref().filter(|_| text.len() <= LONGEST) {
                    let changed = Rc::clone(changed);
                    changes.known.insert(key, Remembered { text: text.into(), verdict, changed });
                }
                Ok(changed)
            }
            Err(denial) => Err(denied(&denial)),
        }
    }

    /// Would rules make of a text today what a server was sent? If not, it has to be prepared again.
    pub(super) fn still_stands(
        &self,
        original: Option<&Original>,
        known: &Rc<Known>,
        sent: &[u8],
        protocol: Protocol,
    ) -> Result<(), Refusal> {
        if original.is_none() && !self.seat.as_ref().is_some_and(|seat| seat.rules.changes_texts()) {
            return Ok(());
        }
        if let Some(Outcome::Refused(refusal)) = original.map(|original| &original.outcome) {
            return Err((**refusal).clone());
        }
        let (known, text) = original.map_or((known, sent), |original| (&original.known, &original.text));
        let today = self.change(known, text, protocol)?;
        if today.as_ref().map_or(text, |changed| changed.text.as_bytes()) == sent {
            return Ok(());
        }
        Err(Refusal::new(SqlState::FEATURE_NOT_SUPPORTED, CHANGED).of_routine("RevalidateCachedQuery"))
    }

    /// Errors of the request under way point into a text that the client has not sent.
    pub(super) fn note_change(&mut self, changed: &Rc<Changed>) {
        self.feed.moved = true;
        self.orders.changed = match self.orders.changed.take() {
            None => Some(Some(Rc::clone(changed))),
            Some(Some(same)) if Rc::ptr_eq(&same, changed) => Some(Some(same)),
            // Of several texts nobody knows which one an error is about.
            Some(_) => Some(None),
        };
    }
}

impl Changes {
    fn key_of(&self, text: &[u8], verdict: &Rc<Verdict>) -> Shape {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        hasher.write(text);
        // The verdict is that of one shape and principal by one set of rules.
        hasher.write_usize(Rc::as_ptr(verdict) as usize);
        Shape(hasher.finish128().as_u128())
    }
}

/// Puts the position of an error back into the client's text; without a map there is none.
pub(super) fn show_position(out: &mut Vec<u8>, at: usize, changed: Option<&Changed>) {
    let Some(message) = out.get(at..) else { return };
    let Ok(Some(head)) = next_head(message, u32::MAX) else { return };
    let Some(body) = message.get(HEAD_BYTES..head.total()) else { return };
    let mut theirs = Vec::with_capacity(body.len());
    for field in body.split(|byte| *byte == 0).filter(|field| !field.is_empty()) {
        match field.split_first() {
            Some((b'P', position)) => {
                let position = std::str::from_utf8(position).ok().and_then(|position| position.parse().ok());
                let Some((position, changed)) = position.zip(changed) else { continue };
                theirs.push(b'P');
                theirs.extend_from_slice(changed.original(position).to_string().as_bytes());
            }
            _ => theirs.extend_from_slice(field),
        }
        theirs.push(0);
    }
    theirs.push(0);
    let length = (theirs.len() as u32 + 4).to_be_bytes();
    let end = at + head.total();
    out.splice(at + 1..end, length.into_iter().chain(theirs));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::backend::{self, ErrorText, Severity};

    #[test]
    fn a_position_without_a_map_is_left_out() {
        let mut out = vec![1, 2];
        backend::error_response(&mut out, &ErrorText::new(Severity::Error, SqlState::INTERNAL_ERROR, "x"));
        let plain = out.clone();
        show_position(&mut out, 2, None);
        assert_eq!(out, plain);
        out.truncate(out.len() - 1);
        out.extend_from_slice(b"P7\0\0");
        let length = (out.len() as u32 - 3).to_be_bytes();
        out[3..7].copy_from_slice(&length);
        show_position(&mut out, 2, None);
        assert_eq!(out, plain);
    }
}
