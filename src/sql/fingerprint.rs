//! The public id of a statement's form.

use std::{fmt, str::FromStr};

/// pg_query's stable id of a statement's form, written as 16 hexadecimal digits. It is the same in every process and every
/// version, so it may stand in files. It is no key of anything: anybody can compute it, and look for another text that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u64);

/// Not 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint has 16 hexadecimal digits")]
pub struct BadFingerprint;

impl Fingerprint {
    /// The id of the same form with something besides that it does not tell.
    #[must_use]
    pub fn and(self, more: &[u8]) -> Self {
        // FNV-1a, with the length in front, so that two parts are not one.
        let length = (more.len() as u64).to_le_bytes();
        Self(
            length
                .iter()
                .chain(more)
                .fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)),
        )
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = BadFingerprint;

    fn from_str(text: &str) -> Result<Self, BadFingerprint> {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits {
            return Err(BadFingerprint);
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| BadFingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in ["0000000000000001", "f0e1d2c3b4a59687"] {
            assert_eq!(text.parse::<Fingerprint>().map(|print| print.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "1", "+000000000000001", "00000000000000001", "000000000000000g"] {
            assert_eq!(text.parse::<Fingerprint>(), Err(BadFingerprint), "{text}");
        }
    }
}
