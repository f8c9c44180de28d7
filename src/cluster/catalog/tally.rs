//! What became of the looks at a catalog; for whoever watches.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// How a look ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing has changed.
    Same,
    /// It was read anew.
    Changed,
}

/// Counts of one catalog. Written by its task only.
#[derive(Debug, Default)]
pub(super) struct Tally {
    same: AtomicU64,
    changed: AtomicU64,
    failed: AtomicU64,
    /// What all of them took.
    micros: AtomicU64,
    /// The clock when the last one began that did not fail, and one more: 0 is never.
    begun: AtomicU64,
}

/// The looks at the catalogs of one database of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogTally {
    /// That found nothing new.
    pub same: u64,
    /// That read it anew: generations of what is known.
    pub changed: u64,
    /// That failed.
    pub failed: u64,
    /// What all of them took.
    pub took: Duration,
    /// How old what is known may be: since the last look that did not fail began. `None`: there was none.
    pub age: Option<Duration>,
    /// Whether it is believed in all it says.
    pub fresh: bool,
}

impl Tally {
    /// A look has ended that began at this clock.
    pub(super) fn count(&self, look: Option<Look>, begun: Duration, took: Duration) {
        let cell = match look {
            Some(Look::Same) => &self.same,
            Some(Look::Changed) => &self.changed,
            None => &self.failed,
        };
        cell.fetch_add(1, Relaxed);
        self.micros.fetch_add(micros(took), Relaxed);
        if look.is_some() {
            self.begun.store(micros(begun) + 1, Relaxed);
        }
    }

    pub(super) fn read(&self, now: Duration, fresh: bool) -> CatalogTally {
        let begun = self.begun.load(Relaxed).checked_sub(1);
        CatalogTally {
            same: self.same.load(Relaxed),
            changed: self.changed.load(Relaxed),
            failed: self.failed.load(Relaxed),
            took: Duration::from_micros(self.micros.load(Relaxed)),
            age: begun.map(|begun| now.saturating_sub(Duration::from_micros(begun))),
            fresh,
        }
    }
}

impl CatalogTally {
    /// Of `*` there can be many: all counts, and the worst state.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            same: self.same + other.same,
            changed: self.changed + other.changed,
            failed: self.failed + other.failed,
            took: self.took + other.took,
            age: self.age.max(other.age),
            fresh: self.fresh && other.fresh,
        }
    }
}

/// 2^64 µs are longer than any process lives.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_counted_by_how_they_ended() {
        let (tally, s) = (Tally::default(), Duration::from_secs);
        assert_eq!(tally.read(s(1), false), CatalogTally::default());
        tally.count(Some(Look::Changed), s(10), s(2));
        tally.count(Some(Look::Same), s(20), s(1));
        tally.count(None, s(30), s(3));
        let one = CatalogTally { same: 1, changed: 1, failed: 1, took: s(6), age: Some(s(15)), fresh: true };
        assert_eq!(tally.read(s(35), true), one);
        let two = CatalogTally { age: Some(s(40)), fresh: false, ..one.clone() };
        let sum = CatalogTally { same: 2, changed: 2, failed: 2, took: s(12), age: Some(s(40)), fresh: false };
        assert_eq!(one.and(two), sum);
    }
}
