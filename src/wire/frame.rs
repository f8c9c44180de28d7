//! Walking the whole messages of a buffer.

use super::{HEAD_BYTES, Head, WireError, next_head};

/// One whole message as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Tag and length.
    pub head: Head,
    /// All behind the length word.
    pub body: &'a [u8],
    /// Tag, length word and body: what is passed on if nothing changes.
    pub raw: &'a [u8],
}

/// Iterates over the whole messages at the front of a buffer. An incomplete message at the end is not an error: it
/// ends the walk and stays behind [`Frames::consumed`]. After an error the walk is over.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    buf: &'a [u8],
    cap: u32,
    consumed: usize,
    broken: bool,
}

impl<'a> Frames<'a> {
    /// Walks `buf`; a length word above `cap` is an error.
    #[inline]
    pub const fn new(buf: &'a [u8], cap: u32) -> Self {
        Self { buf, cap, consumed: 0, broken: false }
    }

    /// Bytes of the messages yielded so far.
    #[inline]
    pub const fn consumed(&self) -> usize {
        self.consumed
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let rest = self.buf.get(self.consumed..)?;
        match next_head(rest, self.cap) {
            Ok(Some(head)) => {
                let raw = rest.get(..head.total())?;
                let body = raw.get(HEAD_BYTES..)?;
                self.consumed += head.total();
                Some(Ok(Frame { head, body, raw }))
            }
            Ok(None) => None,
            Err(why) => {
                self.broken = true;
                Some(Err(why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(buf: &[u8], bodies: &[&[u8]], consumed: usize, error: bool) {
        let mut frames = Frames::new(buf, 1000);
        let mut seen = Vec::new();
        let mut failed = false;
        for frame in frames.by_ref() {
            match frame {
                Ok(frame) => seen.push(frame.body),
                Err(_) => failed = true,
            }
        }
        assert_eq!((seen.as_slice(), frames.consumed(), failed), (bodies, consumed, error), "{buf:?}");
    }

    #[test]
    fn whole_messages_are_yielded_and_the_rest_is_left() {
        check(b"", &[], 0, false);
        check(b"S\0\0\0\x04", &[b""], 5, false);
        check(b"S\0\0\0\x04Q\0\0\0\x06a\0", &[b"", b"a\0"], 12, false);
        check(b"S\0\0\0\x04Q\0\0\0\x06a", &[b""], 5, false);
        check(b"S\0\0\0\x04Q\0\0", &[b""], 5, false);
        check(b"S\0\0\0\x04Q\0\0\0\x03abc", &[b""], 5, true);
        check(b"S\0\0\0\x04Q\0\0\x10\0S\0\0\0\x04", &[b""], 5, true);
    }
}
