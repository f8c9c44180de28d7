//! Our side towards clients.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use subtle::ConstantTimeEq;

use super::{
    ChannelBinding, ClientKeys, MAX_SASL_MESSAGE, Nonce, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, Verifier, attribute, hmac,
    is_printable, sha256, sum_from, verifier::Standing, xor,
};
use crate::base::{Blame, Report, SqlState};

/// What a client can do wrong in a SCRAM exchange. All are FATAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientFault {
    /// A mechanism that was not offered.
    #[error("client selected an invalid SASL authentication mechanism")]
    Mechanism,
    /// Not a message of the expected form.
    #[error("malformed SCRAM message")]
    Malformed,
    /// Longer than [`MAX_SASL_MESSAGE`].
    #[error("SCRAM message is too long")]
    TooLong,
    /// `a=`: acting for somebody else.
    #[error("client uses authorization identity, but it is not supported")]
    AuthorizationIdentity,
    /// `m=`: a mandatory extension.
    #[error("client requires an unsupported SCRAM extension")]
    Extension,
    /// The message binds to a channel in another way than the mechanism says, or claims that we offer no binding when
    /// we do: somebody in between took the offer away.
    #[error("SCRAM channel binding negotiation error")]
    BindingNegotiation,
    /// A binding other than `tls-server-end-point`.
    #[error("unsupported SCRAM channel-binding type")]
    BindingType,
    /// Bound to another channel than this one.
    #[error("SCRAM channel binding check failed")]
    BindingMismatch,
    /// The nonce is not the one of this exchange.
    #[error("invalid SCRAM response: nonce does not match")]
    Nonce,
    /// Wrong password, or a user that does not exist.
    #[error("password authentication failed")]
    WrongProof,
}

impl Report for ClientFault {
    fn blame(&self) -> Blame {
        Blame::Client
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::AuthorizationIdentity | Self::Extension => SqlState::FEATURE_NOT_SUPPORTED,
            Self::BindingMismatch => SqlState::INVALID_AUTHORIZATION,
            Self::WrongProof => SqlState::INVALID_PASSWORD,
            Self::Mechanism
            | Self::Malformed
            | Self::TooLong
            | Self::BindingNegotiation
            | Self::BindingType
            | Self::Nonce => SqlState::PROTOCOL_VIOLATION,
        }
    }

    fn to_client(&self) -> Cow<'static, str> {
        self.to_string().into()
    }
}

/// Waits for the client's first message (SASLInitialResponse).
#[derive(Clone, Debug)]
pub struct AwaitFirst {
    verifier: Arc<Verifier>,
    binding: ChannelBinding,
    nonce: Nonce,
}

/// Waits for the client's last message (SASLResponse).
#[derive(Clone, Debug)]
pub struct AwaitFinal {
    verifier: Arc<Verifier>,
    /// The nonce of both sides.
    nonce: String,
    /// What `c=` must say.
    channel: String,
    /// client-first-message-bare and server-first-message with their commas.
    said: String,
}

/// The client proved itself.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// To be sent as AuthenticationSASLFinal, before AuthenticationOk.
    pub message: Vec<u8>,
    /// What the client proved it holds.
    pub keys: ClientKeys,
}

impl AwaitFirst {
    /// Begins an exchange. An unknown user gets [`Verifier::mock`].
    pub fn new(verifier: Arc<Verifier>, binding: ChannelBinding, nonce: Nonce) -> Self {
        Self { verifier, binding, nonce }
    }

    /// The mechanisms to offer in AuthenticationSASL.
    pub fn mechanisms(&self) -> &'static [&'static str] {
        match self.binding {
            ChannelBinding::Unavailable | ChannelBinding::NotOffered => &[SCRAM_SHA_256],
            ChannelBinding::ServerEndPoint(_) => &[SCRAM_SHA_256_PLUS, SCRAM_SHA_256],
        }
    }

    /// Takes the client's choice and first message; yields the message for AuthenticationSASLContinue.
    ///
    /// # Errors
    /// Any [`ClientFault`] but [`ClientFault::WrongProof`].
    pub fn client_first(self, mechanism: &[u8], message: &[u8]) -> Result<(AwaitFinal, Vec<u8>), ClientFault> {
        let message = text(message)?;
        let bound = if mechanism == SCRAM_SHA_256.as_bytes() {
            None
        } else if mechanism == SCRAM_SHA_256_PLUS.as_bytes() {
            match &self.binding {
                ChannelBinding::ServerEndPoint(hash) => Some(hash.as_slice()),
                ChannelBinding::Unavailable | ChannelBinding::NotOffered => return Err(ClientFault::Mechanism),
            }
        } else {
            return Err(ClientFault::Mechanism);
        };

        let (flag, rest) = message.split_once(',').ok_or(ClientFault::Malformed)?;
        self.check_flag(flag, bound.is_some())?;
        let (identity, bare) = rest.split_once(',').ok_or(ClientFault::Malformed)?;
        if identity.starts_with("a=") {
            return Err(ClientFault::AuthorizationIdentity);
        }
        if !identity.is_empty() {
            return Err(ClientFault::Malformed);
        }
        if bare.starts_with("m=") {
            return Err(ClientFault::Extension);
        }
        // The user name here is ignored, as in PostgreSQL: the startup packet's counts.
        let (_user, rest) = attribute(bare, 'n').ok_or(ClientFault::Malformed)?;
        let (theirs, extensions) = rest.and_then(|rest| attribute(rest, 'r')).ok_or(ClientFault::Malformed)?;
        if theirs.is_empty() || !is_printable(theirs) || !extensions.is_none_or(are_attributes) {
            return Err(ClientFault::Malformed);
        }

        let nonce = format!("{theirs}{}", self.nonce.0);
        let salt = BASE64_STANDARD.encode(&self.verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", self.verifier.iterations);
        let mut channel = format!("{flag},,").into_bytes();
        channel.extend_from_slice(bound.unwrap_or_default());
        let next = AwaitFinal {
            verifier: self.verifier,
            nonce,
            channel: BASE64_STANDARD.encode(channel),
            said: format!("{bare},{server_first},"),
        };
        Ok((next, server_first.into_bytes()))
    }

    /// The gs2 flag: `n` (cannot bind), `y` (could, believes we cannot), `p=type` (binds).
    fn check_flag(&self, flag: &str, bound: bool) -> Result<(), ClientFault> {
        match flag {
            "n" if !bound => Ok(()),
            "y" if !matches!(self.binding, ChannelBinding::ServerEndPoint(_)) => Ok(()),
            "p=tls-server-end-point" if bound => Ok(()),
            "n" | "y" => Err(ClientFault::BindingNegotiation),
            _ if flag.starts_with("p=") && bound => Err(ClientFault::BindingType),
            _ if flag.starts_with("p=") => Err(ClientFault::BindingNegotiation),
            _ => Err(ClientFault::Malformed),
        }
    }
}

impl AwaitFinal {
    /// Takes the client's proof.
    ///
    /// # Errors
    /// [`ClientFault::WrongProof`] if the password is wrong or the user a mock; others for a broken message.
    pub fn client_final(self, message: &[u8]) -> Result<Accepted, ClientFault> {
        let message = text(message)?;
        let (unproved, proof) = message.rsplit_once(",p=").ok_or(ClientFault::Malformed)?;
        let proof = sum_from(proof).ok_or(ClientFault::Malformed)?;
        let (channel, rest) = attribute(unproved, 'c').ok_or(ClientFault::Malformed)?;
        let (nonce, extensions) = rest.and_then(|rest| attribute(rest, 'r')).ok_or(ClientFault::Malformed)?;
        if !extensions.is_none_or(are_attributes) {
            return Err(ClientFault::Malformed);
        }
        if channel != self.channel {
            return Err(ClientFault::BindingMismatch);
        }
        if nonce != self.nonce {
            return Err(ClientFault::Nonce);
        }

        let said = [self.said.as_bytes(), unproved.as_bytes()];
        let verifier = &self.verifier;
        let client_key = xor(&proof, &hmac(&verifier.stored_key, &said));
        let right = sha256(&client_key).ct_eq(&verifier.stored_key);
        if !bool::from(right) || verifier.standing == Standing::Mock {
            return Err(ClientFault::WrongProof);
        }
        let signature = BASE64_STANDARD.encode(hmac(&verifier.server_key, &said));
        Ok(Accepted {
            message: format!("v={signature}").into_bytes(),
            keys: ClientKeys {
                client_key,
                server_key: verifier.server_key,
                salt: verifier.salt.clone(),
                iterations: verifier.iterations,
            },
        })
    }
}

fn text(message: &[u8]) -> Result<&str, ClientFault> {
    if message.len() > MAX_SASL_MESSAGE {
        return Err(ClientFault::TooLong);
    }
    if message.contains(&0) {
        return Err(ClientFault::Malformed);
    }
    std::str::from_utf8(message).map_err(|_| ClientFault::Malformed)
}

/// Optional extensions: letter, `=`, value, with commas between. They are ignored.
fn are_attributes(text: &str) -> bool {
    text.split(',').all(|part| matches!(part.as_bytes(), [letter, b'=', ..] if letter.is_ascii_alphabetic()))
}
