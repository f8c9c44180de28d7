//! What a server keeps instead of a password.

use std::{borrow::Cow, fmt, str::FromStr};

use base64::{Engine, prelude::BASE64_STANDARD};
use rand::RngCore;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{ClientKeys, Sum, hmac, sha256, sum_from};

/// PBKDF2 rounds of a verifier made here (PostgreSQL's default `scram_iterations`).
pub const DEFAULT_ITERATIONS: u32 = 4096;

/// Salt of a verifier made here, bytes (PostgreSQL's SCRAM_DEFAULT_SALT_LEN).
const SALT_BYTES: usize = 16;

/// The text is not `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a SCRAM verifier, expected SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>")]
pub struct BadVerifier;

/// A SCRAM verifier: enough to check a login, not enough to make one.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// PBKDF2 rounds, ≥ 1.
    pub iterations: u32,
    /// Salt, ≥ 1 byte.
    pub salt: Vec<u8>,
    pub(super) stored_key: Sum,
    pub(super) server_key: Sum,
    pub(super) standing: Standing,
}

/// Whether anybody can be let in by a verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Genuine,
    Mock,
}

/// Keys mock verifiers: made once per process and kept over reloads, or the salts of unknown users would betray them.
#[derive(Clone)]
pub struct MockSecret([u8; 32]);

impl MockSecret {
    /// A new one.
    pub fn random() -> Self {
        let mut secret = [0; 32];
        rand::rng().fill_bytes(&mut secret);
        Self(secret)
    }
}

impl Verifier {
    /// Makes a verifier of a clear-text password with a random salt. Costs [`DEFAULT_ITERATIONS`] rounds of PBKDF2: do it
    /// once per user when the configuration is read, not per login, so that a login costs the same for users known by
    /// password, known by verifier, and unknown.
    pub fn from_password(password: &[u8]) -> Self {
        let mut salt = [0; SALT_BYTES];
        rand::rng().fill_bytes(&mut salt);
        Self::derive(password, &salt, DEFAULT_ITERATIONS)
    }

    /// Makes a verifier with a given salt and number of rounds.
    pub fn derive(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        Self::of_keys(&ClientKeys::derive(password, salt, iterations))
    }

    /// The verifier these keys log in to.
    pub fn of_keys(keys: &ClientKeys) -> Self {
        Self {
            iterations: keys.iterations,
            salt: keys.salt.clone(),
            stored_key: sha256(&keys.client_key),
            server_key: keys.server_key,
            standing: Standing::Genuine,
        }
    }

    /// The keys of a password in clear text, if it is the right one. Costs the verifier's rounds of PBKDF2, also if it is a mock.
    pub fn keys_of(&self, password: &[u8]) -> Option<ClientKeys> {
        let keys = ClientKeys::derive(password, &self.salt, self.iterations);
        let right = bool::from(sha256(&keys.client_key).ct_eq(&self.stored_key));
        (right && self.standing == Standing::Genuine).then_some(keys)
    }

    /// Stands in for a user that does not exist or has no usable secret: the same user always sees the same salt, the
    /// exchange runs to its end, and nobody is let in. `iterations` should be what genuine users have.
    pub fn mock(user: &str, secret: &MockSecret, iterations: u32) -> Self {
        let derived = |what: &[u8]| hmac(&secret.0, &[what, user.as_bytes()]);
        Self {
            iterations,
            salt: derived(b"salt:").into_iter().take(SALT_BYTES).collect(),
            stored_key: derived(b"stored:"),
            server_key: derived(b"server:"),
            standing: Standing::Mock,
        }
    }
}

impl FromStr for Verifier {
    type Err = BadVerifier;

    fn from_str(text: &str) -> Result<Self, BadVerifier> {
        let (scheme, rest) = text.split_once('$').ok_or(BadVerifier)?;
        let (cost, keys) = rest.split_once('$').ok_or(BadVerifier)?;
        let (iterations, salt) = cost.split_once(':').ok_or(BadVerifier)?;
        let (stored_key, server_key) = keys.split_once(':').ok_or(BadVerifier)?;
        let iterations: u32 = iterations.parse().map_err(|_| BadVerifier)?;
        let salt = BASE64_STANDARD.decode(salt).map_err(|_| BadVerifier)?;
        // PostgreSQL keeps the rounds in an int.
        let in_range = (1..=i32::MAX as u32).contains(&iterations) && !salt.is_empty();
        if scheme != super::SCRAM_SHA_256 || !in_range {
            return Err(BadVerifier);
        }
        Ok(Self {
            iterations,
            salt,
            stored_key: sum_from(stored_key).ok_or(BadVerifier)?,
            server_key: sum_from(server_key).ok_or(BadVerifier)?,
            standing: Standing::Genuine,
        })
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b64 = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
        let (salt, stored, server) = (b64(&self.salt), b64(&self.stored_key), b64(&self.server_key));
        write!(f, "{}${}:{salt}${stored}:{server}", super::SCRAM_SHA_256, self.iterations)
    }
}

/// Keys stay out of logs.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// PBKDF2 of the normalised password.
pub(super) fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> Sum {
    pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(&normalised(password), salt, iterations)
}

/// SASLprep, or the password as it is: PostgreSQL's `pg_saslprep` leaves ASCII alone (control characters too), and its
/// callers fall back to the raw bytes where the text is not UTF-8 or holds what SASLprep prohibits.
fn normalised(password: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(password) {
        Ok(text) if !text.is_ascii() => match stringprep::saslprep(text) {
            // PostgreSQL allows no password that maps to nothing.
            Ok(prepared) if !prepared.is_empty() => Cow::Owned(prepared.into_owned().into_bytes()),
            Ok(_) | Err(_) => Cow::Borrowed(password),
        },
        _ => Cow::Borrowed(password),
    }
}
