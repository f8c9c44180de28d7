//! Bytes ⇄ messages of the PostgreSQL protocol, versions 3.0 and 3.2.
//!
//! Synchronous, without I/O, every length checked against a cap before anything is made of it. Views borrow the
//! caller's buffer and copy nothing; encoders append to the caller's buffer. "Needs more bytes" is `Ok(None)`.
//! This room must never wait, never log, and never panic on anything a peer can send.

pub mod backend;
mod error;
mod frame;
pub mod frontend;
mod head;
pub mod md5;
mod reader;
pub mod scram;
pub mod startup;
mod write;

pub use error::WireError;
pub use frame::{Frame, Frames};
pub use head::{HEAD_BYTES, Head, next_head};
pub use reader::Oids;
