//! Tags of messages a frontend sends.

/// Bind
pub const BIND: u8 = b'B';
/// Close
pub const CLOSE: u8 = b'C';
/// CopyData
pub const COPY_DATA: u8 = b'd';
/// CopyDone
pub const COPY_DONE: u8 = b'c';
/// CopyFail
pub const COPY_FAIL: u8 = b'f';
/// Describe
pub const DESCRIBE: u8 = b'D';
/// Execute
pub const EXECUTE: u8 = b'E';
/// Flush
pub const FLUSH: u8 = b'H';
/// FunctionCall
pub const FUNCTION_CALL: u8 = b'F';
/// Parse
pub const PARSE: u8 = b'P';
/// PasswordMessage, SASLInitialResponse, SASLResponse, GSSResponse: which one, the login's state says
pub const PASSWORD: u8 = b'p';
/// Query
pub const QUERY: u8 = b'Q';
/// Sync
pub const SYNC: u8 = b'S';
/// Terminate
pub const TERMINATE: u8 = b'X';

/// Whether a frontend may send this tag at all.
pub const fn is_known(tag: u8) -> bool {
    matches!(
        tag,
        BIND | CLOSE
            | COPY_DATA
            | COPY_DONE
            | COPY_FAIL
            | DESCRIBE
            | EXECUTE
            | FLUSH
            | FUNCTION_CALL
            | PARSE
            | PASSWORD
            | QUERY
            | SYNC
            | TERMINATE
    )
}
