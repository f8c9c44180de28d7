//! Towards clients we are the server: our certificate, and what we ask of theirs.

use std::{fmt, sync::Arc};

use rustls::{
    ServerConfig,
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};

use super::{
    ALPN, Fault, Material, NOT_BUILT,
    certificate::{public_key, server_end_point},
    pem, provider,
};

/// `tls.client.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMode {
    /// SSLRequest is answered N.
    Disable,
    /// Clients may use TLS.
    Prefer,
    /// Clients over TCP must use TLS.
    Require,
    /// They must show a certificate that an authority of ours has signed, too.
    Verify,
}

/// What clients that use TLS are met with. Never [`ClientMode::Disable`].
pub struct TowardsClients {
    /// What is asked of them.
    pub mode: ClientMode,
    settings: Arc<ServerConfig>,
    end_point: Option<Vec<u8>>,
    asks: bool,
}

impl TowardsClients {
    /// From PEM texts: our certificate with its intermediate ones, its key, and the authorities of client certificates.
    ///
    /// # Errors
    /// The first file that cannot be used, or a key that belongs to another certificate.
    pub fn new(mode: ClientMode, certificate: &[u8], key: &[u8], authorities: Option<&[u8]>) -> Result<Self, Fault> {
        let provider = provider().ok_or_else(|| Fault::new(Material::Certificate, NOT_BUILT))?;
        let chain = pem::certificates(certificate, Material::Certificate)?;
        let own = chain.first().map(|certificate| certificate.to_vec()).unwrap_or_default();
        let key = provider.key_provider.load_private_key(pem::key(key)?).map_err(|_| {
            Fault::new(
                Material::Key,
                "holds a key that is not supported; RSA from 2048 bits, ECDSA P-256, P-384 and Ed25519 are",
            )
        })?;
        // Not `CertifiedKey::from_der`: its comparison refuses certificates of X.509 version 1, which PostgreSQL serves.
        let Some(public) = public_key(&own) else {
            return Err(Fault::new(Material::Certificate, "holds a certificate that cannot be read"));
        };
        if key.public_key().is_some_and(|of_key| *of_key != *public) {
            return Err(Fault::new(Material::Key, "does not belong to the certificate"));
        }
        let verifier: Arc<dyn ClientCertVerifier> = match authorities {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(authorities) => {
                let roots = pem::roots(&pem::certificates(authorities, Material::Authorities)?)?;
                // Who shows none gets through the handshake and is told so in words at login, as PostgreSQL does.
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| Fault::new(Material::Authorities, format!("cannot be used: {error}")))?
            }
        };
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::new(Material::Certificate, format!("cannot be used: {error}")))?;
        let resolver = SingleCertAndKey::from(CertifiedKey::new(chain, key));
        let mut settings = builder.with_client_cert_verifier(verifier).with_cert_resolver(Arc::new(resolver));
        settings.alpn_protocols = vec![ALPN.to_vec()];
        // As PostgreSQL: no session is resumed. A resumed one would skip the client's certificate after a reload.
        settings.session_storage = Arc::new(NoServerSessionStorage {});
        settings.send_tls13_tickets = 0;
        Ok(Self { mode, settings: Arc::new(settings), end_point: server_end_point(&own), asks: authorities.is_some() })
    }

    /// Are clients asked for a certificate?
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// For a new connection.
    pub fn settings(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.settings)
    }

    /// What a client's login can be bound to: `tls-server-end-point` of our certificate. `None` where RFC 5929 defines none.
    pub fn end_point(&self) -> Option<&[u8]> {
        self.end_point.as_deref()
    }
}

/// The key stays out of logs.
impl fmt::Debug for TowardsClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowardsClients").field("mode", &self.mode).finish_non_exhaustive()
    }
}
