//! The least a replica must have replayed before a session may read from it.

use std::time::Duration;

use crate::base::Lsn;

use super::{ClusterView, NodeView};

/// A session's claim on freshness. A session that wrote only notes *when*; the position comes from the next shared
/// sample of the primary, so a write costs no extra round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Floor {
    /// Nothing written yet: any replica within `max_lag`.
    #[default]
    None,
    /// Wrote, position not known yet: no replica is fresh enough.
    Dirty {
        /// Clock at which the reply to the write was seen.
        since: Duration,
    },
    /// The same, but the commit may not have waited for its flush (`synchronous_commit = off` in the session).
    DirtyAsync {
        /// Clock at which the reply to the write was seen.
        since: Duration,
    },
    /// A replica must have replayed this position.
    At {
        /// The position.
        lsn: Lsn,
        /// [`ClusterView::term`] it was read in; another term has another history.
        term: u64,
    },
}

/// PostgreSQL's WAL page (`XLOG_BLCKSZ`) as everybody builds it; a larger one only makes the rounding rarer.
const PAGE: u64 = 8192;
/// `SizeOfXLogShortPHD` and `SizeOfXLogLongPHD` (access/xlog_internal.h).
const SHORT_HEADER: u64 = 24;
const LONG_HEADER: u64 = 40;

impl Floor {
    /// What the floor is in the light of `view`. Never loosens: the session keeps the result as its new floor.
    #[must_use]
    pub fn resolve(self, view: &ClusterView) -> Floor {
        let position = view.primary().and_then(|primary| primary.position);
        let lsn = match (self, position) {
            (Self::None, _) | (_, None) => return self,
            (Self::Dirty { since }, Some(sample)) if sample.begun >= since => sample.lsn,
            (Self::DirtyAsync { since }, Some(sample)) if sample.begun >= since => sample.insert,
            (Self::Dirty { .. } | Self::DirtyAsync { .. }, Some(_)) => return self,
            (Self::At { term, .. }, Some(_)) if term == view.term => return self,
            // After a failover the write is either below the new primary's position or lost; both end here.
            (Self::At { .. }, Some(sample)) => sample.insert,
        };
        Self::At { lsn: before_header(lsn, view.wal_segment), term: view.term }
    }

    /// Has `replica`, as `view` knows it, replayed enough? Resolve first.
    pub fn met_by(self, replica: &NodeView, view: &ClusterView) -> bool {
        match self {
            Self::None => true,
            Self::Dirty { .. } | Self::DirtyAsync { .. } => false,
            Self::At { lsn, term } => term == view.term && replica.position.is_some_and(|position| position.lsn >= lsn),
        }
    }
}

/// A position inside a page header means "everything before the page": a replay position stops at the page's start
/// when the last record ended there, and an idle replica would otherwise never be found fresh.
fn before_header(lsn: Lsn, wal_segment: u64) -> Lsn {
    let starts_segment = lsn.0.checked_rem(wal_segment).is_some_and(|offset| offset < PAGE);
    let header = if starts_segment { LONG_HEADER } else { SHORT_HEADER };
    let offset = lsn.0 % PAGE;
    if offset <= header { Lsn(lsn.0 - offset) } else { lsn }
}

#[cfg(test)]
mod tests;
