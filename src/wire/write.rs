//! Appending messages to a buffer.

/// Appends one message: tag, a length word that is filled in afterwards, and what `body` writes.
///
/// A body beyond 4 GiB cannot be made of what this room reads (every frame has a cap); its length word would be
/// saturated and refused by any peer.
pub(super) fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    untagged(out, body);
}

/// Appends a packet without a tag, as they are before login.
pub(super) fn untagged(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(word) = out.get_mut(start..start + 4) {
        word.copy_from_slice(&len.to_be_bytes());
    }
}

/// A zero-terminated string. The protocol has no way to say a zero byte inside: the string ends there.
pub(super) fn cstr(out: &mut Vec<u8>, text: &[u8]) {
    let end = memchr::memchr(0, text).unwrap_or(text.len());
    out.extend_from_slice(text.get(..end).unwrap_or(text));
    out.push(0);
}

/// A 16-bit count of what follows; the caller writes at most that many.
pub(super) fn count(out: &mut Vec<u8>, n: usize) -> usize {
    let n = u16::try_from(n).unwrap_or(u16::MAX);
    out.extend_from_slice(&n.to_be_bytes());
    usize::from(n)
}

pub(super) fn u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// A length word and the bytes; `None` is −1.
pub(super) fn value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => u32(out, u32::MAX),
        Some(bytes) => {
            u32(out, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            out.extend_from_slice(bytes);
        }
    }
}
