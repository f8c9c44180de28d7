//! Time as a parameter, so that pure rooms can be tested without waiting.

use std::time::{Duration, Instant};

/// A monotonic clock counted from the start of the process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose zero is now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Time since the clock's zero.
    pub fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A moment that was taken already; zero if it was before the clock's.
    pub fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.origin)
    }
}
