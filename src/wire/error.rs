//! What can be wrong with a peer's bytes.

use std::borrow::Cow;

use crate::base::{Blame, Report, SqlState};

/// A peer broke the protocol.
///
/// [`Report`] blames the client, because only a client's own faults are told to a client; who reads a server's
/// bytes wraps this into an error of its own that blames the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The length word is below 4 or above the cap.
    #[error("message {tag:?} claims {len} bytes, allowed are 4 to {cap}", tag = char::from(*tag))]
    BadLength {
        /// Message tag.
        tag: u8,
        /// The length word as read, bytes.
        len: u32,
        /// Largest length word allowed here, bytes.
        cap: u32,
    },
    /// A message ends before its last field does.
    #[error("insufficient data left in message")]
    Truncated,
    /// A string has no terminating zero byte.
    #[error("invalid string in message")]
    Unterminated,
    /// Bytes are left over after the last field, or a string holds a zero byte.
    #[error("invalid message format")]
    Trailing,
    /// A name (statement, portal, …) is longer than [`super::frontend::NAME_CAP`].
    #[error("name in message is longer than {cap} bytes")]
    LongName {
        /// The cap, bytes.
        cap: usize,
    },
    /// A field holds a value the protocol does not know.
    #[error("invalid {what}: {value}")]
    BadValue {
        /// The field.
        what: &'static str,
        /// What stood there.
        value: i64,
    },
    /// Bind has neither none, nor one, nor one per parameter format code.
    #[error("bind message has {formats} parameter formats but {parameters} parameters")]
    FormatCount {
        /// Number of format codes.
        formats: u16,
        /// Number of parameters.
        parameters: u16,
    },
    /// A message came inside a COPY that has no place there.
    #[error("terminating connection because protocol synchronization was lost")]
    LostPlace,
    /// A packet before login has an impossible length.
    #[error("invalid length of startup packet")]
    BadStartupLength {
        /// The length word as read, bytes.
        len: u32,
    },
}

impl Report for WireError {
    fn blame(&self) -> Blame {
        Blame::Client
    }

    fn sqlstate(&self) -> SqlState {
        SqlState::PROTOCOL_VIOLATION
    }

    fn to_client(&self) -> Cow<'static, str> {
        match self {
            Self::BadLength { .. } => "invalid message length".into(),
            other => other.to_string().into(),
        }
    }
}
