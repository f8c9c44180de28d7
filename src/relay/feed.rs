//! The pure half of the relay: server bytes and what is owed → bytes for the client and what was learnt.

use std::{num::NonZeroU64, ops::Range};

use memchr::memmem;

use super::{Ack, Asked, Meter, Names, Owed, ReplyQueue, Show, What, copy::Strays};
use crate::{
    base::SqlState,
    pool::{NAME_PREFIX, Prepared, StatementId},
    wire::{
        HEAD_BYTES,
        backend::{ErrorFields, ParameterStatus, ResultType, TxStatus, tag},
    },
};

/// Messages that must be read whole to be understood are small; this is the most we hold of one (an error's text, a row
/// description with 1,600 columns and long names).
const HOLD: usize = 1024 * 1024;
/// Most bytes kept of rows we asked for ourselves.
const COLLECT: usize = 1024 * 1024;

/// The server broke the protocol, or we have lost count; either way the connection is unusable.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Violation {
    /// A message that nobody asked for.
    #[error("unexpected message {tag:?} while {owed} was owed", tag = char::from(*tag))]
    Unexpected {
        /// Its tag.
        tag: u8,
        /// What was.
        owed: &'static str,
    },
    /// A length that cannot be.
    #[error("message {tag:?} has impossible length {len}", tag = char::from(*tag))]
    BadLength {
        /// Its tag.
        tag: u8,
        /// Its length word.
        len: u32,
    },
    /// A body that cannot be read.
    #[error("message {tag:?} cannot be read", tag = char::from(*tag))]
    Malformed {
        /// Its tag.
        tag: u8,
    },
}

/// What to do with one message.
enum Move {
    Pass,
    Drop,
    Instead(Box<[u8]>),
    /// To be passed, but it shows a name of ours.
    Misnamed(Option<u32>),
}

/// An error in the bytes for the client that shows the name a statement has on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misnamed {
    /// Where its message begins.
    pub at: usize,
    /// If a Bind failed, the number of [`Ack::Bound`].
    pub bound: Option<u32>,
}

/// May the exchange be run again elsewhere if nothing was delivered?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attempt {
    /// No: an error is the client's.
    #[default]
    Final,
    /// Yes: errors that only a standby gives end the attempt unseen.
    Repeatable,
}

/// The state of one conversation with a server.
#[derive(Debug, Default)]
pub struct Feed {
    /// What is owed.
    pub queue: ReplyQueue,
    /// The status byte of the last ReadyForQuery; the only truth about transactions.
    pub status: Option<TxStatus>,
    /// The server waits for CopyData.
    pub copy_in: bool,
    /// It waits for data that the client is not asked for: the COPY is to be ended.
    pub refuses_copy: bool,
    /// What was sent into the present COPY beside data.
    pub strays: Strays,
    /// Something the client can act on has been passed on: there is no way back.
    pub delivered: bool,
    /// See [`Attempt`].
    pub attempt: Attempt,
    /// The attempt ended with an error that only a standby gives.
    pub misrouted: bool,
    /// It is not the statement that a standby cannot run, but the isolation level of the session.
    pub too_isolated: bool,
    /// What was on trial cannot be made here, or does not give what the client was told.
    pub not_here: bool,
    /// The server has said that a plan's result type changed: the schema did, perhaps behind our back.
    pub stale_plan: bool,
    /// The first error passed to the client since the last reset.
    pub error: Option<SqlState>,
    /// The first error of a request of ours.
    pub hidden_error: Option<Box<(SqlState, Box<str>)>>,
    /// A FATAL the server said before it went; never passed on as it is.
    pub fatal: Option<Box<(SqlState, Box<str>)>>,
    /// DataRow bodies of [`Show::Collect`] and [`Show::Try`] requests.
    pub rows: Vec<Vec<u8>>,
    collected: usize,
    /// Changes of the client's statement names that are settled, in order.
    pub name_changes: u32,
    /// The error came from the client's own Parse.
    pub failed_parse: bool,
    /// It was cancelled by us, for its length: the error says so, and not that the user asked for it.
    pub overdue: bool,
    /// Nothing goes to the client any more: what comes is the rest of an attempt that was given up.
    pub mute: bool,
    /// The server ignores everything until a Sync that has not been sent yet.
    pub skipping: bool,
    /// The server's tail was walked since; what is left of it is part of a message.
    pub(super) tail_is_part: bool,
    /// What was skipped because of an error: never happened on the server.
    pub skipped: Vec<Ack>,
    /// What clients' statements give, as it was told them, by the numbers of [`Ack::Told`].
    pub told: Vec<(u32, ResultType)>,
    /// What we have asked of statements, by the numbers of [`Ack::Asked`].
    pub asked: Vec<Asked>,
    /// Errors that were written for the client and show names of ours. They must be mended before the client gets them.
    pub misnamed: Vec<Misnamed>,
    /// What may still be given of the reply in front, if it is `Show::Metered`.
    pub meter: Option<Box<Meter>>,
    /// Errors of the request under way point into a text that is not the client's: they are to be mended, too.
    pub moved: bool,
    /// Of the ParameterDescription whose RowDescription comes next, if anybody wants to know.
    parameters: Option<NonZeroU64>,
    /// Why a statement could not be lent under the client's own name: the error its Query has to end with.
    lent_error: Option<Box<(SqlState, Box<[u8]>)>>,
    /// Reported parameters the server has changed, and whether the client was told.
    pub reported: Vec<(Box<str>, Box<str>, bool)>,
    /// The server has completed a DEALLOCATE ALL or DISCARD ALL of the client's: no prepared statement is left.
    pub forgot_statements: bool,
    /// DEALLOCATEs of one name that the server has completed; no error behind them undoes that.
    pub deallocated: usize,
    left: usize,
    left_passes: bool,
}

/// How far [`Feed::feed`] came.
#[derive(Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes done with; the rest is the beginning of a message and must be fed again with more behind it.
    pub consumed: usize,
    /// The part of the input that goes to the client as it is, if `out` stayed empty.
    pub direct: Range<usize>,
}

impl Feed {
    /// The client gets nothing more of the result: it is too much.
    pub fn is_crossed(&self) -> bool {
        self.meter.as_ref().is_some_and(|meter| meter.is_crossed())
    }

    /// All replies are in.
    pub fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.left == 0
    }

    /// Ready for the next exchange; keeps the transaction status.
    pub fn reset(&mut self) {
        (self.copy_in, self.refuses_copy) = (false, false);
        self.strays = Strays::default();
        self.delivered = false;
        self.attempt = Attempt::Final;
        (self.misrouted, self.too_isolated) = (false, false);
        (self.not_here, self.stale_plan) = (false, false);
        self.lent_error = None;
        self.error = None;
        self.failed_parse = false;
        self.hidden_error = None;
        (self.mute, self.overdue) = (false, false);
        self.meter = None;
        self.forgot_statements = false;
        self.deallocated = 0;
        self.rows.clear();
        self.collected = 0;
        self.queue.shrink();
    }

    /// The server is gone: nothing is owed any more.
    pub fn abandon(&mut self) {
        self.queue.clear();
        self.left = 0;
        self.copy_in = false;
        self.strays = Strays::default();
        self.status = None;
        self.skipping = false;
        self.fatal = None;
        self.name_changes = 0;
        self.skipped.clear();
        self.meter = None;
        self.told.clear();
        self.asked.clear();
    }

    /// Walks `buf`. What must not go to the client as it stands is left out or replaced; then everything is appended to
    /// `out`. If nothing had to be changed and `out` was empty, nothing is copied and `direct` names the part to send.
    pub fn feed(&mut self, buf: &[u8], out: &mut Vec<u8>) -> Result<Fed, Violation> {
        let mut pos = 0;
        let mut start = 0;
        if self.left > 0 {
            pos = self.left.min(buf.len());
            self.left -= pos;
            if !self.left_passes {
                start = pos;
            }
        }
        while !self.misrouted {
            let Some(&[tag, a, b, c, d]) = buf[pos..].first_chunk::<HEAD_BYTES>() else { break };
            let len = u32::from_be_bytes([a, b, c, d]);
            if !(4..=0x4000_0000).contains(&len) {
                return Err(Violation::BadLength { tag, len });
            }
            let total = len as usize + 1;
            let here = buf.len() - pos;
            if matches!(tag, tag::DATA_ROW | tag::COPY_DATA | tag::FUNCTION_CALL_RESPONSE)
                && !self.mute
                && let Some(Owed::Reply {
                    what: What::Query | What::Execute,
                    show: show @ (Show::Pass | Show::Metered),
                    ..
                }) = self.queue.front()
            {
                self.delivered = true;
                if *show == Show::Metered
                    && let Some(meter) = &mut self.meter
                    && !meter.takes(tag, total, &buf[pos + HEAD_BYTES..pos + total.min(here)])
                {
                    out.extend_from_slice(&buf[start..pos]);
                    pos += total.min(here);
                    start = pos;
                    (self.left, self.left_passes) = (total.saturating_sub(here), false);
                    continue;
                }
                if total <= here {
                    pos += total;
                } else {
                    self.left = total - here;
                    self.left_passes = true;
                    pos = buf.len();
                }
                continue;
            }
            if total > here {
                if total <= HOLD {
                    break;
                }
                // Too long to hold: a huge description or notice of the client's may stream, what we must read whole may not.
                let kept = matches!(self.queue.front(), Some(Owed::Reply { show: Show::Collect | Show::Try, .. }));
                if matches!(tag, tag::READY_FOR_QUERY | tag::COMMAND_COMPLETE | tag::PARAMETER_STATUS)
                    || (tag == tag::DATA_ROW && kept)
                {
                    return Err(Violation::BadLength { tag, len });
                }
            }
            let whole = total.min(here);
            let body = &buf[pos + HEAD_BYTES..pos + whole];
            let action = self.on_message(tag, body)?;
            if self.misrouted {
                break;
            }
            match action {
                Move::Pass => {}
                Move::Drop => {
                    out.extend_from_slice(&buf[start..pos]);
                    start = pos + whole;
                }
                Move::Instead(bytes) => {
                    out.extend_from_slice(&buf[start..pos]);
                    out.extend_from_slice(&bytes);
                    start = pos + whole;
                }
                Move::Misnamed(bound) => {
                    out.extend_from_slice(&buf[start..pos]);
                    self.misnamed.push(Misnamed { at: out.len(), bound });
                    out.extend_from_slice(&buf[pos..pos + whole]);
                    start = pos + whole;
                }
            }
            pos += whole;
            if total > whole {
                self.left = total - whole;
                self.left_passes = start <= pos - whole;
                if !self.left_passes {
                    start = pos;
                }
            }
            if matches!(self.queue.front(), Some(Owed::Local(..))) {
                out.extend_from_slice(&buf[start..pos]);
                start = pos;
                self.say_locals(out);
            }
        }
        if out.is_empty() {
            return Ok(Fed { consumed: pos, direct: start..pos });
        }
        out.extend_from_slice(&buf[start..pos]);
        Ok(Fed { consumed: pos, direct: pos..pos })
    }

    /// Says the replies of our own whose turn has come.
    pub fn say_locals(&mut self, out: &mut Vec<u8>) {
        while matches!(self.queue.front(), Some(Owed::Local(..))) {
            if let Some(Owed::Local(bytes, names)) = self.queue.pop() {
                self.note_names(names);
                out.extend_from_slice(&bytes);
            }
        }
    }

    fn on_message(&mut self, tag: u8, body: &[u8]) -> Result<Move, Violation> {
        let malformed = Violation::Malformed { tag };
        let (what, show) = match self.queue.front() {
            Some(Owed::Reply { what, show, .. }) => (Some(*what), *show),
            Some(Owed::Poison(_)) => (Some(What::Bind), Show::Pass),
            Some(Owed::Local(..)) | None => (None, Show::Pass),
        };
        let theirs = show.is_theirs() && !self.mute;
        // Of a result that is too long nothing more is said, but what the server says besides.
        let over = theirs && show == Show::Metered && self.is_crossed();
        let for_client = if theirs && !over { Move::Pass } else { Move::Drop };
        match (tag, what) {
            (tag::PARAMETER_STATUS, _) => {
                let status = ParameterStatus::parse(body).map_err(|_| malformed)?;
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned().into_boxed_str();
                self.reported.push((text(status.name), text(status.value), theirs));
                Ok(if theirs { Move::Pass } else { Move::Drop })
            }
            (tag::NOTICE_RESPONSE, _) => Ok(if theirs { Move::Pass } else { Move::Drop }),
            (tag::NOTIFICATION_RESPONSE, _) => Ok(Move::Pass),
            (tag::ERROR_RESPONSE, _) => {
                let error = self.on_error(body, what, show)?;
                self.count_strays(what);
                Ok(error)
            }
            (tag::READY_FOR_QUERY, Some(What::Strays)) => {
                self.status = Some(TxStatus::parse(body).map_err(|_| malformed)?);
                self.skipping = false;
                Ok(if self.strays.answers(show) && !self.mute { Move::Pass } else { Move::Drop })
            }
            (tag::CLOSE_COMPLETE, Some(What::Strays)) => {
                self.queue.pop();
                self.strays.settle(show);
                // The client's group waits for a Sync, though the server does not.
                self.skipping = show == Show::Swallow && !self.strays.group_over && !self.mute;
                Ok(Move::Drop)
            }
            (tag::READY_FOR_QUERY, Some(What::Query | What::Sync)) => {
                let status = TxStatus::parse(body).map_err(|_| malformed)?;
                self.status = Some(status);
                self.copy_in = false;
                self.skipping = false;
                self.queue.pop();
                if over && self.meter.as_ref().is_some_and(|meter| meter.owes().is_some()) {
                    // Its end came before the cancel. A transaction that is open is still to fail.
                    if status == TxStatus::InTransaction {
                        return Ok(Move::Drop);
                    }
                    let error = self.meter.as_mut().and_then(|meter| meter.tell_late()).unwrap_or_default();
                    return Ok(Move::Instead([&error, &*whole_message(tag, body)].concat().into()));
                }
                Ok(if theirs { Move::Pass } else { Move::Drop })
            }
            (tag::PARSE_COMPLETE, Some(What::Parse))
            | (tag::BIND_COMPLETE, Some(What::Bind))
            | (tag::CLOSE_COMPLETE, Some(What::Close)) => {
                self.acknowledge();
                Ok(for_client)
            }
            (tag::ROW_DESCRIPTION | tag::NO_DATA, Some(What::DescribePortal)) => {
                self.described((tag == tag::ROW_DESCRIPTION).then_some(body));
                if !self.misrouted {
                    self.acknowledge();
                }
                Ok(for_client)
            }
            (tag::PARAMETER_DESCRIPTION, Some(What::DescribeStatement)) => {
                if self.queue.front().is_some_and(|owed| owed.ack() != Ack::Nothing) {
                    self.parameters = Some(ResultType::parameters(body));
                }
                self.queue.halve_describe();
                Ok(for_client)
            }
            (tag::ROW_DESCRIPTION, Some(What::Query)) => Ok(for_client),
            (tag::DATA_ROW, Some(What::Query | What::Execute)) => {
                if matches!(show, Show::Collect | Show::Try) && self.collected < COLLECT {
                    self.collected += body.len();
                    self.rows.push(body.to_vec());
                }
                Ok(for_client)
            }
            (tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE, Some(What::Query)) => {
                self.complete(show, body);
                if let Some(meter) = &mut self.meter {
                    meter.next_result();
                }
                Ok(for_client)
            }
            (tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED, Some(What::Execute)) => {
                self.complete(show, body);
                self.acknowledge();
                Ok(for_client)
            }
            (tag::COPY_IN_RESPONSE, Some(What::Query | What::Execute)) if show.is_theirs() => {
                // A server that waits for data hears no cancel, and nobody will send it any.
                (self.copy_in, self.refuses_copy) = (!over, over);
                self.delivered = true;
                Ok(for_client)
            }
            (
                tag::COPY_OUT_RESPONSE | tag::COPY_DONE | tag::COPY_DATA | tag::FUNCTION_CALL_RESPONSE,
                Some(What::Query | What::Execute),
            ) => {
                self.delivered = true;
                Ok(for_client)
            }
            (tag, what) => Err(Violation::Unexpected { tag, owed: owed_name(what) }),
        }
    }

    /// A Describe is answered. A description that is too long to be read whole teaches nothing.
    fn described(&mut self, rows: Option<&[u8]>) {
        let ack = self.queue.front().map_or(Ack::Nothing, Owed::ack);
        if ack == Ack::Nothing {
            return;
        }
        let is = ResultType::new(rows, self.parameters.take()).ok();
        match (ack, is) {
            (Ack::Told(number), Some(is)) => self.told.push((number, is)),
            (Ack::Asked(index), is) => {
                let Some(asked) = self.asked.get_mut(index as usize) else { return };
                asked.is = is;
                let fits = asked.must_be.is_none_or(|must_be| is.is_some_and(|is| is.is(must_be)));
                if !fits && !self.mute {
                    (self.misrouted, self.not_here) = (true, true);
                }
            }
            _ => {}
        }
    }

    /// Is the reply in front one that decides whether this server will do at all?
    fn on_trial(&self) -> bool {
        match self.queue.front().map_or(Ack::Nothing, Owed::ack) {
            Ack::OnTrial(_) => true,
            Ack::Asked(index) => self.asked.get(index as usize).is_some_and(|asked| asked.must_be.is_some()),
            _ => false,
        }
    }

    fn complete(&mut self, show: Show, body: &[u8]) {
        self.strays.end_well();
        if show.is_theirs() {
            self.delivered = true;
            match body {
                b"DEALLOCATE ALL\0" | b"DISCARD ALL\0" => self.forgot_statements = true,
                b"DEALLOCATE\0" => self.deallocated += 1,
                _ => {}
            }
        }
    }

    /// The first reply is in.
    fn acknowledge(&mut self) {
        if let Some(Owed::Reply { names, .. }) = self.queue.pop() {
            self.note_names(names);
        }
    }

    fn note_names(&mut self, names: Names) {
        match names {
            Names::Untouched => {}
            Names::Change => self.name_changes += 1,
        }
    }

    fn on_error(&mut self, body: &[u8], what: Option<What>, show: Show) -> Result<Move, Violation> {
        let fields = ErrorFields::parse(body).ok();
        let sqlstate = fields.and_then(|f| f.sqlstate()).unwrap_or(SqlState::INTERNAL_ERROR);
        let message = || -> Box<str> {
            let text = fields.and_then(|f| f.message()).unwrap_or(b"unreadable error");
            String::from_utf8_lossy(text).into_owned().into()
        };
        let severity = fields.and_then(|f| f.severity()).unwrap_or(b"ERROR");
        if severity == b"FATAL" || severity == b"PANIC" || what.is_none() {
            self.fatal = Some(Box::new((sqlstate, message())));
            return Ok(Move::Drop);
        }
        self.copy_in = false;
        if self.mute {
            if !matches!(what, Some(What::Query | What::Sync)) {
                self.skip();
            }
            return Ok(Move::Drop);
        }
        if show == Show::Try {
            return Ok(Move::Drop);
        }
        if !show.is_theirs() && matches!(what, Some(What::Query | What::Sync)) {
            self.hidden_error.get_or_insert_with(|| Box::new((sqlstate, message())));
            return Ok(Move::Drop);
        }
        if self.on_trial() && sqlstate != SqlState::QUERY_CANCELED {
            (self.misrouted, self.not_here) = (true, true);
            return Ok(Move::Drop);
        }
        if self.queue.front().is_some_and(|owed| owed.ack() == Ack::Lent) {
            self.lent_error = Some(Box::new((sqlstate, whole_message(tag::ERROR_RESPONSE, body))));
            self.skip();
            return Ok(Move::Drop);
        }
        // The routine's name is never translated (plancache.c: "cached plan must not change result type").
        self.stale_plan |= sqlstate == SqlState::FEATURE_NOT_SUPPORTED
            && fields.and_then(|f| f.field(b'R')) == Some(b"RevalidateCachedQuery");
        if self.attempt == Attempt::Repeatable && !self.delivered && only_a_standby_says(sqlstate) {
            self.misrouted = true;
            // The routine's name is never translated (predicate.c: "cannot use serializable mode in a hot standby").
            self.too_isolated = fields.and_then(|f| f.field(b'R')) == Some(b"GetSerializableTransactionSnapshot");
            return Ok(Move::Drop);
        }
        self.delivered = true;
        if show == Show::Metered
            && let Some(error) = self.meter.as_mut().and_then(|meter| meter.tell())
        {
            // The end of a result that was too long; mostly our cancel.
            self.error.get_or_insert(sqlstate);
            if what != Some(What::Query) {
                self.skip();
            }
            return Ok(Move::Instead(error));
        }
        let misplaced = self.strays.words_of(body);
        if what == Some(What::Query)
            && matches!(sqlstate, SqlState::UNDEFINED_STATEMENT | SqlState::IN_FAILED_TRANSACTION)
            && let Some((sqlstate, error)) = self.lent_error.take().map(|said| *said)
        {
            // What it names is missing because it could not be made; that is what a server would have said.
            self.error.get_or_insert(sqlstate);
            return Ok(Move::Instead(error));
        }
        self.error.get_or_insert(sqlstate);
        self.failed_parse |=
            matches!(self.queue.front(), Some(Owed::Reply { what: What::Parse, names: Names::Change, .. }));
        let points = self.moved && fields.and_then(|f| f.field(b'P')).is_some();
        let instead = match what {
            Some(What::Query) if points => return Ok(Move::Misnamed(None)),
            Some(What::Query | What::Sync) | None => None,
            Some(_) => {
                let instead = match self.queue.front() {
                    Some(Owed::Poison(bytes)) => Some(bytes.clone()),
                    Some(owed) if points || (fields.is_some() && memmem::find(body, NAME_PREFIX).is_some()) => {
                        let bound = if let Ack::Bound(number) = owed.ack() { Some(number) } else { None };
                        self.skip();
                        return Ok(Move::Misnamed(bound));
                    }
                    _ => None,
                };
                self.skip();
                instead
            }
        };
        if let Some(words) = misplaced {
            // The last that is heard of it.
            self.mute = true;
            return Ok(Move::Instead(with_words(body, SqlState::PROTOCOL_VIOLATION, &words)));
        }
        if self.overdue && sqlstate == SqlState::QUERY_CANCELED && instead.is_none() {
            return Ok(Move::Instead(with_words(body, sqlstate, "canceling statement due to statement timeout")));
        }
        // An injected Parse that fails is the failure of the client's own request, so even that error is the client's.
        Ok(instead.map_or(Move::Pass, Move::Instead))
    }
}

impl Feed {
    /// The server ignores everything up to the next Sync.
    fn skip(&mut self) {
        let skipped = self.queue.skip_to_sync().filter_map(|owed| match owed {
            Owed::Reply { ack, .. } if ack != Ack::Nothing => Some(ack),
            Owed::Reply { .. } | Owed::Local(..) | Owed::Poison(_) => None,
        });
        self.skipped.extend(skipped);
        self.skipping = self.queue.is_empty();
    }

    /// Gives the attempt up: the client hears nothing of what is still owed.
    pub fn give_up(&mut self) {
        self.misrouted = false;
        self.attempt = Attempt::Final;
        self.mute = true;
        self.tail_is_part = false;
        self.left_passes = false;
        self.queue.drop_locals();
    }

    /// Is the next reply one to a statement of ours? A Parse or Close that travels in the client's group is none: its reply comes with
    /// the client's, when the server flushes, and an error of it is the client's.
    pub fn ours_in_front(&self) -> bool {
        matches!(
            self.queue.front(),
            Some(Owed::Reply { what: What::Query | What::Sync, show: Show::Swallow | Show::Collect | Show::Try, .. })
        )
    }

    /// Is the next reply the client's?
    pub fn theirs_in_front(&self) -> bool {
        !self.queue.is_empty() && !self.ours_in_front()
    }

    /// Is the client in the middle of a message that will never be finished if the server is gone?
    pub fn is_mid_message(&self) -> bool {
        self.left > 0 && self.left_passes
    }

    /// Statements of ours that the server skipped: settles its list with them.
    pub fn settle_statements(&mut self, prepared: &mut Prepared, unnamed: &mut Option<StatementId>) {
        // Backwards, as everything is undone: what was made and closed again was never there, what was closed and made again still is.
        for ack in self.skipped.drain(..).rev() {
            match ack {
                Ack::Prepared(id) | Ack::OnTrial(id) => prepared.remove(id),
                Ack::Closed(id) => prepared.restore(id),
                // The server may have destroyed the old unnamed statement before it failed on the new one.
                Ack::Unnamed(_) => *unnamed = None,
                // A question that was not answered is asked again when it matters.
                Ack::Nothing | Ack::Lent | Ack::Told(_) | Ack::Asked(_) | Ack::Bound(_) => {}
            }
        }
    }
}

/// The same ErrorResponse with another code and message.
fn with_words(body: &[u8], code: SqlState, message: &str) -> Box<[u8]> {
    let mut fields = Vec::with_capacity(body.len() + message.len());
    for field in body.split(|byte| *byte == 0).filter(|field| !field.is_empty()) {
        let words = match field[0] {
            b'C' => code.as_str(),
            b'M' => message,
            _ => "",
        };
        if words.is_empty() {
            fields.extend_from_slice(field);
        } else {
            fields.push(field[0]);
            fields.extend_from_slice(words.as_bytes());
        }
        fields.push(0);
    }
    fields.push(0);
    let mut whole = vec![tag::ERROR_RESPONSE];
    whole.extend_from_slice(&u32::try_from(fields.len() + 4).unwrap_or(u32::MAX).to_be_bytes());
    whole.extend_from_slice(&fields);
    whole.into()
}

fn whole_message(tag: u8, body: &[u8]) -> Box<[u8]> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag], &length[..], body].concat().into()
}

/// Errors that a standby gives to a statement that the primary might have run (measured on PostgreSQL 15). The texts are
/// translated, so the codes must do: at worst the primary is asked once more and says the same.
fn only_a_standby_says(sqlstate: SqlState) -> bool {
    matches!(
        sqlstate,
        SqlState::READ_ONLY_TRANSACTION | SqlState::FEATURE_NOT_SUPPORTED | SqlState::NOT_IN_PREREQUISITE_STATE
    )
}

fn owed_name(what: Option<What>) -> &'static str {
    match what {
        None => "nothing",
        Some(What::Query) => "the end of a query",
        Some(What::Parse) => "ParseComplete",
        Some(What::Bind) => "BindComplete",
        Some(What::Close) => "CloseComplete",
        Some(What::DescribeStatement) => "ParameterDescription",
        Some(What::DescribePortal) => "RowDescription",
        Some(What::Execute) => "the end of an Execute",
        Some(What::Sync | What::Strays) => "ReadyForQuery",
    }
}
