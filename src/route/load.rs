//! What the workers have measured of one node, without a shared cache line.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crossbeam_utils::CachePadded;

/// How a request ended, as far as the node's worth is concerned. An SQL error is an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered, with rows or with an error of the statement.
    Answered,
    /// The connection failed, or the server refused to work (08xxx, 57P0x, 53xxx).
    Failed,
}

/// A failure counts as an answer this slow, or else a node that fails fast would draw all the load to itself.
const FAILURE_COSTS: u64 = 1_000_000_000;
/// An estimate halves each time this many nanoseconds pass without a new sample (2^28 ns ≈ 0.27 s), so a node that
/// was slow once is tried again: the first statements on a new server fill its caches and say little about the next ones, and
/// with one second all readers stayed away from such a replica for many.
const HALF_LIFE_SHIFT: u32 = 28;
/// Below this (50 µs) latencies are taken as equal; also the guess for a node never used.
const FLOOR_NS: u64 = 50_000;

/// One worker's figures. Only that worker stores to them, so a load and a store do; no read-modify-write is needed.
#[derive(Debug, Default)]
struct Cell {
    in_flight: AtomicU64,
    latency_ns: AtomicU64,
    stamp_ns: AtomicU64,
    failures: AtomicU64,
}

/// Per-worker figures of one node; sums are read when a node is chosen. Shared by all databases on the node.
#[derive(Debug)]
pub struct NodeLoad {
    cells: Box<[CachePadded<Cell>]>,
}

impl NodeLoad {
    /// For `workers` workers, numbered from 0. Reports of a worker beyond that are ignored.
    pub fn new(workers: usize) -> Self {
        Self { cells: (0..workers).map(|_| CachePadded::default()).collect() }
    }

    /// A request went out. Call from the worker of that number only.
    pub fn started(&self, worker: usize) {
        if let Some(cell) = self.cells.get(worker) {
            cell.in_flight.store(cell.in_flight.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Its answer is complete, at clock `now`, `latency` after it was sent. Call once per [`NodeLoad::started`].
    pub fn finished(&self, worker: usize, now: Duration, latency: Duration, outcome: Outcome) {
        let Some(cell) = self.cells.get(worker) else { return };
        cell.in_flight.store(cell.in_flight.load(Relaxed).saturating_sub(1), Relaxed);
        let now = nanos(now);
        let before = cell.latency(now);
        let sample = nanos(latency).max(1);
        let after = match outcome {
            Outcome::Failed => {
                cell.failures.store(cell.failures.load(Relaxed) + 1, Relaxed);
                before.max(sample).max(FAILURE_COSTS)
            }
            Outcome::Answered if before == 0 => sample,
            Outcome::Answered => before - before / 8 + sample / 8,
        };
        cell.latency_ns.store(after, Relaxed);
        cell.stamp_ns.store(now, Relaxed);
    }

    /// Requests under way, over all workers.
    pub fn in_flight(&self) -> u64 {
        self.cells.iter().map(|cell| cell.in_flight.load(Relaxed)).sum()
    }

    /// Failures ever, over all workers.
    pub fn failures(&self) -> u64 {
        self.cells.iter().map(|cell| cell.failures.load(Relaxed)).sum()
    }

    /// Expected latency at clock `now`: the mean of the workers that have used the node, each estimate fading with age.
    pub fn latency(&self, now: Duration) -> Duration {
        let now = nanos(now);
        let (mut sum, mut used) = (0u64, 0u64);
        for cell in &self.cells {
            let latency = cell.latency(now);
            if latency > 0 {
                sum = sum.saturating_add(latency);
                used += 1;
            }
        }
        Duration::from_nanos(sum.checked_div(used).unwrap_or(0).max(FLOOR_NS))
    }
}

impl Cell {
    fn latency(&self, now_ns: u64) -> u64 {
        let age = now_ns.saturating_sub(self.stamp_ns.load(Relaxed));
        self.latency_ns.load(Relaxed) >> (age >> HALF_LIFE_SHIFT).min(63)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn counts_what_is_under_way() {
        let load = NodeLoad::new(2);
        load.started(0);
        load.started(1);
        load.started(1);
        load.started(7);
        assert_eq!(load.in_flight(), 3);
        load.finished(1, MS, MS, Outcome::Answered);
        load.finished(0, MS, MS, Outcome::Failed);
        load.finished(0, MS, MS, Outcome::Answered);
        assert_eq!((load.in_flight(), load.failures()), (1, 1));
    }

    #[test]
    fn a_failure_is_slow_and_time_forgives() {
        let load = NodeLoad::new(1);
        assert_eq!(load.latency(MS), Duration::from_nanos(FLOOR_NS));
        load.finished(0, MS, 2 * MS, Outcome::Answered);
        assert_eq!(load.latency(MS), 2 * MS);
        load.finished(0, MS, MS / 10, Outcome::Failed);
        assert_eq!(load.latency(MS), Duration::from_secs(1));
        assert!(load.latency(Duration::from_secs(5)) < Duration::from_millis(100));
        assert_eq!(load.latency(Duration::from_secs(500)), Duration::from_nanos(FLOOR_NS));
    }

    #[test]
    fn the_mean_follows_the_samples() {
        let load = NodeLoad::new(4);
        for _ in 0..200 {
            load.finished(2, MS, 4 * MS, Outcome::Answered);
        }
        load.finished(3, MS, 2 * MS, Outcome::Answered);
        assert!(load.latency(MS).abs_diff(3 * MS) < MS / 100, "{:?}", load.latency(MS));
    }
}
