//! What is known of a database's nodes at one moment, published as one immutable value.

use std::{sync::Arc, time::Duration};

use crate::base::{Generation, Lsn, NodeId};

use super::NodeLoad;

/// What a node is, by its own word (`pg_is_in_recovery()`) or by the operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes writes.
    Primary,
    /// Streams and replays.
    Replica,
    /// Not asked yet, or two nodes claim what only one can be.
    Unknown,
}

impl Role {
    /// The word used in metrics, JSON and `SHOW pgsluice.route`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// The last probe was answered.
    Up,
    /// A probe and the reconnect after it both failed.
    Down {
        /// Clock of the first failure.
        since: Duration,
    },
    /// Not probed yet.
    Unknown,
}

impl Health {
    /// The word used in JSON and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down { .. } => "down",
            Self::Unknown => "unknown",
        }
    }
}

/// A worker saw something odd (a lost connection, a failed dial) that only a new probe can settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suspicion {
    /// Nothing odd since the last good probe.
    Clear,
    /// A replica takes no new reads until the next good probe; a primary keeps its work.
    Suspect,
}

/// Where a node stood in the write-ahead log. Within one `epoch` it is a lower bound of every later position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// `pg_current_wal_flush_lsn()` of a primary, `pg_last_wal_replay_lsn()` of a replica.
    pub lsn: Lsn,
    /// `pg_current_wal_insert_lsn()` of a primary: covers commits that did not wait for their flush. The same as `lsn` on a replica.
    pub insert: Lsn,
    /// Clock at which the sample was *begun*: whatever was acknowledged before is inside.
    pub begun: Duration,
}

/// One node of a database.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Its id in the configuration.
    pub id: NodeId,
    /// Its name for people.
    pub name: Arc<str>,
    /// What it is.
    pub role: Role,
    /// Does it answer?
    pub health: Health,
    /// Did a worker doubt it since the last good probe?
    pub suspicion: Suspicion,
    /// Its last position in this epoch.
    pub position: Option<Position>,
    /// WAL bytes the primary has flushed and this replica has not replayed.
    pub lag_bytes: Option<u64>,
    /// Upper bound of the age of the data, without trusting any node's clock.
    pub lag_time: Option<Duration>,
    /// Share of reads; 0: none.
    pub weight: u32,
    /// For rules.
    pub tags: Arc<[String]>,
    /// Incarnation: grows when the node restarts, changes its role, goes down or comes back. A server connection
    /// opened in an older epoch may be one to a process that no longer is what the view says.
    pub epoch: u64,
    /// What the workers have measured.
    pub load: Arc<NodeLoad>,
}

/// A database's nodes at one moment. Workers load it once per cycle and use it to the end.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// The configuration it was built from.
    pub generation: Generation,
    /// In configuration order.
    pub nodes: Box<[NodeView]>,
    /// Index of the node that takes writes; `None` while there is none, or while two claim to be it.
    pub primary: Option<usize>,
    /// Grows whenever another node, or another incarnation of the same node, becomes the primary. Positions of
    /// different terms do not compare.
    pub term: u64,
    /// `wal_segment_size` of the primary in bytes; a page at a segment's start has a longer header.
    pub wal_segment: u64,
}

impl ClusterView {
    /// The node that takes writes.
    pub fn primary(&self) -> Option<&NodeView> {
        self.nodes.get(self.primary?)
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<&NodeView> {
        self.nodes.iter().find(|node| node.id == id)
    }
}
