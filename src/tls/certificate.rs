//! The few things to know of one certificate.

use std::time::Duration;

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use x509_cert::{
    Certificate, Version,
    der::{
        Any, Decode, Encode, Tag, TagNumber, Tagged,
        asn1::ObjectIdentifier,
        oid::db::{rfc4519::CN, rfc5912},
    },
    ext::pkix::{SubjectAltName, name::GeneralName},
    spki::AlgorithmIdentifierOwned,
};

/// `tls-server-end-point` (RFC 5929, 4.1): the certificate's hash by the hash function of its signature, SHA-256 in place of
/// MD5 and SHA-1. `None` where the signature has no single hash function (Ed25519), as in PostgreSQL.
pub fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = Certificate::from_der(certificate).ok()?.signature_algorithm;
    Some(match hash_of(&algorithm)? {
        Hash::Sha224 => Sha224::digest(certificate).to_vec(),
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

#[derive(Clone, Copy, Debug)]
enum Hash {
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

fn hash_of(algorithm: &AlgorithmIdentifierOwned) -> Option<Hash> {
    // ecdsa-with-SHA1 and dsa-with-SHA1 (RFC 3279).
    const ECDSA_SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.1");
    const DSA_SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10040.4.3");
    match algorithm.oid {
        rfc5912::MD_5_WITH_RSA_ENCRYPTION
        | rfc5912::SHA_1_WITH_RSA_ENCRYPTION
        | rfc5912::SHA_256_WITH_RSA_ENCRYPTION
        | ECDSA_SHA1
        | rfc5912::ECDSA_WITH_SHA_256
        | DSA_SHA1
        | rfc5912::DSA_WITH_SHA_256 => Some(Hash::Sha256),
        rfc5912::SHA_224_WITH_RSA_ENCRYPTION | rfc5912::ECDSA_WITH_SHA_224 | rfc5912::DSA_WITH_SHA_224 => {
            Some(Hash::Sha224)
        }
        rfc5912::SHA_384_WITH_RSA_ENCRYPTION | rfc5912::ECDSA_WITH_SHA_384 => Some(Hash::Sha384),
        rfc5912::SHA_512_WITH_RSA_ENCRYPTION | rfc5912::ECDSA_WITH_SHA_512 => Some(Hash::Sha512),
        rfc5912::ID_RSASSA_PSS => {
            // RSASSA-PSS-params (RFC 4055, 3.1): the hash function is the field tagged 0.
            let fields: Vec<Any> = algorithm.parameters.as_ref()?.decode_as().ok()?;
            let hash =
                fields.iter().find(|field| matches!(field.tag(), Tag::ContextSpecific { number: TagNumber::N0, .. }));
            match hash
                .map(|field| AlgorithmIdentifierOwned::from_der(field.value()))
                .transpose()
                .ok()?
                .map(|hash| hash.oid)
            {
                // Absent means SHA-1.
                None | Some(rfc5912::ID_SHA_1 | rfc5912::ID_SHA_256) => Some(Hash::Sha256),
                Some(rfc5912::ID_SHA_224) => Some(Hash::Sha224),
                Some(rfc5912::ID_SHA_384) => Some(Hash::Sha384),
                Some(rfc5912::ID_SHA_512) => Some(Hash::Sha512),
                Some(_) => None,
            }
        }
        _ => None,
    }
}

/// The subject's first common name, as PostgreSQL's `be_tls_init` takes it; `None` without one, or with a zero byte in it.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    name_in(&Certificate::from_der(certificate).ok()?)
}

fn name_in(certificate: &Certificate) -> Option<String> {
    let parts = certificate.tbs_certificate.subject.0.iter().flat_map(|part| part.0.iter());
    let value = &parts.into_iter().find(|attribute| attribute.oid == CN)?.value;
    let readable = matches!(value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::TeletexString);
    let text = std::str::from_utf8(value.value()).ok().filter(|text| !text.contains('\0'));
    text.filter(|_| readable).map(str::to_owned)
}

/// SubjectPublicKeyInfo in DER.
pub(super) fn public_key(certificate: &[u8]) -> Option<Vec<u8>> {
    Certificate::from_der(certificate).ok()?.tbs_certificate.subject_public_key_info.to_der().ok()
}

/// Whether it is older than X.509 version 3.
pub(super) fn is_old(certificate: &[u8]) -> bool {
    Certificate::from_der(certificate).is_ok_and(|certificate| certificate.tbs_certificate.version != Version::V3)
}

/// Whether the certificate holds at a moment, given as time since 1970.
pub(super) fn holds_at(certificate: &[u8], moment: Duration) -> bool {
    Certificate::from_der(certificate).is_ok_and(|certificate| {
        let validity = certificate.tbs_certificate.validity;
        (validity.not_before.to_unix_duration()..=validity.not_after.to_unix_duration()).contains(&moment)
    })
}

/// libpq's `verify-full` looks at the common name of a certificate that names no host and no address otherwise, with `*` for
/// its first label at most.
pub(super) fn is_named_in_subject(certificate: &[u8], host: &str) -> bool {
    let Ok(certificate) = Certificate::from_der(certificate) else { return false };
    let named = certificate.tbs_certificate.get::<SubjectAltName>().ok().flatten().is_some_and(|(_, names)| {
        names.0.iter().any(|name| matches!(name, GeneralName::DnsName(_) | GeneralName::IpAddress(_)))
    });
    !named && name_in(&certificate).is_some_and(|pattern| is_match(&pattern, host))
}

fn is_match(pattern: &str, host: &str) -> bool {
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    let (Some(suffix), Some((first, rest))) = (pattern.strip_prefix("*."), host.split_once('.')) else { return false };
    !first.is_empty() && suffix.eq_ignore_ascii_case(rest)
}
