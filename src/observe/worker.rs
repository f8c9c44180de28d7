//! One worker's counters: plain loads and stores, because nobody else writes them.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::{
    labels::{ClassifyPath, ClientState, LimitHit, LoginEnd, LookupEnd, Sent},
    metrics::{SLOTS, Words},
};

/// Upper bounds of the latency buckets in microseconds; one more for everything above.
pub(super) const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];
/// Cells of one histogram: the buckets, the one above, and the sum in nanoseconds.
pub(super) const HISTOGRAM: usize = BOUNDS_US.len() + 2;

/// The counters of one worker. Every method is to be called by that worker only. Databases and nodes are slots from
/// [`super::Metrics::database`]; indexes out of range are ignored.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerMetrics {
    reasons: usize,
    pub(super) statements: Table,
    pub(super) statement_seconds: Table,
    pub(super) clients: Table,
    pub(super) checkout_seconds: Table,
    pub(super) classified: Table,
    pub(super) fallbacks: Table,
    pub(super) pins: Table,
    pub(super) taps_dropped: Table,
    pub(super) logins: Table,
    pub(super) lookups: Table,
    pub(super) half_open: Table,
    pub(super) limits: Table,
    pub(super) prepared_texts: Table,
    pub(super) catalog_questions: Table,
}

/// Cells in one block of memory.
#[derive(Debug)]
pub(super) struct Table(Box<[AtomicU64]>);

impl Table {
    fn new(cells: usize) -> Self {
        Self((0..cells).map(|_| AtomicU64::new(0)).collect())
    }

    fn add(&self, cell: usize, more: u64) {
        if let Some(cell) = self.0.get(cell) {
            cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
        }
    }

    fn set(&self, cell: usize, value: u64) {
        if let Some(cell) = self.0.get(cell) {
            cell.store(value, Relaxed);
        }
    }

    /// 0 beyond the end.
    pub(super) fn read(&self, cell: usize) -> u64 {
        self.0.get(cell).map_or(0, |cell| cell.load(Relaxed))
    }

    fn observe(&self, histogram: usize, time: Duration) {
        // 2^64 ns are 584 years.
        let nanos = time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.subsec_nanos()));
        // Most answers come within the first few bounds: counting up to them is quicker than halving.
        let bucket = BOUNDS_US.iter().position(|bound| nanos <= *bound * 1_000).unwrap_or(BOUNDS_US.len());
        self.add(histogram * HISTOGRAM + bucket, 1);
        self.add(histogram * HISTOGRAM + HISTOGRAM - 1, nanos);
    }
}

impl WorkerMetrics {
    pub(super) fn new(words: &Words) -> Self {
        let sent = Sent::WORDS.len();
        Self {
            reasons: words.reasons.len(),
            statements: Table::new(SLOTS * sent * words.reasons.len()),
            statement_seconds: Table::new(SLOTS * sent * HISTOGRAM),
            clients: Table::new(SLOTS * ClientState::WORDS.len()),
            checkout_seconds: Table::new(HISTOGRAM),
            classified: Table::new(ClassifyPath::WORDS.len()),
            fallbacks: Table::new(words.reasons.len()),
            pins: Table::new(words.pins.len()),
            taps_dropped: Table::new(words.taps.len()),
            logins: Table::new(LoginEnd::WORDS.len()),
            lookups: Table::new(LookupEnd::WORDS.len()),
            half_open: Table::new(1),
            limits: Table::new(LimitHit::WORDS.len()),
            prepared_texts: Table::new(1),
            catalog_questions: Table::new(1),
        }
    }

    /// A statement was placed; `reason` is an index into [`Words::reasons`].
    pub fn statement(&self, database: usize, sent: Sent, reason: usize) {
        if reason < self.reasons {
            self.statements.add((database * Sent::WORDS.len() + sent.index()) * self.reasons + reason, 1);
        }
    }

    /// Its answer is complete, this long after the client's last byte was read.
    pub fn statement_seconds(&self, database: usize, sent: Sent, time: Duration) {
        self.statement_seconds.observe(database * Sent::WORDS.len() + sent.index(), time);
    }

    /// A text's facts were found.
    pub fn classified(&self, path: ClassifyPath) {
        self.classified.add(path.index(), 1);
    }

    /// A read went to the primary for this reason, an index into [`Words::reasons`].
    pub fn read_fallback(&self, reason: usize) {
        self.fallbacks.add(reason, 1);
    }

    /// A session asked for a server connection and got one, or was refused, after this time.
    pub fn checkout(&self, time: Duration) {
        self.checkout_seconds.observe(0, time);
    }

    /// A session was pinned; an index into [`Words::pins`].
    pub fn pinned(&self, reason: usize) {
        self.pins.add(reason, 1);
    }

    /// A tap's queue was full; an index into [`Words::taps`].
    pub fn tap_dropped(&self, tap: usize) {
        self.taps_dropped.add(tap, 1);
    }

    /// A client went from one state to another.
    pub fn client_turns(&self, database: usize, from: ClientState, to: ClientState) {
        self.client_leaves(database, from);
        self.client_enters(database, to);
    }

    /// A login is over.
    pub fn login(&self, end: LoginEnd) {
        self.logins.add(end.index(), 1);
    }

    /// A server was asked what code a statement reaches.
    pub fn catalog_question(&self) {
        self.catalog_questions.add(0, 1);
    }

    /// A user was looked for.
    pub fn lookup(&self, end: LookupEnd) {
        self.lookups.add(end.index(), 1);
    }

    /// So many clients have not proved yet who they are.
    pub fn half_open(&self, clients: usize) {
        self.half_open.set(0, clients as u64);
    }

    /// A limit was reached.
    pub fn limit(&self, hit: LimitHit) {
        self.limits.add(hit.index(), 1);
    }

    /// So many distinct texts of prepared statements are known now.
    pub fn prepared_texts(&self, count: usize) {
        self.prepared_texts.set(0, count as u64);
    }

    /// A client is now in this state.
    pub fn client_enters(&self, database: usize, state: ClientState) {
        self.clients.add(database * ClientState::WORDS.len() + state.index(), 1);
    }

    /// A client is no longer in this state.
    pub fn client_leaves(&self, database: usize, state: ClientState) {
        self.clients.add(database * ClientState::WORDS.len() + state.index(), u64::MAX);
    }
}
