//! Why a first packet is refused.

use std::borrow::Cow;

use super::{super::WireError, Protocol};
use crate::base::{Blame, Report, SqlState};

/// A first packet that cannot be honoured. All are FATAL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    /// An impossible length, or a field that ends too late.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Bytes where the terminator should be.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    Layout,
    /// A protocol we do not speak.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2", major = .0.major, minor = .0.minor)]
    Protocol(Protocol),
    /// No user, or an empty one.
    #[error("no PostgreSQL user name specified in startup packet")]
    NoUser,
    /// A name or value that is not UTF-8.
    #[error("invalid byte sequence for encoding \"UTF8\" in startup packet")]
    NotUtf8,
    /// `replication` is neither a boolean nor `database`.
    #[error("invalid value for parameter \"replication\"")]
    BadReplication,
    /// `options` holds something other than `-c name=value` and `--name=value`.
    #[error("invalid command-line argument in startup option \"options\": {0}")]
    BadOption(String),
}

impl Report for StartupError {
    fn blame(&self) -> Blame {
        Blame::Client
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Wire(why) => why.sqlstate(),
            Self::Layout => SqlState::PROTOCOL_VIOLATION,
            Self::Protocol(_) => SqlState::FEATURE_NOT_SUPPORTED,
            Self::NoUser => SqlState::INVALID_AUTHORIZATION,
            Self::NotUtf8 | Self::BadReplication | Self::BadOption(_) => SqlState::INVALID_PARAMETER_VALUE,
        }
    }

    fn to_client(&self) -> Cow<'static, str> {
        match self {
            Self::Wire(why) => why.to_client(),
            other => other.to_string().into(),
        }
    }
}
