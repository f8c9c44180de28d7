//! The first packet of a connection, read under a cap before anything about the client is known.
//!
//! PostgreSQL's `ProcessStartupPacket` is the model: the same caps, the same refusals, the same words.

mod error;
mod message;
mod options;

pub use error::StartupError;
pub use message::{Protocol, Replication, StartupMessage};
pub use options::split_options;

use super::{
    WireError,
    backend::{KEY_MAX, KEY_MIN},
    reader::Reader,
};

/// Largest packet before login without its length word, bytes (PostgreSQL's MAX_STARTUP_PACKET_LENGTH).
pub const MAX_STARTUP: usize = 10_000;

/// Code of CancelRequest.
pub const CANCEL_REQUEST: u32 = 80_877_102;
/// Code of SSLRequest.
pub const SSL_REQUEST: u32 = 80_877_103;
/// Code of GSSENCRequest.
pub const GSSENC_REQUEST: u32 = 80_877_104;

/// What a connection may begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// Wants TLS: answer `S` or `N`. Bytes behind an accepted request are an attack (CVE-2021-23214): whoever answers
    /// `S` must find none.
    Ssl,
    /// Wants GSSAPI encryption: answer `N`.
    Gssenc,
    /// Wants another session's statement cancelled. No answer; what follows is ignored.
    Cancel(CancelRequest),
    /// Wants to log in.
    Startup(StartupMessage),
}

/// CancelRequest.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelRequest {
    /// The pid of BackendKeyData.
    pub pid: u32,
    /// The key of BackendKeyData, 4 to 256 bytes. Compare whole and in constant time.
    pub key: Vec<u8>,
}

/// The key stays out of logs.
impl std::fmt::Debug for CancelRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelRequest").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Reads the packet at the front of `buf` and how many bytes it took. `None`: more bytes are needed, never more than
/// `4 + MAX_STARTUP` in all.
///
/// # Errors
/// See [`StartupError`]: each is fatal to the connection; for a malformed CancelRequest it is closed without a word.
pub fn next_first(buf: &[u8]) -> Result<Option<(First, usize)>, StartupError> {
    let Some(word) = buf.first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_be_bytes(*word);
    let total = len as usize;
    if !(8..=4 + MAX_STARTUP).contains(&total) {
        return Err(WireError::BadStartupLength { len }.into());
    }
    let Some(body) = buf.get(4..total) else { return Ok(None) };
    let mut r = Reader::new(body);
    let first = match r.u32()? {
        SSL_REQUEST => exact(&r, len).map(|()| First::Ssl)?,
        GSSENC_REQUEST => exact(&r, len).map(|()| First::Gssenc)?,
        CANCEL_REQUEST => {
            let pid = r.u32()?;
            let key = r.take();
            if !(KEY_MIN..=KEY_MAX).contains(&key.len()) {
                return Err(WireError::BadStartupLength { len }.into());
            }
            First::Cancel(CancelRequest { pid, key: key.to_vec() })
        }
        code => First::Startup(StartupMessage::parse(Protocol::from_code(code), r.take())?),
    };
    Ok(Some((first, total)))
}

/// Does it claim to be a CancelRequest, whatever else is wrong with it?
pub fn is_cancel(buf: &[u8]) -> bool {
    buf.get(4..8) == Some(&CANCEL_REQUEST.to_be_bytes())
}

fn exact(r: &Reader<'_>, len: u32) -> Result<(), WireError> {
    r.end().map_err(|_| WireError::BadStartupLength { len })
}

#[cfg(test)]
mod tests;
