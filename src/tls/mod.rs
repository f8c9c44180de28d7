//! Certificates, keys, and whom to believe: PEM in, settings for rustls out.
//!
//! Towards clients we show a certificate and may ask for one; towards servers we look at theirs. This room knows neither
//! sockets nor files, and not who logs in: `config` hands it what the files hold, `net` moves the bytes.

mod certificate;
mod clients;
mod pem;
mod servers;
mod verify;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use certificate::{common_name, server_end_point};
pub use clients::{ClientMode, TowardsClients};
pub use pem::{Fault, Material};
pub use servers::{ServerMode, TowardsServers};

/// The name of PostgreSQL's protocol in ALPN (registered with IANA).
pub const ALPN: &[u8] = b"postgresql";

/// The only place that chooses the implementation of the algorithms; nothing is installed for the whole process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
pub(crate) mod tests;
