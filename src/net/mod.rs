//! Sockets. The only room that names `TcpStream`, `UnixStream` or (later) TLS.
//!
//! Reads and writes are polled and never buffer: whoever owns the bytes decides when to read on. Nothing here
//! knows PostgreSQL's protocol.

mod addr;
mod stream;

pub use addr::{Address, DialError};
pub use stream::{Parked, Peer, Stream};
