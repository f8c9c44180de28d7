//! Messages we send to servers, appended to the caller's buffer.

use super::{
    super::{
        Head, WireError,
        startup::{CANCEL_REQUEST, GSSENC_REQUEST, SSL_REQUEST},
        write,
    },
    BindPrefix, Parse, What, tag,
};

/// Query. The text ends at its first zero byte, if it has one.
pub fn query(out: &mut Vec<u8>, text: &[u8]) {
    write::message(out, tag::QUERY, |out| write::cstr(out, text));
}

/// Parse; at most 65535 types are written.
pub fn parse(out: &mut Vec<u8>, name: &[u8], text: &[u8], oids: &[u32]) {
    write::message(out, tag::PARSE, |out| {
        write::cstr(out, name);
        write::cstr(out, text);
        let n = write::count(out, oids.len());
        oids.iter().take(n).for_each(|oid| write::u32(out, *oid));
    });
}

/// A client's Parse under another statement name.
pub fn parse_renamed(out: &mut Vec<u8>, original: &Parse<'_>, name: &[u8]) {
    write::message(out, tag::PARSE, |out| {
        write::cstr(out, name);
        write::cstr(out, original.text);
        write::count(out, original.oids.count());
        out.extend_from_slice(original.oids.raw());
    });
}

/// The front of a client's Bind with another statement name: head, portal, statement. The caller sends the original
/// body from the returned offset on, unread, as it arrives.
///
/// # Errors
/// The new name holds a zero byte, the head is shorter than its own names, or the new message would be longer than a length word can say.
pub fn bind_with_names(
    out: &mut Vec<u8>,
    head: Head,
    prefix: &BindPrefix<'_>,
    statement: &[u8],
) -> Result<usize, WireError> {
    if memchr::memchr(0, statement).is_some() {
        return Err(WireError::Trailing);
    }
    let tail = head.body().checked_sub(prefix.rest).ok_or(WireError::Truncated)?;
    let len = 4 + prefix.portal.len() + 1 + statement.len() + 1 + tail;
    let len = u32::try_from(len).map_err(|_| WireError::BadLength { tag: head.tag, len: u32::MAX, cap: u32::MAX })?;
    out.push(tag::BIND);
    write::u32(out, len);
    for name in [prefix.portal, statement] {
        out.extend_from_slice(name);
        out.push(0);
    }
    Ok(prefix.rest)
}

/// Bind of the unnamed statement to the unnamed portal, with all parameters and results as text; at most 65535 values are written.
pub fn bind_texts(out: &mut Vec<u8>, values: &[&[u8]]) {
    write::message(out, tag::BIND, |out| {
        out.extend_from_slice(&[0, 0, 0, 0]);
        let n = write::count(out, values.len());
        values.iter().take(n).for_each(|value| write::value(out, Some(value)));
        write::count(out, 0);
    });
}

/// Describe.
pub fn describe(out: &mut Vec<u8>, what: What, name: &[u8]) {
    write::message(out, tag::DESCRIBE, |out| {
        out.push(what as u8);
        write::cstr(out, name);
    });
}

/// Close.
pub fn close(out: &mut Vec<u8>, what: What, name: &[u8]) {
    write::message(out, tag::CLOSE, |out| {
        out.push(what as u8);
        write::cstr(out, name);
    });
}

/// Execute; `max_rows` 0: all.
pub fn execute(out: &mut Vec<u8>, portal: &[u8], max_rows: i32) {
    write::message(out, tag::EXECUTE, |out| {
        write::cstr(out, portal);
        out.extend_from_slice(&max_rows.to_be_bytes());
    });
}

/// Sync.
pub fn sync(out: &mut Vec<u8>) {
    write::message(out, tag::SYNC, |_| ());
}

/// Flush.
pub fn flush(out: &mut Vec<u8>) {
    write::message(out, tag::FLUSH, |_| ());
}

/// Terminate.
pub fn terminate(out: &mut Vec<u8>) {
    write::message(out, tag::TERMINATE, |_| ());
}

/// CopyFail.
pub fn copy_fail(out: &mut Vec<u8>, reason: &str) {
    write::message(out, tag::COPY_FAIL, |out| write::cstr(out, reason.as_bytes()));
}

/// PasswordMessage: clear text, or an md5 answer.
pub fn password(out: &mut Vec<u8>, password: &[u8]) {
    write::message(out, tag::PASSWORD, |out| write::cstr(out, password));
}

/// SASLInitialResponse.
pub fn sasl_initial(out: &mut Vec<u8>, mechanism: &str, response: &[u8]) {
    write::message(out, tag::PASSWORD, |out| {
        write::cstr(out, mechanism.as_bytes());
        write::value(out, Some(response));
    });
}

/// SASLResponse.
pub fn sasl_response(out: &mut Vec<u8>, response: &[u8]) {
    write::message(out, tag::PASSWORD, |out| out.extend_from_slice(response));
}

/// CancelRequest, sent alone on a connection of its own. `key` is what BackendKeyData gave.
pub fn cancel_request(out: &mut Vec<u8>, pid: u32, key: &[u8]) {
    write::untagged(out, |out| {
        write::u32(out, CANCEL_REQUEST);
        write::u32(out, pid);
        out.extend_from_slice(key);
    });
}

/// SSLRequest.
pub fn ssl_request(out: &mut Vec<u8>) {
    write::untagged(out, |out| write::u32(out, SSL_REQUEST));
}

/// GSSENCRequest.
pub fn gssenc_request(out: &mut Vec<u8>) {
    write::untagged(out, |out| write::u32(out, GSSENC_REQUEST));
}

/// StartupMessage; `protocol` is the full code (196608 is 3.0). A pair with an empty name is left out: an empty name
/// ends the list.
pub fn startup(out: &mut Vec<u8>, protocol: u32, parameters: &[(&str, &str)]) {
    write::untagged(out, |out| {
        write::u32(out, protocol);
        for (name, value) in parameters.iter().filter(|(name, _)| !name.is_empty()) {
            write::cstr(out, name.as_bytes());
            write::cstr(out, value.as_bytes());
        }
        out.push(0);
    });
}
