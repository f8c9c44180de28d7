//! What clients say: lazy views over message bodies, and encoders for what we say to servers.
//!
//! A view checks the whole body (PostgreSQL's `pq_getmsgend`), borrows it, and copies nothing. Names and texts are
//! bytes: their encoding is the session's affair.

mod encode;
pub mod tag;

pub use encode::{
    bind_texts, bind_with_names, cancel_request, close, copy_fail, describe, execute, flush, gssenc_request, parse,
    parse_renamed, password, query, sasl_initial, sasl_response, ssl_request, startup, sync, terminate,
};

use super::{
    WireError,
    reader::{Oids, Reader},
};

/// Longest statement or portal name in a Bind, bytes. PostgreSQL sets no limit of its own.
pub const NAME_CAP: usize = 64 * 1024;

/// Simple query, `Q`.
#[derive(Clone, Copy, Debug)]
pub struct Query;

impl Query {
    /// The text without its terminating zero.
    ///
    /// # Errors
    /// No zero at the end, or one inside the text.
    pub fn parse(body: &[u8]) -> Result<&[u8], WireError> {
        only_string(body)
    }
}

/// Parse, `P`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Statement name; empty: the unnamed one.
    pub name: &'a [u8],
    /// The text.
    pub text: &'a [u8],
    /// Parameter types the client prescribes.
    pub oids: Oids<'a>,
}

impl<'a> Parse<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Truncated, unterminated or left-over bytes.
    #[expect(
        clippy::self_named_constructors,
        reason = "every view is made by `parse`; the message is named by PostgreSQL"
    )]
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let (name, text) = (r.cstr()?, r.cstr()?);
        let count = r.u16()?;
        let oids = Oids::new(r.array_of(count, 4)?);
        r.end()?;
        Ok(Self { name, text, oids })
    }
}

/// The two names at the front of a Bind, readable before the whole message is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindPrefix<'a> {
    /// Portal name; empty: the unnamed one.
    pub portal: &'a [u8],
    /// Statement name; empty: the unnamed one.
    pub statement: &'a [u8],
    /// Where the formats and values start, bytes from the start of the body.
    pub rest: usize,
}

impl<'a> BindPrefix<'a> {
    /// Reads the names from what has arrived of a body (never more than the body). `None`: not both are there yet;
    /// if the body was whole, [`Bind::parse`] says what is wrong with it.
    ///
    /// # Errors
    /// [`WireError::LongName`] beyond [`NAME_CAP`].
    pub fn parse(partial: &'a [u8]) -> Result<Option<Self>, WireError> {
        let Some(portal) = name_in(partial)? else { return Ok(None) };
        let start = portal.len() + 1;
        let Some(statement) = name_in(partial.get(start..).unwrap_or_default())? else { return Ok(None) };
        Ok(Some(Self { portal, statement, rest: start + statement.len() + 1 }))
    }
}

/// A zero-terminated name at the front, if it is whole.
fn name_in(bytes: &[u8]) -> Result<Option<&[u8]>, WireError> {
    let window = bytes.get(..=NAME_CAP).unwrap_or(bytes);
    match memchr::memchr(0, window) {
        Some(end) => Ok(window.get(..end)),
        None if window.len() > NAME_CAP => Err(WireError::LongName { cap: NAME_CAP }),
        None => Ok(None),
    }
}

/// Bind, `B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// Portal name; empty: the unnamed one.
    pub portal: &'a [u8],
    /// Statement name; empty: the unnamed one.
    pub statement: &'a [u8],
    /// Parameter format codes, two bytes each: none, one for all, or one each.
    pub formats: &'a [u8],
    /// Number of parameters.
    pub count: u16,
    /// Result format codes, two bytes each.
    pub result_formats: &'a [u8],
    values: &'a [u8],
}

impl<'a> Bind<'a> {
    /// Reads and checks a whole body, every parameter included.
    ///
    /// # Errors
    /// Truncated, unterminated or left-over bytes; a count of formats that fits nothing.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let (portal, statement) = (r.cstr()?, r.cstr()?);
        let format_count = r.u16()?;
        let formats = r.array_of(format_count, 2)?;
        let count = r.u16()?;
        if format_count > 1 && format_count != count {
            return Err(WireError::FormatCount { formats: format_count, parameters: count });
        }
        let values = r.rest();
        for _ in 0..count {
            r.value()?;
        }
        let result_count = r.u16()?;
        let result_formats = r.array_of(result_count, 2)?;
        r.end()?;
        Ok(Self { portal, statement, formats, count, result_formats, values })
    }

    /// The parameters in order; `None` is NULL.
    pub fn values(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut r = Reader::new(self.values);
        (0..self.count).map_while(move |_| r.value().ok())
    }
}

/// What Describe and Close are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// A prepared statement, `S`.
    Statement = b'S',
    /// A portal, `P`.
    Portal = b'P',
}

/// Describe, `D`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Describe<'a> {
    /// Statement or portal.
    pub what: What,
    /// Its name; empty: the unnamed one.
    pub name: &'a [u8],
}

impl<'a> Describe<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Neither `S` nor `P`; truncated, unterminated or left-over bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let (what, name) = what_and_name(body, "DESCRIBE message subtype")?;
        Ok(Self { what, name })
    }
}

/// Close, `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// Statement or portal.
    pub what: What,
    /// Its name; empty: the unnamed one.
    pub name: &'a [u8],
}

impl<'a> Close<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Neither `S` nor `P`; truncated, unterminated or left-over bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let (what, name) = what_and_name(body, "CLOSE message subtype")?;
        Ok(Self { what, name })
    }
}

fn what_and_name<'a>(body: &'a [u8], field: &'static str) -> Result<(What, &'a [u8]), WireError> {
    let mut r = Reader::new(body);
    let what = match r.u8()? {
        b'S' => What::Statement,
        b'P' => What::Portal,
        other => return Err(WireError::BadValue { what: field, value: other.into() }),
    };
    let name = r.cstr()?;
    r.end()?;
    Ok((what, name))
}

/// Execute, `E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// Portal name; empty: the unnamed one.
    pub portal: &'a [u8],
    /// Most rows to return; 0 or less: all.
    pub max_rows: i32,
}

impl<'a> Execute<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Truncated, unterminated or left-over bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let (portal, max_rows) = (r.cstr()?, r.i32()?);
        r.end()?;
        Ok(Self { portal, max_rows })
    }
}

/// FunctionCall, `F`: the fast-path interface of libpq's large objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionCall {
    /// pg_proc's oid.
    pub function: u32,
    /// Number of arguments.
    pub count: u16,
}

impl FunctionCall {
    /// Reads and checks a whole body.
    ///
    /// # Errors
    /// Truncated or left-over bytes.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let function = r.u32()?;
        let formats = r.u16()?;
        r.array_of(formats, 2)?;
        let count = r.u16()?;
        for _ in 0..count {
            r.value()?;
        }
        r.i16()?;
        r.end()?;
        Ok(Self { function, count })
    }
}

/// CopyFail, `f`.
#[derive(Clone, Copy, Debug)]
pub struct CopyFail;

impl CopyFail {
    /// The reason the client gives.
    ///
    /// # Errors
    /// Unterminated, or a zero inside.
    pub fn parse(body: &[u8]) -> Result<&[u8], WireError> {
        only_string(body)
    }
}

/// PasswordMessage, `p` as the answer to a request for a clear or md5 password.
#[derive(Clone, Copy, Debug)]
pub struct Password;

impl Password {
    /// The password or md5 answer; never log it.
    ///
    /// # Errors
    /// Unterminated, or a zero inside.
    pub fn parse(body: &[u8]) -> Result<&[u8], WireError> {
        only_string(body)
    }
}

/// SASLInitialResponse, `p` as the answer to AuthenticationSASL. (SASLResponse, the next `p`, is its body: no view.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslInitial<'a> {
    /// The mechanism the client chose.
    pub mechanism: &'a [u8],
    /// Its first message, if it sent one.
    pub response: Option<&'a [u8]>,
}

impl<'a> SaslInitial<'a> {
    /// Reads a whole body.
    ///
    /// # Errors
    /// Truncated, unterminated or left-over bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(body);
        let (mechanism, response) = (r.cstr()?, r.value()?);
        r.end()?;
        Ok(Self { mechanism, response })
    }
}

fn only_string(body: &[u8]) -> Result<&[u8], WireError> {
    let mut r = Reader::new(body);
    let text = r.cstr()?;
    r.end()?;
    Ok(text)
}

#[cfg(test)]
mod tests;
