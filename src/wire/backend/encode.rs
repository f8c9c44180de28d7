//! Messages we send to clients, appended to the caller's buffer.

use super::{super::write, TxStatus, tag};
use crate::base::SqlState;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The statement failed; the session goes on.
    Error,
    /// The session ends.
    Fatal,
    /// Notices only.
    Notice,
    /// Notices only.
    Warning,
}

impl Severity {
    /// PostgreSQL's untranslated word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
        }
    }
}

/// What an ErrorResponse or NoticeResponse of ours says. Strings end at their first zero byte.
#[derive(Clone, Copy, Debug)]
pub struct ErrorText<'a> {
    /// Fields `S` and `V`.
    pub severity: Severity,
    /// Field `C`.
    pub sqlstate: SqlState,
    /// Field `M`.
    pub message: &'a str,
    /// Field `D`.
    pub detail: Option<&'a str>,
    /// Field `H`.
    pub hint: Option<&'a str>,
    /// Field `R`: the function of PostgreSQL's that raises this error, where drivers go by it.
    pub routine: Option<&'a str>,
}

impl<'a> ErrorText<'a> {
    /// Without detail and hint.
    pub const fn new(severity: Severity, sqlstate: SqlState, message: &'a str) -> Self {
        Self { severity, sqlstate, message, detail: None, hint: None, routine: None }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut field = |letter: u8, value: &[u8]| {
            out.push(letter);
            write::cstr(out, value);
        };
        field(b'S', self.severity.as_str().as_bytes());
        field(b'V', self.severity.as_str().as_bytes());
        field(b'C', self.sqlstate.as_bytes());
        field(b'M', self.message.as_bytes());
        if let Some(detail) = self.detail {
            field(b'D', detail.as_bytes());
        }
        if let Some(hint) = self.hint {
            field(b'H', hint.as_bytes());
        }
        if let Some(routine) = self.routine {
            field(b'R', routine.as_bytes());
        }
        out.push(0);
    }
}

/// ErrorResponse.
pub fn error_response(out: &mut Vec<u8>, text: &ErrorText<'_>) {
    write::message(out, tag::ERROR_RESPONSE, |out| text.write(out));
}

/// NoticeResponse.
pub fn notice_response(out: &mut Vec<u8>, text: &ErrorText<'_>) {
    write::message(out, tag::NOTICE_RESPONSE, |out| text.write(out));
}

/// ReadyForQuery.
pub fn ready_for_query(out: &mut Vec<u8>, status: TxStatus) {
    write::message(out, tag::READY_FOR_QUERY, |out| out.push(status as u8));
}

/// CommandComplete.
pub fn command_complete(out: &mut Vec<u8>, command: &str) {
    write::message(out, tag::COMMAND_COMPLETE, |out| write::cstr(out, command.as_bytes()));
}

/// ParseComplete.
pub fn parse_complete(out: &mut Vec<u8>) {
    write::message(out, tag::PARSE_COMPLETE, |_| ());
}

/// BindComplete.
pub fn bind_complete(out: &mut Vec<u8>) {
    write::message(out, tag::BIND_COMPLETE, |_| ());
}

/// CloseComplete.
pub fn close_complete(out: &mut Vec<u8>) {
    write::message(out, tag::CLOSE_COMPLETE, |_| ());
}

/// NoData.
pub fn no_data(out: &mut Vec<u8>) {
    write::message(out, tag::NO_DATA, |_| ());
}

/// EmptyQueryResponse.
pub fn empty_query_response(out: &mut Vec<u8>) {
    write::message(out, tag::EMPTY_QUERY_RESPONSE, |_| ());
}

/// PortalSuspended.
pub fn portal_suspended(out: &mut Vec<u8>) {
    write::message(out, tag::PORTAL_SUSPENDED, |_| ());
}

/// ParameterDescription; at most 65535 types are written.
pub fn parameter_description(out: &mut Vec<u8>, oids: &[u32]) {
    write::message(out, tag::PARAMETER_DESCRIPTION, |out| {
        let n = write::count(out, oids.len());
        oids.iter().take(n).for_each(|oid| write::u32(out, *oid));
    });
}

/// RowDescription of columns of type `text` (oid 25), sent as text; at most 65535 are written.
pub fn row_description_text(out: &mut Vec<u8>, names: &[&str]) {
    const TEXT_OID: u32 = 25;
    write::message(out, tag::ROW_DESCRIPTION, |out| {
        let n = write::count(out, names.len());
        for name in names.iter().take(n) {
            write::cstr(out, name.as_bytes());
            write::u32(out, 0);
            out.extend_from_slice(&0i16.to_be_bytes());
            write::u32(out, TEXT_OID);
            out.extend_from_slice(&(-1i16).to_be_bytes());
            out.extend_from_slice(&(-1i32).to_be_bytes());
            out.extend_from_slice(&0i16.to_be_bytes());
        }
    });
}

/// DataRow; `None` is NULL; at most 65535 columns are written.
pub fn data_row(out: &mut Vec<u8>, columns: &[Option<&[u8]>]) {
    write::message(out, tag::DATA_ROW, |out| {
        let n = write::count(out, columns.len());
        columns.iter().take(n).for_each(|column| write::value(out, *column));
    });
}

/// ParameterStatus.
pub fn parameter_status(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    write::message(out, tag::PARAMETER_STATUS, |out| {
        write::cstr(out, name);
        write::cstr(out, value);
    });
}

/// BackendKeyData. A client of protocol 3.0 must be given a key of exactly [`super::KEY_MIN`] bytes.
pub fn backend_key_data(out: &mut Vec<u8>, pid: u32, key: &[u8]) {
    write::message(out, tag::BACKEND_KEY_DATA, |out| {
        write::u32(out, pid);
        out.extend_from_slice(key);
    });
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut Vec<u8>) {
    authentication(out, 0, b"");
}

/// AuthenticationCleartextPassword.
pub fn authentication_cleartext_password(out: &mut Vec<u8>) {
    authentication(out, 3, b"");
}

/// AuthenticationMD5Password.
pub fn authentication_md5_password(out: &mut Vec<u8>, salt: [u8; 4]) {
    authentication(out, 5, &salt);
}

/// AuthenticationSASL; mechanisms in order of preference.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    write::message(out, tag::AUTHENTICATION, |out| {
        write::u32(out, 10);
        for mechanism in mechanisms.iter().filter(|mechanism| !mechanism.is_empty()) {
            write::cstr(out, mechanism.as_bytes());
        }
        out.push(0);
    });
}

/// AuthenticationSASLContinue.
pub fn authentication_sasl_continue(out: &mut Vec<u8>, message: &[u8]) {
    authentication(out, 11, message);
}

/// AuthenticationSASLFinal.
pub fn authentication_sasl_final(out: &mut Vec<u8>, message: &[u8]) {
    authentication(out, 12, message);
}

fn authentication(out: &mut Vec<u8>, code: u32, rest: &[u8]) {
    write::message(out, tag::AUTHENTICATION, |out| {
        write::u32(out, code);
        out.extend_from_slice(rest);
    });
}

/// NegotiateProtocolVersion, before the request to authenticate. `newest` is the full code of the version we go on
/// with, as PostgreSQL sends it (196608 is 3.0, 196610 is 3.2).
pub fn negotiate_protocol_version(out: &mut Vec<u8>, newest: u32, unknown: &[String]) {
    write::message(out, tag::NEGOTIATE_PROTOCOL_VERSION, |out| {
        write::u32(out, newest);
        write::u32(out, u32::try_from(unknown.len()).unwrap_or(u32::MAX));
        for option in unknown {
            write::cstr(out, option.as_bytes());
        }
    });
}

/// CopyData.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    write::message(out, tag::COPY_DATA, |out| out.extend_from_slice(data));
}

/// CopyDone.
pub fn copy_done(out: &mut Vec<u8>) {
    write::message(out, tag::COPY_DONE, |_| ());
}
