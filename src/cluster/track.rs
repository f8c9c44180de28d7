//! What is known of one node, and how a probe's outcome changes it. Pure.

use std::{sync::Arc, time::Duration};

use crate::route::{Health, NodeLoad, Position, Suspicion};

use super::probe::Sample;

/// How a probe ended.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// It answered, on the connection that answered before.
    Answered(Sample),
    /// It answered on a new connection: the old one had broken, so the process behind it may be another.
    AnsweredAnew(Sample),
    /// A worker or a failed query raised doubt.
    Doubted,
    /// It has no connection left for us.
    Crowded,
    /// The question and the reconnect failed.
    Failed,
}

/// One node, shared by all databases on it.
#[derive(Debug)]
pub(super) struct Track {
    /// Does it answer?
    pub(super) health: Health,
    /// Doubted since the last good probe, and when.
    pub(super) doubted: Option<Duration>,
    /// The last answer of this epoch.
    pub(super) sample: Option<Sample>,
    /// Incarnation; see [`crate::route::NodeView::epoch`].
    pub(super) epoch: u64,
    /// Its replay position was seen beyond what the primary had flushed: another history. Until the next epoch.
    pub(super) diverged: bool,
    /// What the workers measure.
    pub(super) load: Arc<NodeLoad>,
    /// `pg_postmaster_start_time()` of the last answer, kept over a time of silence.
    started: Option<String>,
}

impl Track {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            health: Health::Unknown,
            doubted: None,
            sample: None,
            epoch: 1,
            diverged: false,
            load: Arc::new(NodeLoad::new(workers)),
            started: None,
        }
    }

    /// Takes in a probe's outcome at clock `now`.
    pub(super) fn apply(&mut self, event: Event, now: Duration) {
        match event {
            Event::Answered(sample) => self.answered(sample, false),
            Event::AnsweredAnew(sample) => self.answered(sample, true),
            Event::Doubted => self.doubted = Some(now),
            // A node we never reached cannot be called up; one that was up has merely not been measured.
            Event::Crowded if self.health == Health::Up => {}
            Event::Crowded | Event::Failed => {
                if !matches!(self.health, Health::Down { .. }) {
                    self.health = Health::Down { since: now };
                    self.next_epoch();
                }
            }
        }
    }

    fn answered(&mut self, sample: Sample, anew: bool) {
        let restarted = self.started.as_ref().is_some_and(|started| *started != sample.started);
        let changed = self.sample.as_ref().is_some_and(|before| {
            // Going backwards: another node answers behind the same address, or it was rewound.
            before.in_recovery != sample.in_recovery || before.lsn > sample.lsn || before.system != sample.system
        });
        // A crash restart kills every backend but keeps the postmaster and its start time.
        let broken = anew && self.sample.is_some();
        if restarted || changed || broken {
            self.next_epoch();
        }
        if self.doubted.is_some_and(|doubted| doubted <= sample.begun) {
            self.doubted = None;
        }
        self.health = Health::Up;
        self.started = Some(sample.started.clone());
        self.sample = Some(sample);
    }

    fn next_epoch(&mut self) {
        self.epoch += 1;
        self.sample = None;
        self.diverged = false;
    }

    /// Position in this epoch.
    pub(super) fn position(&self) -> Option<Position> {
        let sample = self.sample.as_ref()?;
        Some(Position { lsn: sample.lsn?, insert: sample.insert?, begun: sample.begun })
    }

    /// Doubted?
    pub(super) fn suspicion(&self) -> Suspicion {
        if self.doubted.is_some() { Suspicion::Suspect } else { Suspicion::Clear }
    }
}

#[cfg(test)]
mod tests;
