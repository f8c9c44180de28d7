//! What servers say: lazy views over message bodies, and encoders for what we say to clients.
//!
//! Views borrow the body and copy nothing. Rows and their descriptions are walked only where pgsluice itself asked.

mod encode;
mod login;
mod result_type;
mod rows;
pub mod tag;

pub use encode::{
    ErrorText, Severity, authentication_cleartext_password, authentication_md5_password, authentication_ok,
    authentication_sasl, authentication_sasl_continue, authentication_sasl_final, backend_key_data, bind_complete,
    close_complete, command_complete, copy_data, copy_done, data_row, empty_query_response, error_response,
    negotiate_protocol_version, no_data, notice_response, parameter_description, parameter_status, parse_complete,
    portal_suspended, ready_for_query, row_description_text,
};
pub use login::{Authentication, BackendKeyData, KEY_MAX, KEY_MIN, NegotiateProtocolVersion};
pub use result_type::ResultType;
pub use rows::{Columns, CopyResponse, DataRow, FieldDescription, RowDescription};

use super::{
    WireError,
    reader::{Oids, Reader},
};
use crate::base::SqlState;

/// ParameterStatus, `S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    /// Parameter name as the server spells it (`TimeZone`, `DateStyle`, …).
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> ParameterStatus<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Unterminated or left-over bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let (name, value) = (r.cstr()?, r.cstr()?);
        r.end()?;
        Ok(Self { name, value })
    }
}

/// The fields of an ErrorResponse or NoticeResponse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorFields<'a> {
    body: &'a [u8],
}

impl<'a> ErrorFields<'a> {
    /// Checks a whole body.
    ///
    /// # Errors
    /// Unterminated fields, no terminator, or bytes behind it.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        while r.u8()? != 0 {
            r.cstr()?;
        }
        r.end()?;
        Ok(Self { body })
    }

    /// Field letters and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut r = Reader::new(self.body);
        std::iter::from_fn(move || match r.u8().ok()? {
            0 => None,
            letter => Some((letter, r.cstr().ok()?)),
        })
    }

    /// The first field with this letter.
    pub fn field(&self, letter: u8) -> Option<&'a [u8]> {
        self.iter().find_map(|(l, value)| (l == letter).then_some(value))
    }

    /// Field `C`.
    pub fn sqlstate(&self) -> Option<SqlState> {
        self.field(b'C').and_then(SqlState::from_bytes)
    }

    /// Field `V` (never translated), or `S` from servers before 9.6.
    pub fn severity(&self) -> Option<&'a [u8]> {
        self.field(b'V').or_else(|| self.field(b'S'))
    }

    /// Field `M`.
    pub fn message(&self) -> Option<&'a [u8]> {
        self.field(b'M')
    }
}

/// The status byte of ReadyForQuery: the only truth about transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TxStatus {
    /// `I`: no transaction.
    Idle = b'I',
    /// `T`: in a transaction block.
    InTransaction = b'T',
    /// `E`: in a failed transaction block.
    Failed = b'E',
}

impl TxStatus {
    /// Reads the body of ReadyForQuery.
    ///
    /// # Errors
    /// Not exactly one byte of `I`, `T`, `E`.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let status = match r.u8()? {
            b'I' => Self::Idle,
            b'T' => Self::InTransaction,
            b'E' => Self::Failed,
            other => return Err(WireError::BadValue { what: "transaction status", value: other.into() }),
        };
        r.end()?;
        Ok(status)
    }
}

/// CommandComplete, `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandComplete<'a> {
    /// The command tag, such as `INSERT 0 1`.
    pub tag: &'a [u8],
}

impl<'a> CommandComplete<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Unterminated, or a zero inside.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let tag = r.cstr()?;
        r.end()?;
        Ok(Self { tag })
    }
}

/// ParameterDescription, `t`.
#[derive(Clone, Copy, Debug)]
pub struct ParameterDescription;

impl ParameterDescription {
    /// The parameter types.
    ///
    /// # Errors
    /// Truncated or left-over bytes.
    pub fn parse(body: &[u8]) -> Result<Oids<'_>, WireError> {
        let mut r = Reader::new(body);
        let count = r.u16()?;
        let oids = Oids::new(r.array_of(count, 4)?);
        r.end()?;
        Ok(oids)
    }
}

/// NotificationResponse, `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// Process id of the notifying server process.
    pub pid: u32,
    /// Channel name.
    pub channel: &'a [u8],
    /// Payload, may be empty.
    pub payload: &'a [u8],
}

impl<'a> Notification<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Truncated, unterminated or left-over bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let (pid, channel, payload) = (r.u32()?, r.cstr()?, r.cstr()?);
        r.end()?;
        Ok(Self { pid, channel, payload })
    }
}

#[cfg(test)]
mod tests;
