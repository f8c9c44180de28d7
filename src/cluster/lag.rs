//! Lag in time without trusting any node's clock: when did the primary stand where the replica stands now? Pure.

use std::{collections::VecDeque, time::Duration};

use crate::base::Lsn;

/// Entries kept; when full every other one goes, so the span doubles and the error stays on the safe side.
const CAPACITY: usize = 2048;

/// Where the primary stood, and the last time it was seen there; both ascending.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: VecDeque<(Duration, Lsn)>,
}

impl History {
    /// A sample of the primary, begun at `begun`. Older ones than the newest known are ignored.
    pub(super) fn record(&mut self, begun: Duration, lsn: Lsn) {
        match self.entries.back_mut() {
            Some((time, last)) if *last == lsn => *time = begun.max(*time),
            Some((time, last)) if *last > lsn || *time > begun => {}
            _ => {
                if self.entries.len() >= CAPACITY {
                    let mut keep = false;
                    self.entries.retain(|_| {
                        keep = !keep;
                        keep
                    });
                }
                self.entries.push_back((begun, lsn));
            }
        }
    }

    /// Forgets everything: another primary has another history.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// How old a replica's data may be at `now`: zero if it has all the primary was ever seen to have, else the time
    /// since the newest sample it has reached. `None`: it is behind all that is remembered.
    pub(super) fn lag(&self, now: Duration, replayed: Lsn) -> Option<Duration> {
        let reached = self.entries.partition_point(|(_, lsn)| *lsn <= replayed);
        let (time, _) = self.entries.get(reached.checked_sub(1)?)?;
        Some(if reached == self.entries.len() { Duration::ZERO } else { now.saturating_sub(*time) })
    }

    /// Bytes flushed by the primary and not replayed.
    pub(super) fn bytes(&self, replayed: Lsn) -> Option<u64> {
        self.entries.back().map(|(_, lsn)| lsn.0.saturating_sub(replayed.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(samples: &[(u64, u64)]) -> History {
        let mut history = History::default();
        for &(ms, lsn) in samples {
            history.record(Duration::from_millis(ms), Lsn(lsn));
        }
        history
    }

    #[test]
    fn lag_is_the_age_of_the_newest_sample_reached() {
        let samples = [(100, 10), (200, 20), (250, 20), (240, 20), (300, 30), (290, 40), (310, 25)];
        // (replayed, lag at 1000 ms, bytes behind 30)
        let cases = [
            (9, None, 21),
            (10, Some(900), 20),
            (19, Some(900), 11),
            (20, Some(750), 10),
            (30, Some(0), 0),
            (99, Some(0), 0),
        ];
        for (replayed, lag, bytes) in cases {
            let history = history(&samples);
            let lag = lag.map(Duration::from_millis);
            assert_eq!(history.lag(Duration::from_secs(1), Lsn(replayed)), lag, "{replayed}");
            assert_eq!(history.bytes(Lsn(replayed)), Some(bytes));
        }
        assert_eq!((history(&[]).lag(Duration::ZERO, Lsn(1)), history(&[]).bytes(Lsn(1))), (None, None));
    }

    #[test]
    fn a_full_history_thins_out_and_never_flatters() {
        let samples: Vec<(u64, u64)> = (0..10_000).map(|i| (i * 100, i)).collect();
        let history = history(&samples);
        assert!(history.entries.len() <= CAPACITY);
        for replayed in [0, 1, 4321, 9_998] {
            let exact = Duration::from_millis(1_000_000 - replayed * 100);
            let lag = history.lag(Duration::from_secs(1000), Lsn(replayed));
            assert!(lag.is_some_and(|lag| lag >= exact && lag <= exact + Duration::from_secs(4)), "{replayed} {lag:?}");
        }
    }
}
