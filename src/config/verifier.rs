//! The forms a password can be written in, as pg_authid.rolpassword holds them.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::Secret;

/// What may stand after `password:`.
pub(super) const FORMS: &str =
    "clear text, SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey> in base64, or md5<32 hexadecimal digits>";

/// Why a text is no secret. The text itself is not repeated.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum BadSecret {
    #[error("the password is empty")]
    Empty,
    #[error("the password begins like a SCRAM verifier but is none: {0}")]
    Verifier(&'static str),
}

/// Tells verifiers from clear text, as PostgreSQL's get_password_type does.
pub(super) fn secret(text: &str) -> Result<Secret, BadSecret> {
    if text.is_empty() {
        return Err(BadSecret::Empty);
    }
    if let Some(rest) = text.strip_prefix("SCRAM-SHA-256$") {
        return match scram_fault(rest) {
            None => Ok(Secret::Verifier(text.to_owned())),
            Some(fault) => Err(BadSecret::Verifier(fault)),
        };
    }
    let hash = text.strip_prefix("md5").filter(|hash| hash.len() == 32);
    if hash.is_some_and(|hash| hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))) {
        return Ok(Secret::Md5(text.to_owned()));
    }
    Ok(Secret::Password(text.to_owned()))
}

fn scram_fault(rest: &str) -> Option<&'static str> {
    let Some((head, keys)) = rest.split_once('$') else { return Some("the keys are missing") };
    let Some((iterations, salt)) = head.split_once(':') else { return Some("the salt is missing") };
    let Some((stored, server)) = keys.split_once(':') else { return Some("the ServerKey is missing") };
    let decoded = |text: &str| STANDARD.decode(text).ok();
    if !iterations.parse::<u32>().is_ok_and(|n| (1..=i32::MAX as u32).contains(&n)) {
        return Some("the number of iterations");
    }
    if decoded(salt).is_none_or(|salt| salt.is_empty()) {
        return Some("the salt");
    }
    if decoded(stored).is_none_or(|key| key.len() != 32) {
        return Some("the StoredKey");
    }
    if decoded(server).is_none_or(|key| key.len() != 32) {
        return Some("the ServerKey");
    }
    None
}
