//! What a Describe says of a statement, boiled down to what must not change under a client that was told it.

use std::num::NonZeroU64;

use super::super::{WireError, reader::Reader};

/// A statement's columns and parameters, as two numbers: equal if they are the same, different (but for one case in 2^63) if not.
/// Of a column only its name, type and type modifier count, as in PostgreSQL's own "cached plan must not change result
/// type"; where it comes from and the format it is sent in do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultType {
    rows: NonZeroU64,
    /// `None`: only a portal was described.
    parameters: Option<NonZeroU64>,
}

impl ResultType {
    /// From the body of a RowDescription, or `None` for NoData; `parameters` is what [`ResultType::parameters`] gave.
    ///
    /// # Errors
    /// The body is not that of a RowDescription, or not all of it.
    pub fn new(rows: Option<&[u8]>, parameters: Option<NonZeroU64>) -> Result<Self, WireError> {
        let mut sum = Sum::default();
        if let Some(body) = rows {
            let mut r = Reader::new(body);
            let count = r.u16()?;
            sum.add(u64::from(count) + 1);
            for _ in 0..count {
                sum.bytes(r.cstr()?);
                let (_table, _attribute) = (r.u32()?, r.i16()?);
                let (type_oid, size, modifier, _format) = (r.u32()?, r.i16()?, r.u32()?, r.i16()?);
                sum.add(u64::from(type_oid) << 32 | u64::from(modifier));
                sum.add(u64::from(size.cast_unsigned()));
            }
            r.end()?;
        }
        Ok(Self { rows: sum.end(), parameters })
    }

    /// From the body of a ParameterDescription.
    pub fn parameters(body: &[u8]) -> NonZeroU64 {
        let mut sum = Sum::default();
        sum.bytes(body);
        sum.end()
    }

    /// Is it the same, as far as both are known?
    pub fn is(self, other: Self) -> bool {
        let differ = self.parameters.zip(other.parameters).is_some_and(|(a, b)| a != b);
        self.rows == other.rows && !differ
    }

    /// The same, with the parameters of `other` if it knew them only there.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { parameters: self.parameters.or(other.parameters), ..self }
    }

    /// Are the parameters known?
    pub fn is_complete(self) -> bool {
        self.parameters.is_some()
    }
}

/// Each step is a bijection of what went before, so one differing word is always seen. A row description is the server's, not
/// anybody's free choice, so no key is needed.
#[derive(Default)]
struct Sum(u64);

impl Sum {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.add(u64::from_le_bytes(last));
        self.add(bytes.len() as u64);
    }

    fn end(self) -> NonZeroU64 {
        // The highest bit is given up so that zero can mean nothing.
        NonZeroU64::MIN | (self.0 ^ (self.0 >> 32)) << 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name:oid:size:modifier:table:format`, one word per column.
    fn body(columns: &str) -> Vec<u8> {
        let columns: Vec<&str> = columns.split_whitespace().collect();
        let mut body = (columns.len() as u16).to_be_bytes().to_vec();
        for column in columns {
            let mut parts = column.split(':');
            body.extend_from_slice(parts.next().unwrap().as_bytes());
            body.push(0);
            let numbers: Vec<i32> = parts.map(|n| n.parse().unwrap()).collect();
            let [oid, size, modifier, table, format] = numbers[..] else { panic!("{numbers:?}") };
            body.extend_from_slice(&table.to_be_bytes());
            body.extend_from_slice(&7i16.to_be_bytes());
            body.extend_from_slice(&oid.to_be_bytes());
            body.extend_from_slice(&(size as i16).to_be_bytes());
            body.extend_from_slice(&modifier.to_be_bytes());
            body.extend_from_slice(&(format as i16).to_be_bytes());
        }
        body
    }

    fn of(columns: &str) -> ResultType {
        ResultType::new(Some(&body(columns)), None).unwrap()
    }

    #[test]
    fn what_counts_and_what_does_not() {
        let one = "id:23:4:-1:100:0 v:25:-1:-1:100:0";
        for (other, same) in [
            (one, true),
            ("id:23:4:-1:0:1 v:25:-1:-1:200:1", true),
            ("id:23:4:-1:100:0", false),
            ("v:25:-1:-1:100:0 id:23:4:-1:100:0", false),
            ("id:20:4:-1:100:0 v:25:-1:-1:100:0", false),
            ("id:23:8:-1:100:0 v:25:-1:-1:100:0", false),
            ("id:23:4:5:100:0 v:25:-1:-1:100:0", false),
            ("ie:23:4:-1:100:0 v:25:-1:-1:100:0", false),
            ("id:23:4:-1:100:0 v:25:-1:-1:100:0 w:25:-1:-1:100:0", false),
        ] {
            assert_eq!(of(one).is(of(other)), same, "{other}");
        }
        let nothing = ResultType::new(None, None).unwrap();
        assert!(!nothing.is(ResultType::new(Some(&body("")), None).unwrap()), "no rows are not rows without columns");
    }

    #[test]
    fn parameters_count_if_both_know_them() {
        let with = |parameters| ResultType::new(None, parameters).unwrap();
        let (int, text) = (ResultType::parameters(b"\0\x01\0\0\0\x17"), ResultType::parameters(b"\0\x01\0\0\0\x19"));
        assert!(!with(Some(int)).is(with(Some(text))));
        assert!(with(Some(int)).is(with(None)) && with(None).is(with(Some(text))));
        assert!(!with(None).or(with(Some(text))).is(with(Some(int))));
    }

    #[test]
    fn half_a_description_is_none() {
        let whole = body("id:23:4:-1:100:0 v:25:-1:-1:100:0");
        for end in 0..whole.len() {
            assert!(ResultType::new(Some(&whole[..end]), None).is_err(), "{end}");
        }
    }
}
