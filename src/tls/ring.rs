//! The algorithms, by ring: in C and assembly.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The only place that chooses their implementation; nothing is installed for the whole process.
pub(super) fn provider() -> Option<Arc<CryptoProvider>> {
    Some(Arc::new(rustls::crypto::ring::default_provider()))
}
