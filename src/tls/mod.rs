//! Certificates, keys, and whom to believe: PEM in, settings for rustls out.
//!
//! Towards clients we show a certificate and may ask for one; towards servers we look at theirs. This room knows neither
//! sockets nor files, and not who logs in: `config` hands it what the files hold, `net` moves the bytes.

#[cfg(not(feature = "tls"))]
mod absent;
mod certificate;
mod clients;
mod pem;
#[cfg(feature = "tls")]
mod ring;
mod servers;
mod verify;

#[cfg(not(feature = "tls"))]
use absent as algorithms;
#[cfg(feature = "tls")]
use ring as algorithms;

use algorithms::provider;
pub use certificate::{common_name, server_end_point};
pub use clients::{ClientMode, TowardsClients};
pub use pem::{Fault, Material};
pub use servers::{ServerMode, TowardsServers};

/// The name of PostgreSQL's protocol in ALPN (registered with IANA).
pub const ALPN: &[u8] = b"postgresql";

/// Whether this build can do any of it; the configuration refuses to ask for it otherwise.
pub fn is_built() -> bool {
    provider().is_some()
}

/// What there is to say where it is asked for in vain.
pub const NOT_BUILT: &str = "this pgsluice was built without TLS (feature `tls`, which needs a C compiler)";

#[cfg(test)]
#[cfg(feature = "tls")]
pub(crate) mod tests;
