//! SQLSTATE codes that pgsluice itself sends or reacts to (PostgreSQL documentation, appendix A).

use std::fmt;

/// Five characters that tell drivers what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState { $($(#[$doc])* pub const $name: SqlState = SqlState(*$code);)* }
    };
}

codes! {
    /// successful_completion
    SUCCESS = b"00000";
    /// protocol_violation
    PROTOCOL_VIOLATION = b"08P01";
    /// connection_failure: a server was lost while a statement ran and nothing can have been changed
    CONNECTION_FAILURE = b"08006";
    /// transaction_resolution_unknown: a server was lost and the outcome of a write is not known
    OUTCOME_UNKNOWN = b"08007";
    /// feature_not_supported
    FEATURE_NOT_SUPPORTED = b"0A000";
    /// invalid_parameter_value
    INVALID_PARAMETER_VALUE = b"22023";
    /// active_sql_transaction
    ACTIVE_TRANSACTION = b"25001";
    /// read_only_sql_transaction: what a standby answers to a write
    READ_ONLY_TRANSACTION = b"25006";
    /// no_active_sql_transaction
    NO_ACTIVE_TRANSACTION = b"25P01";
    /// in_failed_sql_transaction
    IN_FAILED_TRANSACTION = b"25P02";
    /// idle_in_transaction_session_timeout
    IDLE_IN_TRANSACTION_TIMEOUT = b"25P03";
    /// invalid_sql_statement_name
    UNDEFINED_STATEMENT = b"26000";
    /// invalid_authorization_specification
    INVALID_AUTHORIZATION = b"28000";
    /// invalid_password
    INVALID_PASSWORD = b"28P01";
    /// invalid_cursor_name
    UNDEFINED_CURSOR = b"34000";
    /// invalid_catalog_name: no such database
    UNDEFINED_DATABASE = b"3D000";
    /// duplicate_cursor
    DUPLICATE_CURSOR = b"42P03";
    /// duplicate_prepared_statement
    DUPLICATE_STATEMENT = b"42P05";
    /// insufficient_privilege
    INSUFFICIENT_PRIVILEGE = b"42501";
    /// too_many_connections
    TOO_MANY_CONNECTIONS = b"53300";
    /// configuration_limit_exceeded
    LIMIT_EXCEEDED = b"53400";
    /// program_limit_exceeded
    PROGRAM_LIMIT_EXCEEDED = b"54000";
    /// object_not_in_prerequisite_state: some functions answer this during recovery
    NOT_IN_PREREQUISITE_STATE = b"55000";
    /// query_canceled
    QUERY_CANCELED = b"57014";
    /// admin_shutdown
    ADMIN_SHUTDOWN = b"57P01";
    /// crash_shutdown
    CRASH_SHUTDOWN = b"57P02";
    /// cannot_connect_now
    CANNOT_CONNECT_NOW = b"57P03";
    /// idle_session_timeout
    IDLE_SESSION_TIMEOUT = b"57P05";
    /// internal_error
    INTERNAL_ERROR = b"XX000";
}

impl SqlState {
    /// Reads a code as it stands in field `C` of an ErrorResponse; `None` if it is not five ASCII characters.
    pub fn from_bytes(code: &[u8]) -> Option<Self> {
        let code: [u8; 5] = code.try_into().ok()?;
        code.iter().all(u8::is_ascii_alphanumeric).then_some(Self(code))
    }

    /// The code's five ASCII bytes.
    pub fn as_bytes(&self) -> &[u8; 5] {
        &self.0
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
