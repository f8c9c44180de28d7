//! Towards servers we are the client: whether to ask for TLS, and whom to believe.

use std::{fmt, sync::Arc};

use rustls::{ClientConfig, client::Resumption};

use super::{
    ALPN, Fault, Material, NOT_BUILT, pem, provider,
    verify::{Judge, Names},
};

/// `tls.server.mode`, in libpq's words and with libpq's meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerMode {
    /// Never.
    #[default]
    Disable,
    /// If the server has it; nothing is verified.
    Prefer,
    /// Always. As in libpq, authorities make it [`ServerMode::VerifyCa`].
    Require,
    /// The certificate must be signed by an authority of ours.
    VerifyCa,
    /// And it must be for the host that was dialled.
    VerifyFull,
}

/// How servers are reached. Cloning is cheap.
#[derive(Clone, Default)]
pub struct TowardsServers {
    mode: ServerMode,
    /// As the file holds them: two settings are equal if these and the mode are.
    authorities: Option<Arc<[u8]>>,
    settings: Option<Arc<ClientConfig>>,
}

impl TowardsServers {
    /// From the PEM text of the authorities; without one, [`ServerMode::VerifyFull`] believes Mozilla's.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub fn new(mode: ServerMode, authorities: Option<&[u8]>) -> Result<Self, Fault> {
        let names = match (mode, authorities) {
            (ServerMode::Disable, _) => return Ok(Self::default()),
            (ServerMode::Prefer, _) | (ServerMode::Require, None) => None,
            (ServerMode::Require | ServerMode::VerifyCa, _) => Some(Names::Any),
            (ServerMode::VerifyFull, _) => Some(Names::Dialled),
        };
        let provider = provider().ok_or_else(|| Fault::new(Material::Authorities, NOT_BUILT))?;
        let algorithms = provider.signature_verification_algorithms;
        let judge = match (names, authorities) {
            (None, _) => Judge::of_nothing(algorithms),
            (Some(names), Some(pem)) => {
                let certificates = pem::certificates(pem, Material::Authorities)?;
                Judge::new(pem::roots(&certificates)?, certificates, names, algorithms)
            }
            (Some(names), None) => {
                let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
                Judge::new(roots, Vec::new(), names, algorithms)
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::new(Material::Authorities, format!("cannot be used: {error}")))?;
        let mut settings = builder.dangerous().with_custom_certificate_verifier(Arc::new(judge)).with_no_client_auth();
        settings.alpn_protocols = vec![ALPN.to_vec()];
        // PostgreSQL resumes none, and a resumed session would not look at the certificate again.
        settings.resumption = Resumption::disabled();
        Ok(Self { mode, authorities: authorities.map(Arc::from), settings: Some(Arc::new(settings)) })
    }

    /// What was asked for.
    pub fn mode(&self) -> ServerMode {
        self.mode
    }

    /// For a new connection; `None`: in the clear.
    pub fn settings(&self) -> Option<Arc<ClientConfig>> {
        self.settings.clone()
    }

    /// Where libpq's `prefer` tries again if TLS, or a login over TLS, is refused: in the clear.
    pub fn fallback(&self) -> Option<Self> {
        (self.mode == ServerMode::Prefer).then(Self::default)
    }
}

impl PartialEq for TowardsServers {
    fn eq(&self, other: &Self) -> bool {
        self.mode == other.mode && self.authorities == other.authorities
    }
}

impl Eq for TowardsServers {}

impl fmt::Debug for TowardsServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowardsServers")
            .field("mode", &self.mode)
            .field("authorities", &self.authorities.as_ref().map(|pem| pem.len()))
            .finish()
    }
}
