//! What stands in PEM files.

use rustls::{
    RootCertStore,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error, PemObject},
    },
};

/// Which file is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Material {
    /// Our certificate, followed by the intermediate ones.
    Certificate,
    /// The key that belongs to it.
    Key,
    /// Authorities.
    Authorities,
}

/// A file whose contents cannot be used. The contents are not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Which.
    pub of: Material,
    /// Why, to follow the file's name.
    pub message: String,
}

impl Fault {
    pub(super) fn new(of: Material, message: impl Into<String>) -> Self {
        Self { of, message: message.into() }
    }
}

/// All certificates in a file; at least one.
pub(super) fn certificates(pem: &[u8], of: Material) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|e| broken(of, &e))?;
    if found.is_empty() {
        return Err(Fault::new(of, "holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)"));
    }
    Ok(found)
}

/// The first private key in a file.
pub(super) fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Fault> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        Error::NoItemsFound => {
            Fault::new(Material::Key, "holds no private key in PEM form; one with a passphrase is not supported")
        }
        other => broken(Material::Key, &other),
    })
}

/// The certificates in a file as ends of chains.
pub(super) fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|error| {
            Fault::new(Material::Authorities, format!("holds a certificate that cannot be read: {error}"))
        })?;
    }
    Ok(roots)
}

fn broken(of: Material, error: &Error) -> Fault {
    // Debug-like details of the parser may quote the text; a key's must not be.
    let why = match error {
        Error::MissingSectionEnd { .. } => "a section has no end",
        Error::IllegalSectionStart { .. } => "a section begins wrongly",
        Error::Base64Decode(_) => "the base64 text is broken",
        _ => "it cannot be read",
    };
    Fault::new(of, format!("is not PEM: {why}"))
}
