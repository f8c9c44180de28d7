//! Sockets and the TLS on them. The only room that names `TcpStream` and `UnixStream`.
//!
//! Reads and writes are polled and never buffer in the clear: whoever owns the bytes decides when to read on. Nothing here
//! knows PostgreSQL's protocol but for the one question that opens TLS to a server.

mod addr;
mod secure;
mod stream;

pub use addr::{Address, DialError};
pub use secure::{ParkedSecure, Secure};
pub use stream::{Parked, Peer, Stream};

#[cfg(test)]
#[cfg(feature = "tls")]
pub(crate) mod tests;
