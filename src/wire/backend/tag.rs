//! Tags of messages a backend sends.

/// Authentication…
pub const AUTHENTICATION: u8 = b'R';
/// BackendKeyData
pub const BACKEND_KEY_DATA: u8 = b'K';
/// BindComplete
pub const BIND_COMPLETE: u8 = b'2';
/// CloseComplete
pub const CLOSE_COMPLETE: u8 = b'3';
/// CommandComplete
pub const COMMAND_COMPLETE: u8 = b'C';
/// CopyBothResponse
pub const COPY_BOTH_RESPONSE: u8 = b'W';
/// CopyData
pub const COPY_DATA: u8 = b'd';
/// CopyDone
pub const COPY_DONE: u8 = b'c';
/// CopyInResponse
pub const COPY_IN_RESPONSE: u8 = b'G';
/// CopyOutResponse
pub const COPY_OUT_RESPONSE: u8 = b'H';
/// DataRow
pub const DATA_ROW: u8 = b'D';
/// EmptyQueryResponse
pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
/// ErrorResponse
pub const ERROR_RESPONSE: u8 = b'E';
/// FunctionCallResponse
pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
/// NegotiateProtocolVersion
pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
/// NoData
pub const NO_DATA: u8 = b'n';
/// NoticeResponse
pub const NOTICE_RESPONSE: u8 = b'N';
/// NotificationResponse
pub const NOTIFICATION_RESPONSE: u8 = b'A';
/// ParameterDescription
pub const PARAMETER_DESCRIPTION: u8 = b't';
/// ParameterStatus
pub const PARAMETER_STATUS: u8 = b'S';
/// ParseComplete
pub const PARSE_COMPLETE: u8 = b'1';
/// PortalSuspended
pub const PORTAL_SUSPENDED: u8 = b's';
/// ReadyForQuery
pub const READY_FOR_QUERY: u8 = b'Z';
/// RowDescription
pub const ROW_DESCRIPTION: u8 = b'T';
