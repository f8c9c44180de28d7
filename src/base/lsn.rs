//! Positions in the write-ahead log.

use std::{fmt, str::FromStr};

/// A WAL position (`pg_lsn`), ordered within one timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lsn(pub u64);

/// The text was not `XXXXXXXX/XXXXXXXX`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a WAL position, expected two hexadecimal numbers with a slash between")]
pub struct BadLsn;

impl FromStr for Lsn {
    type Err = BadLsn;

    fn from_str(s: &str) -> Result<Self, BadLsn> {
        let (hi, lo) = s.split_once('/').ok_or(BadLsn)?;
        let hi = u32::from_str_radix(hi, 16).map_err(|_| BadLsn)?;
        let lo = u32::from_str_radix(lo, 16).map_err(|_| BadLsn)?;
        Ok(Self((u64::from(hi) << 32) | u64::from(lo)))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lsn_text_round_trips() {
        for text in ["0/0", "0/4001928", "16/B374D848", "FFFFFFFF/FFFFFFFF"] {
            assert_eq!(text.parse::<Lsn>().map(|l| l.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "0", "0/", "/0", "0/100000000", "x/y", "0/0/0"] {
            assert_eq!(text.parse::<Lsn>(), Err(BadLsn), "{text}");
        }
    }
}
