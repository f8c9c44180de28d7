//! Statements separated by NUL bytes.

use std::io::{self, BufRead, BufReader, Read};

/// Reads statements one by one. What is longer than `cap` bytes is cut there: it would not be parsed anyway.
pub(super) struct Statements<R> {
    input: BufReader<R>,
    cap: usize,
    text: Vec<u8>,
}

impl<R: Read> Statements<R> {
    pub(super) fn new(input: BufReader<R>, cap: usize) -> Self {
        Self { input, cap, text: Vec::new() }
    }

    /// The next statement; `None` at the end. A NUL at the very end ends the last statement, it does not begin one.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.text.clear();
        let mut some = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                return Ok(some.then_some(&self.text));
            }
            some = true;
            let end = memchr::memchr(0, chunk);
            let piece = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or(chunk);
            // One byte over the cap is kept, so that the text still counts as too long.
            let room = self.cap.saturating_add(1).saturating_sub(self.text.len());
            self.text.extend_from_slice(piece.get(..room).unwrap_or(piece));
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(&self.text));
            }
        }
    }

    /// Nothing more has been read yet: the next call may have to wait.
    pub(super) fn would_wait(&self) -> bool {
        self.input.buffer().is_empty()
    }
}
