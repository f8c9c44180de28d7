//! A cursor over one message's body that cannot read past its end.

use super::WireError;

/// Takes fields off the front of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// What has not been taken yet.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (field, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*field)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, WireError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn salt(&mut self) -> Result<[u8; 4], WireError> {
        self.array()
    }

    pub(super) fn bytes(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (field, rest) = self.rest.split_at_checked(n).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(field)
    }

    /// Everything left.
    pub(super) fn take(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// A zero-terminated string, without its zero.
    pub(super) fn cstr(&mut self) -> Result<&'a [u8], WireError> {
        let end = memchr::memchr(0, self.rest).ok_or(WireError::Unterminated)?;
        let field = self.bytes(end)?;
        self.u8()?;
        Ok(field)
    }

    /// A length word and as many bytes; −1 is NULL, any other negative length an error.
    pub(super) fn value(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        match self.i32()? {
            -1 => Ok(None),
            len => self.bytes(usize::try_from(len).map_err(|_| WireError::Truncated)?).map(Some),
        }
    }

    /// `count` fields of `size` bytes each, unread.
    pub(super) fn array_of(&mut self, count: u16, size: usize) -> Result<&'a [u8], WireError> {
        self.bytes(usize::from(count) * size)
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Trailing) }
    }
}

/// Type ids as they stand in Parse and ParameterDescription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oids<'a> {
    raw: &'a [u8],
}

impl<'a> Oids<'a> {
    pub(super) const fn new(raw: &'a [u8]) -> Self {
        Self { raw }
    }

    /// Four bytes each, big-endian, without the count in front.
    pub const fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// How many.
    pub const fn count(&self) -> usize {
        self.raw.len() / 4
    }

    /// The ids in order; 0 means "not said".
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.raw.as_chunks::<4>().0.iter().map(|oid| u32::from_be_bytes(*oid))
    }
}
