//! What a server says before the first ReadyForQuery.

use super::super::{WireError, reader::Reader};

/// Authentication…, `R`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// Code 0: logged in.
    Ok,
    /// Code 3.
    CleartextPassword,
    /// Code 5.
    Md5Password {
        /// Mixed into the answer.
        salt: [u8; 4],
    },
    /// Code 10: mechanism names, zero-terminated, in the server's order of preference; ask [`Authentication::offers`].
    Sasl {
        /// The list as it stands.
        mechanisms: &'a [u8],
    },
    /// Code 11.
    SaslContinue {
        /// The mechanism's message.
        message: &'a [u8],
    },
    /// Code 12.
    SaslFinal {
        /// The mechanism's message.
        message: &'a [u8],
    },
    /// Kerberos, GSSAPI, SSPI, or newer than we are.
    Other {
        /// The code.
        code: u32,
    },
}

impl<'a> Authentication<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Truncated or left-over bytes, an unterminated list of mechanisms.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let this = match r.u32()? {
            0 => Self::Ok,
            3 => Self::CleartextPassword,
            5 => Self::Md5Password { salt: r.salt()? },
            10 => {
                let list = r.rest();
                while !r.cstr()?.is_empty() {}
                let used = list.len() - r.rest().len();
                Self::Sasl { mechanisms: list.get(..used).unwrap_or_default() }
            }
            11 => Self::SaslContinue { message: r.take() },
            12 => Self::SaslFinal { message: r.take() },
            code => {
                r.take();
                Self::Other { code }
            }
        };
        r.end()?;
        Ok(this)
    }

    /// Whether a [`Authentication::Sasl`] offers this mechanism; false for all other requests.
    pub fn offers(&self, mechanism: &str) -> bool {
        match self {
            Self::Sasl { mechanisms } => mechanisms.split(|byte| *byte == 0).any(|name| name == mechanism.as_bytes()),
            Self::Ok
            | Self::CleartextPassword
            | Self::Md5Password { .. }
            | Self::SaslContinue { .. }
            | Self::SaslFinal { .. }
            | Self::Other { .. } => false,
        }
    }
}

/// Shortest cancel key, bytes: the only length in protocol 3.0.
pub const KEY_MIN: usize = 4;
/// Longest cancel key, bytes (protocol 3.2).
pub const KEY_MAX: usize = 256;

/// BackendKeyData, `K`: what a CancelRequest must hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BackendKeyData<'a> {
    /// Process id.
    pub pid: u32,
    /// Secret, [`KEY_MIN`] to [`KEY_MAX`] bytes.
    pub key: &'a [u8],
}

impl<'a> BackendKeyData<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// A key of an impossible length.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let (pid, key) = (r.u32()?, r.take());
        if !(KEY_MIN..=KEY_MAX).contains(&key.len()) {
            return Err(WireError::BadValue { what: "length of cancel key", value: key.len() as i64 });
        }
        Ok(Self { pid, key })
    }
}

/// The key stays out of logs.
impl std::fmt::Debug for BackendKeyData<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackendKeyData").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// NegotiateProtocolVersion, `v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiateProtocolVersion<'a> {
    /// Full code of the version the server goes on with (196608 is 3.0).
    pub newest: u32,
    /// Options the server does not know, zero-terminated each.
    pub unknown: &'a [u8],
}

impl<'a> NegotiateProtocolVersion<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Truncated, unterminated or left-over bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let (newest, count) = (r.u32()?, r.u32()?);
        let unknown = r.rest();
        // Each name takes a byte at least, so an absurd count ends with the body.
        for _ in 0..count {
            r.cstr()?;
        }
        r.end()?;
        Ok(Self { newest, unknown })
    }
}
