//! Statements pgsluice answers itself: a BEGIN that waits for its first statement, the end of a transaction that never had a
//! server, and `SHOW pgsluice.…`. Their replies are what a server would say, to the letter.

use super::{
    route_shown::ROUTE_COLUMNS,
    state::Session,
    tx::{Deferred, Tx},
};
use crate::{
    base::SqlState,
    config::PoolMode,
    relay::{Names, Owed},
    sql::{
        Facts,
        facts::{Effect, TxOptions, TxVerb, Verb},
    },
    wire::backend::{self, ErrorText, Severity, TxStatus},
};

/// A statement that needs no server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Local {
    Begin {
        options: TxOptions,
        start: bool,
    },
    SetTransaction(TxOptions),
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    /// DEALLOCATE of one name: if the client prepared it by the protocol, only pgsluice knows it by that name.
    Deallocate(Box<str>),
    ShowRoute,
    ShowVersion,
}

impl Local {
    /// Is the whole text one such statement? Whether it may be answered here depends on the session, too.
    pub(super) fn of(facts: &Facts, text: &[u8]) -> Option<Self> {
        if facts.verb == Verb::Unknown {
            // In an encoding that hides ASCII nothing is read, but these few bytes can mean nothing else.
            return Self::show(text);
        }
        if facts.statements != 1 {
            return None;
        }
        match (facts.verb, &*facts.tx) {
            (Verb::Begin, [TxVerb::Begin { options, start }]) => Some(Self::Begin { options: *options, start: *start }),
            (Verb::SetTransaction, [TxVerb::SetTransaction(options)]) => Some(Self::SetTransaction(*options)),
            (Verb::Commit, [TxVerb::Commit { chain }]) => Some(Self::Commit { chain: *chain }),
            (Verb::Rollback, [TxVerb::Rollback { chain }]) => Some(Self::Rollback { chain: *chain }),
            (Verb::Deallocate, _) => match &*facts.effects {
                [Effect::Deallocate(name)] => Some(Self::Deallocate(name.clone())),
                _ => None,
            },
            (Verb::Show, _) => Self::show(text),
            _ => None,
        }
    }

    /// Is it a question about pgsluice itself?
    pub(super) fn is_about_us(&self) -> bool {
        matches!(self, Self::ShowRoute | Self::ShowVersion)
    }

    fn show(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.trim_matches(|c: char| c.is_whitespace() || c == ';').split_whitespace();
        words.next().filter(|w| w.eq_ignore_ascii_case("show"))?;
        let name = words.next()?;
        match (name, words.next()) {
            (name, None) if name.eq_ignore_ascii_case("pgsluice.route") => Some(Self::ShowRoute),
            (name, None) if name.eq_ignore_ascii_case("pgsluice.version") => Some(Self::ShowVersion),
            _ => None,
        }
    }

    /// Column names, if it gives rows.
    pub(super) fn columns(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::ShowRoute => Some(&ROUTE_COLUMNS),
            Self::ShowVersion => Some(&["version"]),
            Self::Begin { .. }
            | Self::SetTransaction(_)
            | Self::Commit { .. }
            | Self::Rollback { .. }
            | Self::Deallocate(_) => None,
        }
    }
}

/// How a statement of ours ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    Done,
    /// It failed; an ErrorResponse was written.
    Error,
}

impl Session {
    /// Is it about pgsluice itself, so that no server may ever see it?
    pub(super) fn is_ours(&self, local: &Local) -> bool {
        match local {
            Local::ShowRoute | Local::ShowVersion => true,
            // In a failed transaction the server says what it always says then.
            // Where the server has it by that name, too, it is the server's to deallocate.
            Local::Deallocate(name) => {
                let lent = self.held.as_ref().is_some_and(|h| h.lent_names.iter().any(|n| **n == *name.as_bytes()));
                !lent && self.status() != TxStatus::Failed && self.names.find(name.as_bytes()).is_some()
            }
            Local::Begin { .. } | Local::SetTransaction(_) | Local::Commit { .. } | Local::Rollback { .. } => false,
        }
    }

    /// May `local` be answered without a server as things stand?
    pub(super) fn may_answer(&self, local: &Local) -> bool {
        if self.is_ours(local) {
            return true;
        }
        if self.held.is_some() || self.group_open {
            return false;
        }
        match local {
            Local::Begin { .. } => {
                self.tenant.database.routing.defer_begin && self.tenant.database.pool.mode != PoolMode::Statement
            }
            Local::SetTransaction(_) => matches!(self.tx, Tx::Begun(_)),
            Local::Commit { .. } | Local::Rollback { .. } => self.tx != Tx::Idle,
            Local::ShowRoute | Local::ShowVersion | Local::Deallocate(_) => false,
        }
    }

    /// Runs a statement of ours and writes everything up to its CommandComplete.
    pub(super) fn run_local(&mut self, local: &Local, text: &[u8], describe: bool) -> Ran {
        let mut out = Vec::new();
        let ran = self.answer_local(local, text, describe, &mut out);
        let names = match (local, ran) {
            (Local::Deallocate(_), Ran::Done) => Names::Change,
            _ => Names::Untouched,
        };
        self.feed.queue.push(Owed::Local(out.into(), names));
        ran
    }

    fn answer_local(&mut self, local: &Local, text: &[u8], describe: bool, out: &mut Vec<u8>) -> Ran {
        if self.status() == TxStatus::Failed && !matches!(local, Local::Commit { .. } | Local::Rollback { .. }) {
            write_error(out, SqlState::IN_FAILED_TRANSACTION, IN_FAILED);
            return Ran::Error;
        }
        if describe && let Some(columns) = local.columns() {
            backend::row_description_text(out, columns);
        }
        match *local {
            Local::Begin { options, start } => {
                if let Tx::Begun(deferred) = &mut self.tx {
                    let warning = ErrorText::new(
                        Severity::Warning,
                        SqlState::ACTIVE_TRANSACTION,
                        "there is already a transaction in progress",
                    );
                    backend::notice_response(out, &warning);
                    // As on a server, the options of a second BEGIN count (StartTransactionCommand, then SET LOCAL).
                    deferred.set(text, options);
                } else {
                    self.tx = Tx::Begun(Deferred::begin(text, options));
                }
                backend::command_complete(out, if start { "START TRANSACTION" } else { "BEGIN" });
            }
            Local::SetTransaction(options) => {
                if let Tx::Begun(deferred) = &mut self.tx {
                    deferred.set(text, options);
                }
                backend::command_complete(out, "SET");
            }
            Local::Commit { chain } | Local::Rollback { chain } => {
                let before = std::mem::take(&mut self.tx);
                let committed = matches!(local, Local::Commit { .. }) && !matches!(before, Tx::Failed(_));
                if let (Tx::Begun(deferred) | Tx::Failed(deferred), true) = (before, chain) {
                    // AND CHAIN keeps the characteristics, so the same BEGIN is owed again.
                    self.tx = Tx::Begun(deferred);
                }
                self.portals.clear();
                backend::command_complete(out, if committed { "COMMIT" } else { "ROLLBACK" });
            }
            Local::Deallocate(ref name) => {
                self.names.change(name.as_bytes(), None);
                backend::command_complete(out, "DEALLOCATE");
            }
            Local::ShowRoute => {
                self.last.write_row(&self.tenant, out);
                backend::command_complete(out, "SHOW");
            }
            Local::ShowVersion => {
                backend::data_row(out, &[Some(concat!("pgsluice ", env!("CARGO_PKG_VERSION")).as_bytes())]);
                backend::command_complete(out, "SHOW");
            }
        }
        Ran::Done
    }
}

/// What a server says to anything but the end of a failed transaction.
pub(super) const IN_FAILED: &str = "current transaction is aborted, commands ignored until end of transaction block";

/// An ERROR of ours.
pub(super) fn write_error(out: &mut Vec<u8>, sqlstate: SqlState, message: &str) {
    backend::error_response(out, &ErrorText::new(Severity::Error, sqlstate, message));
}
