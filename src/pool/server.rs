//! One server connection and what is known of its state.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout;

use super::{Owner, Params, Prepared, Residue, StatementId};
use crate::{
    net::{Address, Stream},
    tls::TowardsServers,
    wire,
};

/// What a server told at login, as a new client must hear it.
#[derive(Debug)]
pub struct Welcome {
    /// ParameterStatus names and values, in the server's order.
    pub parameters: Vec<(Box<str>, Box<str>)>,
    /// When the server was asked.
    pub asked: Instant,
}

/// A backend and where to ask for its cancellation.
#[derive(Debug)]
pub struct CancelTarget {
    /// Where it runs.
    pub address: Address,
    /// How it was reached.
    pub tls: TowardsServers,
    /// Which.
    pub key: BackendKey,
}

/// Identifies a backend for CancelRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendKey {
    /// Process id.
    pub pid: u32,
    /// 4 to 256 bytes.
    pub secret: Box<[u8]>,
}

/// A logged-in server connection.
#[derive(Debug)]
pub struct Server {
    /// The socket.
    pub stream: Stream,
    /// The worker whose reactor watches the socket.
    pub home: usize,
    /// Bytes read beyond the last complete message that mattered; empty between uses.
    pub tail: Vec<u8>,
    /// What differs from the server's defaults in this session.
    pub params: Params,
    /// Its named prepared statements.
    pub prepared: Prepared,
    /// What its unnamed statement is, if we know.
    pub unnamed: Option<StatementId>,
    /// Does a commit wait for its flush, unless the client says otherwise? `None`: nobody has asked. What ALTER ROLE or ALTER DATABASE say
    /// holds from a connection's beginning to its end; a change of the server's configuration is seen by the control plane.
    pub flushes: Option<bool>,
    /// Somebody has made temporary tables in it: their schema is there, even if it is empty.
    pub temporary: bool,
    /// What unseen code may have left in it.
    pub residue: Option<Residue>,
    /// Whom it was lent to last.
    pub borrower: Option<Owner>,
    /// What others' sequences gave them is still in it.
    pub strange_sequences: bool,
    /// The borrower may have asked sequences of its own.
    pub own_sequences: bool,
    /// Code has run in it, whose plans it keeps: they are of the settings and temporary tables that there were.
    pub code: bool,
    /// These plans are to be made anew.
    pub stale_plans: bool,
    /// For CancelRequest.
    pub target: Arc<CancelTarget>,
    /// The node's incarnation when it was dialled.
    pub epoch: u64,
    /// When it was dialled.
    pub born: Instant,
    /// When it was last given back.
    pub idle_since: Instant,
    /// Transactions served.
    pub uses: u64,
}

/// Asks the backend behind `target` to cancel what it runs, and waits until the server has closed the connection: from then on
/// the signal has been delivered, so it cannot hit a later statement (postmaster's ProcessCancelRequest signals before it exits).
pub async fn cancel(target: &CancelTarget, deadline: Duration) -> bool {
    let sent = async {
        let mut stream = target.address.dial(&target.tls, deadline).await.ok()?;
        let mut message = Vec::with_capacity(16);
        wire::frontend::cancel_request(&mut message, target.key.pid, &target.key.secret);
        stream.write_all(&message).await.ok()?;
        let mut sink = [0u8; 64];
        while stream.read(&mut sink).await.ok()? > 0 {}
        Some(())
    };
    matches!(timeout(deadline, sent).await, Ok(Some(())))
}
