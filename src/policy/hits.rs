//! How often a rule matched. Each worker writes a counter of its own; a reload keeps those of rules that keep their names.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

/// What came of a match; the label `verdict` of `pgsluice_firewall_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HitKind {
    /// It was refused.
    Deny,
    /// It would have been refused: `mode: detect`.
    Detect,
    /// The rule would have done what it says: `dry_run: true`.
    DryRun,
    /// The rule was followed: a limit, a route.
    Follow,
}

impl HitKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Deny, Self::Detect, Self::DryRun, Self::Follow];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Detect => "detect",
            Self::DryRun => "dry_run",
            Self::Follow => "allow",
        }
    }
}

/// The counters of one rule.
#[derive(Debug)]
pub struct Hits(Box<[CachePadded<[AtomicU64; 4]>]>);

impl Hits {
    /// For so many workers.
    pub fn new(workers: usize) -> Self {
        Self((0..workers.max(1)).map(|_| CachePadded::default()).collect())
    }

    /// One more. Nobody but this worker writes its cell.
    pub fn count(&self, worker: usize, kind: HitKind) {
        if let Some(cell) = self.0.get(worker).and_then(|cells| cells.get(kind as usize)) {
            cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// The sum over all workers.
    pub fn total(&self, kind: HitKind) -> u64 {
        self.0
            .iter()
            .filter_map(|cells| cells.get(kind as usize))
            .fold(0, |sum, cell| sum.wrapping_add(cell.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_count_apart() {
        let hits = Hits::new(2);
        hits.count(0, HitKind::Deny);
        hits.count(1, HitKind::Deny);
        hits.count(1, HitKind::Detect);
        hits.count(7, HitKind::Deny);
        assert_eq!(HitKind::ALL.map(|kind| hits.total(kind)), [2, 1, 0, 0]);
    }
}
