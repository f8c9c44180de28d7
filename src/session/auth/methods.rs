//! The methods of proof.

use std::sync::Arc;

use crate::{
    base::{Report, SqlState},
    config::Secret,
    relay::Client,
    session::{account::Account, end::End, first::Channel, worker::Worker},
    wire::{
        HEAD_BYTES,
        backend::{self},
        frontend::{Password, SaslInitial, tag},
        md5,
        scram::{
            Nonce, Verifier,
            server::{AwaitFirst, ClientFault},
        },
    },
};

/// Longest message accepted from somebody unknown.
const CAP: u32 = 8 * 1024;

/// Somebody says who it is.
pub(super) struct Claim<'a> {
    /// The name in the startup packet.
    pub(super) name: &'a str,
    /// Whom that is, if anybody.
    pub(super) account: Option<&'a Arc<Account>>,
    /// What a SCRAM exchange can be bound to.
    pub(super) channel: &'a Channel,
    pub(super) worker: &'a Worker,
    /// What users that do not exist seem to have.
    pub(super) iterations: u32,
}

impl Claim<'_> {
    fn refused(&self) -> End {
        let message = format!("password authentication failed for user \"{}\"", self.name);
        End::Fatal(SqlState::INVALID_PASSWORD, message)
    }

    fn secret(&self) -> &Secret {
        self.account.map_or(&Secret::None, |account| &account.user.secret)
    }

    /// The account's verifier, or one that nobody can answer.
    fn verifier(&self) -> Arc<Verifier> {
        let known = self.account.and_then(|account| account.verifier.clone());
        known.unwrap_or_else(|| Arc::new(Verifier::mock(self.name, &self.worker.shared.mock, self.iterations)))
    }

    /// Under `md5` a user with a verifier can not answer an MD5 challenge and is asked for SCRAM, as by PostgreSQL. One that does not
    /// exist is asked for what most others are.
    pub(super) fn answers_md5(&self, mostly_scram: bool) -> bool {
        match self.secret() {
            Secret::Password(_) | Secret::Md5(_) => true,
            Secret::Verifier(_) => false,
            Secret::None => !mostly_scram,
        }
    }

    /// AuthenticationMD5Password.
    pub(super) async fn md5(&self, client: &mut Client) -> Result<Arc<Account>, End> {
        let salt: [u8; 4] = rand::random();
        backend::authentication_md5_password(client.say(), salt);
        let body = response(client).await?;
        let given = Password::parse(&body)?;
        let shadow = match self.secret() {
            Secret::Password(password) => md5::shadow(self.name, password),
            Secret::Md5(shadow) => shadow.clone(),
            // Nobody's: compared all the same.
            Secret::Verifier(_) | Secret::None => md5::shadow(self.name, &format!("{:x}", rand::random::<u128>())),
        };
        match self.account {
            Some(account) if md5::is_right(&shadow, salt, given) => Ok(Arc::clone(account)),
            _ => Err(self.refused()),
        }
    }

    /// AuthenticationSASL.
    pub(super) async fn scram(&self, client: &mut Client) -> Result<Arc<Account>, End> {
        let fault = |fault: ClientFault| match fault {
            ClientFault::WrongProof => self.refused(),
            other => End::Fatal(other.sqlstate(), other.to_client().into_owned()),
        };
        let first = AwaitFirst::new(self.verifier(), self.channel.binding(), Nonce::random());
        backend::authentication_sasl(client.say(), first.mechanisms());
        let body = response(client).await?;
        let initial = SaslInitial::parse(&body)?;
        let given = initial.response.unwrap_or_default();
        let (last, reply) = first.client_first(initial.mechanism, given).map_err(fault)?;
        backend::authentication_sasl_continue(client.say(), &reply);
        let body = response(client).await?;
        let accepted = last.client_final(&body).map_err(fault)?;
        let Some(account) = self.account else { return Err(self.refused()) };
        if matches!(account.user.secret, Secret::Verifier(_)) {
            // All that will ever be known of it: servers that hold the same verifier are logged in to with these.
            account.keys.keep(accepted.keys);
        }
        backend::authentication_sasl_final(client.say(), &accepted.message);
        Ok(Arc::clone(account))
    }

    /// AuthenticationCleartextPassword. Whatever is known of the user, one password is hashed, and not on this thread.
    pub(super) async fn password(&self, client: &mut Client) -> Result<Arc<Account>, End> {
        backend::authentication_cleartext_password(client.say());
        let body = response(client).await?;
        let given = Password::parse(&body)?.to_vec();
        let right = match self.secret() {
            Secret::Md5(shadow) => md5::fits(shadow, self.name, &given),
            Secret::Password(_) | Secret::Verifier(_) | Secret::None => false,
        };
        let keys = self.worker.shared.hashing.keys(self.verifier(), given).await;
        match self.account {
            Some(account) if right => Ok(Arc::clone(account)),
            Some(account) => {
                let keys = keys.ok_or_else(|| self.refused())?;
                if matches!(account.user.secret, Secret::Verifier(_)) {
                    account.keys.keep(keys);
                }
                Ok(Arc::clone(account))
            }
            None => Err(self.refused()),
        }
    }
}

/// The body of the client's next message, which must be a password message of some kind.
async fn response(client: &mut Client) -> Result<Vec<u8>, End> {
    client.flush().await?;
    loop {
        if let Some(head) = client.head(CAP)? {
            if head.tag != tag::PASSWORD {
                return Err(End::Fatal(
                    SqlState::PROTOCOL_VIOLATION,
                    format!("expected password response, got message type {}", head.tag),
                ));
            }
            if let Some(frame) = client.pending().get(..head.total()) {
                let body = frame[HEAD_BYTES..].to_vec();
                client.consume(head.total());
                return Ok(body);
            }
        }
        client.fill().await?;
    }
}
