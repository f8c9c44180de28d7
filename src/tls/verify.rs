//! Whether a server's certificate is believed.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{
        WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
    },
    pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime},
    server::ParsedCertificate,
};

use super::certificate::{holds_at, is_named_in_subject, is_old, public_key};

/// Which names a certificate must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// Whatever they are.
    Any,
    /// The host that was dialled must be among them.
    Dialled,
}

/// Looks at certificates.
#[derive(Debug)]
pub(super) struct Judge {
    trust: Option<Trust>,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
struct Trust {
    roots: RootCertStore,
    /// Believed by themselves: a self-signed server certificate that is its own authority, which OpenSSL takes and webpki, for
    /// it claims to be an authority or misses an extension, does not.
    listed: Vec<CertificateDer<'static>>,
    names: Names,
}

impl Judge {
    /// Believes whoever owns the certificate it shows: no identity, but a login can be bound to it.
    pub(super) fn of_nothing(algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { trust: None, algorithms }
    }

    /// Believes what these authorities have signed.
    pub(super) fn new(
        roots: RootCertStore,
        listed: Vec<CertificateDer<'static>>,
        names: Names,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Self {
        Self { trust: Some(Trust { roots, listed, names }), algorithms }
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trust) = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let parsed = ParsedCertificate::try_from(end_entity);
        if !trust.listed.contains(end_entity) {
            let (roots, algorithms) = (&trust.roots, self.algorithms.all);
            verify_server_cert_signed_by_trust_anchor(
                parsed.as_ref().map_err(|error| explained(error, end_entity))?,
                roots,
                intermediates,
                now,
                algorithms,
            )?;
        } else if !holds_at(end_entity, std::time::Duration::from_secs(now.as_secs())) {
            return Err(CertificateError::Expired.into());
        }
        if trust.names == Names::Dialled {
            let named = parsed.and_then(|parsed| verify_server_name(&parsed, server_name));
            named.or_else(
                |why| if is_named_in_subject(end_entity, &server_name.to_str()) { Ok(()) } else { Err(why) },
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if ParsedCertificate::try_from(cert).is_err()
            && let Some(key) = public_key(cert)
        {
            // webpki reads no certificate of X.509 version 1, which is what openssl's commands in PostgreSQL's documentation
            // make. Where nobody asks who signed it, its key is all that counts.
            let key = SubjectPublicKeyInfoDer::from(key);
            return verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms);
        }
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// webpki's own word for it would not tell anybody what to do.
fn explained(error: &Error, certificate: &[u8]) -> Error {
    if is_old(certificate) { CertificateError::Other(OtherError(Arc::new(Old))).into() } else { error.clone() }
}

/// Not an X.509 version 3 certificate.
#[derive(thiserror::Error)]
#[error(
    "the certificate is of X.509 version 1, and only version 3 can be verified: sign it anew with an extension such as subjectAltName"
)]
struct Old;

/// What rustls prints.
impl fmt::Debug for Old {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
