//! The methods of proof.

use std::sync::Arc;

use crate::{
    base::{Report, SqlState},
    config::Secret,
    relay::Client,
    session::{
        account::Account,
        end::End,
        first::Channel,
        lookup::{AGAIN, Lookups, Question},
        worker::Worker,
    },
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
    pub(super) account: Option<Arc<Account>>,
    /// Where that was asked, if it was not configured.
    pub(super) question: Option<(Arc<Lookups>, Question)>,
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
        secret(self.account.as_ref())
    }

    /// The account's verifier, or one that nobody can answer.
    fn verifier(&self, account: Option<&Arc<Account>>) -> Arc<Verifier> {
        let known = account.and_then(|account| account.verifier.clone());
        known.unwrap_or_else(|| Arc::new(Verifier::mock(self.name, &self.worker.shared.mock, self.iterations)))
    }

    /// After a proof that failed: the password may have been changed, or the user made, since the server was asked. The account once
    /// more; `None` if that is not where it comes from, or nothing has changed.
    async fn anew(&self) -> Option<Arc<Account>> {
        let (lookups, question) = self.question.as_ref()?;
        let account = lookups.find(question.clone(), AGAIN).await.ok().flatten()?;
        (secret(self.account.as_ref()) != &account.user.secret).then_some(account)
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
        let fits = |account: Option<&Arc<Account>>| {
            let shadow = match secret(account) {
                Secret::Password(password) => md5::shadow(self.name, password),
                Secret::Md5(shadow) => shadow.clone(),
                // Nobody's: compared all the same.
                Secret::Verifier(_) | Secret::None => md5::shadow(self.name, &format!("{:x}", rand::random::<u128>())),
            };
            let right = md5::is_right(&shadow, salt, given);
            account.filter(|_| right).cloned()
        };
        match fits(self.account.as_ref()) {
            Some(account) => Ok(account),
            None => fits(self.anew().await.as_ref()).ok_or_else(|| self.refused()),
        }
    }

    /// AuthenticationSASL.
    pub(super) async fn scram(&self, client: &mut Client) -> Result<Arc<Account>, End> {
        let told = |fault: ClientFault| End::Fatal(fault.sqlstate(), fault.to_client().into_owned());
        let verifier = self.verifier(self.account.as_ref());
        let first = AwaitFirst::new(verifier, self.channel.binding(), Nonce::random());
        backend::authentication_sasl(client.say(), first.mechanisms());
        let body = response(client).await?;
        let initial = SaslInitial::parse(&body)?;
        let given = initial.response.unwrap_or_default();
        let (last, reply) = first.client_first(initial.mechanism, given).map_err(told)?;
        backend::authentication_sasl_continue(client.say(), &reply);
        let body = response(client).await?;
        let accepted = match last.client_final(&body) {
            Ok(accepted) => Some(accepted),
            Err(ClientFault::WrongProof) => None,
            Err(fault) => return Err(told(fault)),
        };
        let (Some(accepted), Some(account)) = (accepted, &self.account) else {
            if let Some((lookups, question)) = self.question.clone() {
                // This proof was made with the old salt and is worth nothing for a new one, so nobody waits: the next login knows.
                tokio::task::spawn_local(async move { lookups.find(question, AGAIN).await });
            }
            return Err(self.refused());
        };
        if matches!(account.user.secret, Secret::Verifier(_)) {
            // All that will ever be known of it: servers that hold the same verifier are logged in to with these.
            account.keys.keep(accepted.keys);
        }
        backend::authentication_sasl_final(client.say(), &accepted.message);
        Ok(Arc::clone(account))
    }

    /// AuthenticationCleartextPassword.
    pub(super) async fn password(&self, client: &mut Client) -> Result<Arc<Account>, End> {
        backend::authentication_cleartext_password(client.say());
        let body = response(client).await?;
        let given = Password::parse(&body)?;
        if let Some(account) = self.knows(self.account.as_ref(), given).await {
            return Ok(account);
        }
        match self.anew().await {
            Some(account) => self.knows(Some(&account), given).await.ok_or_else(|| self.refused()),
            None => Err(self.refused()),
        }
    }

    /// Is it this account's password? Whatever is known of the user, one password is hashed, and not on this thread.
    async fn knows(&self, account: Option<&Arc<Account>>, given: &[u8]) -> Option<Arc<Account>> {
        let keys = self.worker.shared.hashing.keys(self.verifier(account), given.to_vec()).await;
        let account = account?;
        let right = match &account.user.secret {
            Secret::Md5(shadow) => md5::fits(shadow, self.name, given),
            Secret::Password(_) | Secret::Verifier(_) | Secret::None => keys.is_some(),
        };
        if let (Secret::Verifier(_), Some(keys)) = (&account.user.secret, keys) {
            account.keys.keep(keys);
        }
        right.then(|| Arc::clone(account))
    }
}

fn secret(account: Option<&Arc<Account>>) -> &Secret {
    account.map_or(&Secret::None, |account| &account.user.secret)
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
