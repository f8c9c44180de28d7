//! Where a session stands in its transaction, as far as no server knows it better.

use crate::{sql::facts::TxOptions, wire::backend::TxStatus};

/// Without a server: what the client has been told. With one, its ReadyForQuery is the truth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Tx {
    /// No transaction, or the server has it.
    #[default]
    Idle,
    /// BEGIN was answered but not sent: it travels with the first statement that needs a server.
    Begun(Deferred),
    /// The transaction failed, and no server has it (any more). How it would begin again by AND CHAIN.
    Failed(Deferred),
}

/// What must be sent before the first statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Deferred {
    /// `BEGIN …` and SET TRANSACTION statements, as the client wrote them.
    pub sql: Vec<u8>,
    /// What they ask for together.
    pub options: TxOptions,
}

impl Deferred {
    /// BEGIN, with its text.
    pub(super) fn begin(sql: &[u8], options: TxOptions) -> Self {
        Self { sql: sql.to_vec(), options }
    }

    /// SET TRANSACTION, with its text.
    pub(super) fn set(&mut self, sql: &[u8], options: TxOptions) {
        self.sql.push(b';');
        // A comment to the end of the line would swallow what follows.
        self.sql.push(b'\n');
        self.sql.extend_from_slice(sql);
        self.options.read_only = options.read_only.or(self.options.read_only);
        self.options.isolation = options.isolation.or(self.options.isolation);
        self.options.deferrable = options.deferrable.or(self.options.deferrable);
    }
}

impl Tx {
    /// What ReadyForQuery says while no server is held.
    pub(super) fn status(&self) -> TxStatus {
        match self {
            Self::Idle => TxStatus::Idle,
            Self::Begun(_) => TxStatus::InTransaction,
            Self::Failed(_) => TxStatus::Failed,
        }
    }
}
