//! Whose fault an error is, and what the client may read of it.

use std::borrow::Cow;

use super::SqlState;

/// Whose fault an error is. It decides the log level: a client's mistake is not our operator's alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The client broke the protocol, left, or asked for what it may not have.
    Client,
    /// A server refused, vanished or answered nonsense.
    Server,
    /// The operator's configuration does not hold.
    Operator,
    /// pgsluice itself: a limit was reached or an invariant broke.
    Us,
}

/// An error that can be told to a client. Implemented per error type, never for a catch-all:
/// what a client may read is a decision, not a conversion.
pub trait Report {
    /// Whose fault it is.
    fn blame(&self) -> Blame;
    /// The SQLSTATE of `interface.md`'s table that the client gets.
    fn sqlstate(&self) -> SqlState;
    /// The primary message. Never holds another client's data, a password, or a node's address.
    fn to_client(&self) -> Cow<'static, str>;
}
