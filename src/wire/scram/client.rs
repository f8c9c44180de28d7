//! Our side towards servers.

use base64::{Engine, prelude::BASE64_STANDARD};
use subtle::ConstantTimeEq;

use super::{
    ChannelBinding, ClientKeys, MAX_SASL_MESSAGE, Nonce, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, attribute, hmac,
    is_printable, sha256, sum_from, xor,
};

/// Most PBKDF2 rounds a server may ask for: about a quarter of a second of one core.
pub const MAX_ITERATIONS: u32 = 1_000_000;

/// What a server can do wrong in a SCRAM exchange. Never shown to a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// Not a message of the expected form.
    #[error("malformed SCRAM message from server")]
    Malformed,
    /// Longer than [`MAX_SASL_MESSAGE`].
    #[error("SCRAM message from server is too long")]
    TooLong,
    /// The nonce does not begin with ours, or adds nothing.
    #[error("SCRAM nonce from server does not continue ours")]
    Nonce,
    /// A mandatory extension.
    #[error("server requires an unsupported SCRAM extension")]
    Extension,
    /// More rounds than [`MAX_ITERATIONS`].
    #[error("server asks for {0} SCRAM iterations, at most {MAX_ITERATIONS} are made")]
    Iterations(u32),
    /// The keys of a client's login were made with another salt or number of rounds than this server's verifier.
    #[error("server's SCRAM verifier has another salt or iteration count than the one the client logged in with")]
    ForeignKeys,
    /// `e=`: the server says no.
    #[error("server refused the SCRAM exchange: {0}")]
    Refused(String),
    /// The server does not hold the verifier of this user: it may be an impostor.
    #[error("server could not prove itself in the SCRAM exchange")]
    WrongSignature,
}

/// What we log in to a server with.
#[derive(Clone, Copy)]
pub enum ClientSecret<'a> {
    /// A password, and the keys an earlier login derived from it (see [`AwaitServerFinal::keys`]): if they fit the
    /// server's salt, the rounds are saved.
    Password {
        /// Clear text.
        password: &'a [u8],
        /// Keys made of this very password.
        known: Option<&'a ClientKeys>,
    },
    /// Only the keys a client proved to hold.
    Keys(&'a ClientKeys),
}

/// Waits for AuthenticationSASLContinue.
#[derive(Clone, Debug)]
pub struct AwaitServerFirst {
    nonce: Nonce,
    bare: String,
    /// What `c=` will say.
    channel: String,
}

/// Waits for AuthenticationSASLFinal.
#[derive(Clone, Debug)]
pub struct AwaitServerFinal {
    keys: ClientKeys,
    signature: [u8; 32],
}

/// The client's first message and how to send it.
#[derive(Clone, Debug)]
pub struct Opening {
    /// For SASLInitialResponse.
    pub mechanism: &'static str,
    /// For SASLInitialResponse.
    pub message: Vec<u8>,
    /// What comes next.
    pub next: AwaitServerFirst,
}

/// Begins an exchange. With a binding the server must have offered [`SCRAM_SHA_256_PLUS`]; the caller looks.
pub fn open(binding: &ChannelBinding, nonce: Nonce) -> Opening {
    // The user name stays empty: PostgreSQL takes it from the startup packet.
    let bare = format!("n=,r={}", nonce.0);
    let (mechanism, header, data) = match binding {
        ChannelBinding::Unavailable => (SCRAM_SHA_256, "n,,", &[][..]),
        ChannelBinding::NotOffered => (SCRAM_SHA_256, "y,,", &[][..]),
        ChannelBinding::ServerEndPoint(hash) => (SCRAM_SHA_256_PLUS, "p=tls-server-end-point,,", hash.as_slice()),
    };
    let channel = BASE64_STANDARD.encode([header.as_bytes(), data].concat());
    let message = format!("{header}{bare}").into_bytes();
    Opening { mechanism, message, next: AwaitServerFirst { nonce, bare, channel } }
}

impl AwaitServerFirst {
    /// Takes the server's first message; yields the message for SASLResponse.
    ///
    /// # Errors
    /// Any [`ServerFault`] but those of the last message.
    pub fn server_first(
        self,
        message: &[u8],
        secret: ClientSecret<'_>,
    ) -> Result<(AwaitServerFinal, Vec<u8>), ServerFault> {
        let message = text(message)?;
        if message.starts_with("m=") {
            return Err(ServerFault::Extension);
        }
        let (nonce, rest) = attribute(message, 'r').ok_or(ServerFault::Malformed)?;
        let (salt, rest) = rest.and_then(|rest| attribute(rest, 's')).ok_or(ServerFault::Malformed)?;
        let (rounds, _extensions) = rest.and_then(|rest| attribute(rest, 'i')).ok_or(ServerFault::Malformed)?;
        let salt = BASE64_STANDARD.decode(salt).map_err(|_| ServerFault::Malformed)?;
        let rounds: u32 = rounds.parse().map_err(|_| ServerFault::Malformed)?;
        if salt.is_empty() || rounds == 0 || !is_printable(nonce) {
            return Err(ServerFault::Malformed);
        }
        if rounds > MAX_ITERATIONS {
            return Err(ServerFault::Iterations(rounds));
        }
        if nonce.strip_prefix(self.nonce.0.as_str()).is_none_or(str::is_empty) {
            return Err(ServerFault::Nonce);
        }

        let keys = match secret {
            ClientSecret::Password { known: Some(keys), .. } | ClientSecret::Keys(keys) if keys.fit(&salt, rounds) => {
                keys.clone()
            }
            ClientSecret::Password { password, .. } => ClientKeys::derive(password, &salt, rounds),
            ClientSecret::Keys(_) => return Err(ServerFault::ForeignKeys),
        };
        let unproved = format!("c={},r={nonce}", self.channel);
        let said = format!("{},{message},{unproved}", self.bare);
        let proof = xor(&keys.client_key, &hmac(&sha256(&keys.client_key), &[said.as_bytes()]));
        let signature = hmac(&keys.server_key, &[said.as_bytes()]);
        let reply = format!("{unproved},p={}", BASE64_STANDARD.encode(proof)).into_bytes();
        Ok((AwaitServerFinal { keys, signature }, reply))
    }
}

impl AwaitServerFinal {
    /// The keys this login was made with, to be remembered for the next one.
    pub fn keys(&self) -> &ClientKeys {
        &self.keys
    }

    /// Takes the server's last message. Only if this is `Ok` may AuthenticationOk be believed.
    ///
    /// # Errors
    /// [`ServerFault::Refused`], [`ServerFault::WrongSignature`], or a broken message.
    pub fn server_final(self, message: &[u8]) -> Result<ClientKeys, ServerFault> {
        let message = text(message)?;
        if let Some((why, _)) = attribute(message, 'e') {
            return Err(ServerFault::Refused(why.to_owned()));
        }
        let (signature, _extensions) = attribute(message, 'v').ok_or(ServerFault::Malformed)?;
        let signature = sum_from(signature).ok_or(ServerFault::Malformed)?;
        if signature.ct_eq(&self.signature).into() { Ok(self.keys) } else { Err(ServerFault::WrongSignature) }
    }
}

fn text(message: &[u8]) -> Result<&str, ServerFault> {
    if message.len() > MAX_SASL_MESSAGE {
        return Err(ServerFault::TooLong);
    }
    std::str::from_utf8(message).map_err(|_| ServerFault::Malformed)
}
