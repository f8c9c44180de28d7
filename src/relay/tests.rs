//! The pure half against scripted server bytes, and the pump against real sockets.

mod cuts;
mod feed;
mod long;
mod pump;
#[cfg(feature = "tls")]
mod tls;
mod told;

mod words;
