//! The five bytes in front of every message after the startup packet.

use super::WireError;

/// Size of a head on the wire, bytes.
pub const HEAD_BYTES: usize = 5;

/// Tag and checked length of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the message is; see [`super::frontend::tag`] and [`super::backend::tag`]: one letter means different
    /// things in each direction.
    pub tag: u8,
    /// The length word: it counts itself but not the tag, so it is ≥ 4. Bytes.
    pub len: u32,
}

impl Head {
    /// Bytes of the whole message on the wire: tag, length word and body.
    #[inline]
    pub const fn total(self) -> usize {
        1 + self.len as usize
    }

    /// Bytes of the body: all behind the length word.
    #[inline]
    pub const fn body(self) -> usize {
        (self.len as usize).saturating_sub(4)
    }
}

/// Reads the head at the start of `buf`; `None` if fewer than five bytes are there. `cap` is the largest length
/// word allowed.
///
/// # Errors
/// [`WireError::BadLength`] if the length word is not in `4..=cap`.
#[inline]
pub fn next_head(buf: &[u8], cap: u32) -> Result<Option<Head>, WireError> {
    let Some(&[tag, a, b, c, d]) = buf.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let len = u32::from_be_bytes([a, b, c, d]);
    if len < 4 || len > cap {
        return Err(WireError::BadLength { tag, len, cap });
    }
    Ok(Some(Head { tag, len }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(buf: &[u8], cap: u32, expected: Result<Option<Head>, WireError>) {
        assert_eq!(next_head(buf, cap), expected, "{buf:?} cap {cap}");
    }

    #[test]
    fn a_head_is_checked_before_anything_is_made_of_it() {
        let bad = |len, cap| Err(WireError::BadLength { tag: b'Q', len, cap });
        check(b"", 100, Ok(None));
        check(b"Q\0\0\0", 100, Ok(None));
        check(b"Q\0\0\0\x04", 100, Ok(Some(Head { tag: b'Q', len: 4 })));
        check(b"Q\0\0\0\x64rest", 100, Ok(Some(Head { tag: b'Q', len: 100 })));
        check(b"Q\0\0\0\x65", 100, bad(101, 100));
        check(b"Q\0\0\0\x00", 100, bad(0, 100));
        check(b"Q\0\0\0\x03", 100, bad(3, 100));
        check(b"Q\x7f\xff\xff\xff", 1 << 30, bad(0x7fff_ffff, 1 << 30));
        check(b"Q\xff\xff\xff\xff", 1 << 30, bad(u32::MAX, 1 << 30));
        assert_eq!(Head { tag: b'S', len: 4 }.total(), 5);
        assert_eq!(Head { tag: b'S', len: 4 }.body(), 0);
    }
}
