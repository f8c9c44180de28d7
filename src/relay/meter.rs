//! How much of a result a client may have. What is too much is seen message by message, before it is passed on.

use crate::wire::{HEAD_BYTES, backend::tag};

/// What a COPY in binary format ends with (COPY, "File Trailer"); of a text, each line ends with its newline.
const COPY_TRAILER: [u8; 2] = [0xff, 0xff];

/// Rows, and the bytes of their messages. A line of COPY is a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Rows.
    pub rows: u64,
    /// Bytes as they travel.
    pub bytes: u64,
}

impl Amount {
    /// The greater one of each.
    pub fn max(self, other: Self) -> Self {
        Self { rows: self.rows.max(other.rows), bytes: self.bytes.max(other.bytes) }
    }
}

/// The most that a result may hold, and the error of one that holds more.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Most of each.
    pub most: Amount,
    /// An ErrorResponse.
    pub error: Box<[u8]>,
    /// The same for a statement that was carried out, and what it did is not undone.
    pub late: Box<[u8]>,
}

/// Counts what passes of the replies that are `Show::Metered`.
#[derive(Debug, Default)]
pub struct Meter {
    bounds: Vec<Bound>,
    now: Amount,
    peak: Amount,
    crossed: Option<usize>,
    /// Nobody has heard yet that a bound was crossed.
    alarm: bool,
    /// The client has heard the error.
    told: bool,
    /// All results of a text count together: they are pieces of one.
    together: bool,
}

impl Meter {
    /// For a text, each of whose results counts for itself.
    pub fn new(bounds: Vec<Bound>) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// For a piece of a result of which so much was given already.
    pub fn going_on(bounds: Vec<Bound>, before: Amount) -> Self {
        Self { bounds, now: before, peak: before, together: true, ..Self::default() }
    }

    /// One message of rows; false: it is too much, as all that follows it.
    pub(super) fn takes(&mut self, kind: u8, total: usize, body: &[u8]) -> bool {
        let is_row = kind != tag::COPY_DATA || total > HEAD_BYTES + COPY_TRAILER.len() || body != COPY_TRAILER;
        self.now.rows = self.now.rows.saturating_add(u64::from(is_row));
        self.now.bytes = self.now.bytes.saturating_add(total as u64);
        self.peak = self.peak.max(self.now);
        if self.crossed.is_none() {
            let over = |bound: &Bound| self.now.rows > bound.most.rows || self.now.bytes > bound.most.bytes;
            self.crossed = self.bounds.iter().position(over);
            self.alarm = self.crossed.is_some();
        }
        self.crossed.is_none()
    }

    /// A text goes on with the result of its next statement.
    pub(super) fn next_result(&mut self) {
        if !self.together {
            self.now = Amount::default();
        }
    }

    /// The client gets nothing more of it.
    pub fn is_crossed(&self) -> bool {
        self.crossed.is_some()
    }

    /// True once after a bound was crossed: the server need not go on.
    pub(super) fn take_alarm(&mut self) -> bool {
        std::mem::take(&mut self.alarm)
    }

    /// The error, for the client to be told in this place: the statement has failed.
    pub(super) fn tell(&mut self) -> Option<Box<[u8]>> {
        let error = self.bound()?.error.clone();
        self.told = true;
        Some(error)
    }

    /// The error, if the client has not heard it and the statement has come to its end.
    pub(super) fn tell_late(&mut self) -> Option<Box<[u8]>> {
        let error = self.bound().filter(|_| !self.told)?.late.clone();
        self.told = true;
        Some(error)
    }

    /// The error that the client has not heard, since the server has none for it.
    pub fn owes(&self) -> Option<Box<[u8]>> {
        self.bound().filter(|_| !self.told).map(|bound| bound.error.clone())
    }

    fn bound(&self) -> Option<&Bound> {
        self.crossed.and_then(|index| self.bounds.get(index))
    }

    /// What was given of a result that comes in pieces.
    pub fn given(&self) -> Amount {
        self.now
    }

    /// What the longest of its results held, as far as it was read.
    pub fn peak(&self) -> Amount {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(rows: u64, bytes: u64) -> Bound {
        Bound { most: Amount { rows, bytes }, error: Box::new([1]), late: Box::new([2]) }
    }

    #[test]
    fn what_is_too_much_is_not_taken() {
        let row = |meter: &mut Meter, total| meter.takes(tag::DATA_ROW, total, b"");
        let mut meter = Meter::new(vec![bound(2, 100), bound(10, 50)]);
        assert!(row(&mut meter, 20) && row(&mut meter, 30));
        meter.next_result();
        assert!(row(&mut meter, 50));
        assert!(!meter.is_crossed() && meter.owes().is_none());
        assert!(!row(&mut meter, 1) && !row(&mut meter, 0));
        assert!(meter.take_alarm() && !meter.take_alarm());
        assert_eq!((meter.tell_late().as_deref(), meter.owes()), (Some(&[2][..]), None));
        let mut meter = Meter::going_on(vec![bound(3, 100)], Amount { rows: 2, bytes: 0 });
        assert!(row(&mut meter, 1));
        meter.next_result();
        assert!(!row(&mut meter, 1));
        assert_eq!((meter.given().rows, meter.peak().rows), (4, 4));
    }

    #[test]
    fn the_end_of_a_binary_copy_is_no_row() {
        let mut meter = Meter::new(vec![bound(1, 100)]);
        assert!(meter.takes(tag::COPY_DATA, 20, b"PGCOPY"));
        assert!(meter.takes(tag::COPY_DATA, 7, &[0xff, 0xff]));
        assert!(!meter.takes(tag::COPY_DATA, 7, b"x\n"));
    }
}
