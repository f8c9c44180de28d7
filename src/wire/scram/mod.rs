//! SCRAM-SHA-256 without I/O, both sides (RFC 5802, RFC 7677, and PostgreSQL's `auth-scram.c` where they differ).
//!
//! One type per moment of the exchange; each eats itself and yields the next, so a message out of order cannot be
//! written. A mistake of the peer is a typed fault; secrets are never part of one and are compared in constant time.

pub mod client;
pub mod server;
mod verifier;

pub use verifier::{BadVerifier, DEFAULT_ITERATIONS, MockSecret, Verifier};

use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, Mac};
use rand::RngCore;
use sha2::{Digest, Sha256};

/// The mechanism without channel binding.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
/// The mechanism with channel binding.
pub const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// Largest SASL message body accepted, bytes (PostgreSQL's PG_MAX_SASL_MESSAGE_LENGTH).
pub const MAX_SASL_MESSAGE: usize = 1024;

/// A SHA-256 sum.
pub(super) type Sum = [u8; 32];

/// Whether this side can bind the login to its TLS channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// No TLS, or no certificate to bind to: only [`SCRAM_SHA_256`] is offered or chosen.
    Unavailable,
    /// Towards servers: we could bind, but were not offered to. The server is told, so that it notices if somebody in
    /// between took its offer away (RFC 5802, 6).
    NotOffered,
    /// `tls-server-end-point` (RFC 5929): the hash of the server's certificate.
    ServerEndPoint(Vec<u8>),
}

/// What a login proves and a later login can be made with, without the password: for passing a client's
/// identity on to servers that hold the same verifier.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientKeys {
    /// Proves the client.
    pub client_key: [u8; 32],
    /// Proves the server.
    pub server_key: [u8; 32],
    /// The salt the keys were made with: they fit no other.
    pub salt: Vec<u8>,
    /// PBKDF2 rounds the keys were made with.
    pub iterations: u32,
}

impl ClientKeys {
    /// Derives both keys; costs `iterations` rounds of PBKDF2 (about 1 ms for 4096).
    pub fn derive(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let salted = verifier::salted_password(password, salt, iterations);
        Self {
            client_key: hmac(&salted, &[b"Client Key"]),
            server_key: hmac(&salted, &[b"Server Key"]),
            salt: salt.to_vec(),
            iterations,
        }
    }

    /// Whether a server that names this salt and these rounds can be answered with these keys.
    pub fn fit(&self, salt: &[u8], iterations: u32) -> bool {
        self.salt == salt && self.iterations == iterations
    }
}

/// Keys stay out of logs.
impl std::fmt::Debug for ClientKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientKeys").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// This side's part of the nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    /// 18 random bytes, as PostgreSQL uses.
    pub fn random() -> Self {
        let mut raw = [0; 18];
        rand::rng().fill_bytes(&mut raw);
        Self(BASE64_STANDARD.encode(raw))
    }

    /// A fixed one, for tests against published vectors; `None` if it is empty or not printable ASCII without comma.
    pub fn fixed(text: &str) -> Option<Self> {
        (!text.is_empty() && is_printable(text)).then(|| Self(text.to_owned()))
    }
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Sum {
    // HMAC takes keys of any length; the other arm cannot be reached and yields a key nobody holds.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return rand::random() };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn sha256(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).into()
}

fn xor(a: &Sum, b: &Sum) -> Sum {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// The value of attribute `name` at the front of `message`, and what follows its comma (`None` at the end).
fn attribute(message: &str, name: char) -> Option<(&str, Option<&str>)> {
    let value = message.strip_prefix(name)?.strip_prefix('=')?;
    Some(match value.split_once(',') {
        Some((value, rest)) => (value, Some(rest)),
        None => (value, None),
    })
}

/// Decodes standard base64 of one sum.
fn sum_from(text: &str) -> Option<Sum> {
    BASE64_STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests;
