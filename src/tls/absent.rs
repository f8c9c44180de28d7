//! No algorithms: a build without a C compiler. TLS is refused when the configuration is read.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// None.
pub(super) fn provider() -> Option<Arc<CryptoProvider>> {
    None
}
