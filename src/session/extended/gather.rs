//! What a client has sent of a group, up to Sync or Flush, and the statements it is about.

use std::rc::Rc;

use crate::{
    base::SqlState,
    policy::Verdict,
    session::{end::End, metering::Metered, refusal::Refusal, state::Session, statements::Named},
    wire::{
        HEAD_BYTES, Head, WireError,
        frontend::{self, Bind, BindPrefix, Close, Describe, Execute, Parse, tag},
    },
};
/// A Bind longer than this streams through.
const LONG_BIND: usize = 64 * 1024;
/// Messages without Sync or Flush beyond this many bytes are sent without waiting for one.
const BATCH: usize = 256 * 1024;
/// Longest message of the kinds that hold a name at most (`PQ_SMALL_MESSAGE_LIMIT`).
const SHORT: u32 = 10_000;
/// Most bytes of statement text one client may keep, and the longest Parse.
pub(super) const MOST_TEXT: usize = 64 << 20;

/// One message of the group.
pub(super) struct Item {
    pub(super) tag: u8,
    /// Offset in the inbox.
    pub(super) start: usize,
    /// Bytes of it that are in the inbox.
    pub(super) here: usize,
    pub(super) total: usize,
    /// The statement it is about.
    pub(super) statement: Option<Named>,
    /// What the rules say of it.
    pub(super) verdict: Option<Rc<Verdict>>,
    /// Why it, and with it what follows up to Sync, is not carried out.
    pub(super) refused: Option<Box<Refusal>>,
}

impl Item {
    pub(super) fn refused(head: Head, start: usize, here: usize, refusal: Refusal) -> Self {
        Self {
            tag: head.tag,
            start,
            here,
            total: head.total(),
            statement: None,
            verdict: None,
            refused: Some(Box::new(refusal)),
        }
    }

    /// One that the server would raise an error for.
    pub(super) fn malformed(head: Head, start: usize, here: usize, error: WireError) -> Self {
        Self::refused(head, start, here, Refusal::new(SqlState::PROTOCOL_VIOLATION, error.to_string()))
    }

    /// Does it take the place of the unnamed statement?
    pub(super) fn is_unnamed_parse(&self, session: &Session) -> bool {
        self.tag == tag::PARSE && Parse::parse(self.body(session)).is_ok_and(|parse| parse.name.is_empty())
    }

    /// The portal that it runs, if it is an Execute.
    pub(super) fn portal(&self, session: &Session) -> Box<[u8]> {
        Execute::parse(self.body(session)).map(|execute| execute.portal.into()).unwrap_or_default()
    }

    pub(super) fn body<'a>(&self, session: &'a Session) -> &'a [u8] {
        &session.client.pending()[self.start + HEAD_BYTES..self.start + self.here]
    }
}

/// Messages that are sent together.
pub(super) struct Batch {
    pub(super) items: Vec<Item>,
    /// Bytes of the inbox before the first item that are done with when the batch is.
    pub(super) bytes: usize,
    pub(super) ends: Ends,
    pub(super) consumed: bool,
    /// The first item that has not been composed.
    pub(super) next: usize,
    /// The server was asked about that item's statement, and has answered.
    pub(super) asked: bool,
    /// An item before it fails on the server by our doing.
    pub(super) poisoned: bool,
    /// The item before it gives a result that is counted.
    pub(super) metered: Option<Metered>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// With Sync.
    Sync,
    /// With Flush, or with an Execute that begins a COPY: the replies are awaited.
    Flush,
    /// Nowhere: more follows, nothing is owed yet.
    Open,
}

impl Session {
    /// Reads messages up to Sync, Flush, the Execute of a COPY FROM, or a long message.
    pub(super) async fn gather(&mut self) -> Result<Batch, End> {
        let mut items: Vec<Item> = Vec::with_capacity(8);
        let mut at = 0;
        let mut ends = Ends::Open;
        loop {
            if at >= BATCH {
                break;
            }
            let Some(head) = crate::wire::next_head(&self.client.pending()[at..], self.message_cap())? else {
                self.idle().await?;
                continue;
            };
            let here = self.client.pending().len() - at;
            let total = head.total();
            if !is_extended(head.tag) {
                // What follows belongs to something else (a Query inside an open group, Terminate, …); PostgreSQL takes
                // messages as they come, so what was gathered goes first.
                break;
            }
            match head.tag {
                // Longer than limits.parse is not read but sent to the primary; it is kept all the same, for other servers.
                tag::PARSE if total > MOST_TEXT => {
                    let refusal = Refusal::new(SqlState::PROGRAM_LIMIT_EXCEEDED, too_long(total));
                    items.push(Item::refused(head, at, here.min(total), refusal));
                    at += here.min(total);
                    break;
                }
                tag::PARSE | tag::BIND => {}
                _ if head.len > SHORT => {
                    return Err(WireError::BadLength { tag: head.tag, len: head.len, cap: SHORT }.into());
                }
                _ => {}
            }
            if here < total {
                let long = match head.tag {
                    tag::BIND => total > LONG_BIND && self.has_names(at),
                    _ => false,
                };
                if !long {
                    self.idle().await?;
                    continue;
                }
                let item = self.read_item(head, at, here, &items);
                let item = item.unwrap_or_else(|error| Item::malformed(head, at, here, error));
                items.push(item);
                at += here;
                break;
            }
            let item =
                self.read_item(head, at, total, &items).unwrap_or_else(|error| Item::malformed(head, at, total, error));
            let copies = head.tag == tag::EXECUTE && item.statement.as_ref().is_some_and(|s| s.copies_in);
            items.push(item);
            at += total;
            match head.tag {
                tag::SYNC => ends = Ends::Sync,
                tag::FLUSH => ends = Ends::Flush,
                _ if copies => ends = Ends::Flush,
                _ => continue,
            }
            break;
        }
        Ok(Batch { items, bytes: at, ends, consumed: false, next: 0, asked: false, poisoned: false, metered: None })
    }

    fn has_names(&self, at: usize) -> bool {
        matches!(BindPrefix::parse(&self.client.pending()[at + HEAD_BYTES..]), Ok(Some(_)) | Err(_))
    }

    /// Looks at one message, and finds the statement it is about.
    fn read_item(&mut self, head: Head, start: usize, here: usize, before: &[Item]) -> Result<Item, WireError> {
        let mut item =
            Item { tag: head.tag, start, here, total: head.total(), statement: None, verdict: None, refused: None };
        let body = item.body(self);
        item.statement = match head.tag {
            tag::PARSE => {
                let parse = Parse::parse(body)?;
                Some(self.statement(&parse))
            }
            tag::BIND if item.here < item.total => {
                let prefix = BindPrefix::parse(body)?.ok_or(WireError::Truncated)?;
                self.statement_in(prefix.statement, before)
            }
            tag::BIND => {
                let bind = Bind::parse(body)?;
                self.statement_in(bind.statement, before)
            }
            tag::DESCRIBE => {
                let describe = Describe::parse(body)?;
                match describe.what {
                    frontend::What::Statement => self.statement_in(describe.name, before),
                    frontend::What::Portal => self.portal_in(describe.name, before),
                }
            }
            tag::EXECUTE => {
                let execute = Execute::parse(body)?;
                self.portal_in(execute.portal, before)
            }
            tag::CLOSE => {
                Close::parse(body)?;
                None
            }
            _ if body.is_empty() => None,
            _ => return Err(WireError::Trailing),
        };
        Ok(item)
    }

    /// What a name will stand for when the messages before it have been carried out.
    fn statement_in(&self, name: &[u8], before: &[Item]) -> Option<Named> {
        for item in before.iter().rev() {
            match item.tag {
                tag::EXECUTE if !name.is_empty() && item.statement.as_ref().is_some_and(|s| s.forgets_names) => {
                    return None;
                }
                tag::PARSE if Parse::parse(item.body(self)).is_ok_and(|parse| parse.name == name) => {
                    return item.statement.clone();
                }
                tag::CLOSE
                    if Close::parse(item.body(self))
                        .is_ok_and(|c| c.what == frontend::What::Statement && c.name == name) =>
                {
                    return None;
                }
                _ => {}
            }
        }
        self.names.find(name).cloned()
    }

    fn portal_in(&self, name: &[u8], before: &[Item]) -> Option<Named> {
        for item in before.iter().rev().filter(|item| item.tag == tag::BIND) {
            if BindPrefix::parse(item.body(self)).is_ok_and(|p| p.is_some_and(|p| p.portal == name)) {
                return item.statement.clone();
            }
        }
        self.portal(name).cloned()
    }
}

fn is_extended(tag: u8) -> bool {
    matches!(tag, tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE | tag::SYNC | tag::FLUSH)
}

fn too_long(bytes: usize) -> String {
    format!("a statement of {bytes} bytes is too long to be prepared, {MOST_TEXT} are possible")
}
