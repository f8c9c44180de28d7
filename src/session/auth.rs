//! Who is there? The client proves it; an unknown user costs the same time and hears the same words as a wrong password.

use std::sync::Arc;

use super::{end::End, shared::Snapshot, worker::Worker};
use crate::{
    base::{Report, SqlState},
    config::{AuthMethod, Secret, User},
    relay::Client,
    wire::{
        HEAD_BYTES,
        backend::{self},
        frontend::{Password, SaslInitial, tag},
        md5,
        scram::{
            ChannelBinding, DEFAULT_ITERATIONS, Nonce, Verifier,
            server::{AwaitFirst, ClientFault},
        },
    },
};

/// Longest message accepted from somebody unknown.
const CAP: u32 = 8 * 1024;

fn refused(user: &str) -> End {
    End::Fatal(SqlState::INVALID_PASSWORD, format!("password authentication failed for user \"{user}\""))
}

/// Lets `name` in, or not.
pub(super) async fn authenticate(
    client: &mut Client,
    worker: &Worker,
    snapshot: &Snapshot,
    name: &str,
) -> Result<Arc<User>, End> {
    let user = snapshot.user(name);
    match snapshot.config.auth {
        AuthMethod::Trust => match user {
            Some(user) => Ok(Arc::clone(user)),
            None => Err(End::Fatal(SqlState::INVALID_AUTHORIZATION, format!("role \"{name}\" does not exist"))),
        },
        AuthMethod::Md5 => match user.map(|user| &user.secret) {
            // A user whose verifier is SCRAM's cannot answer an MD5 challenge; PostgreSQL, too, asks for SCRAM then.
            Some(Secret::Verifier(_)) => scram(client, worker, snapshot, name).await,
            _ => md5_exchange(client, snapshot, name).await,
        },
        AuthMethod::ScramSha256 => scram(client, worker, snapshot, name).await,
    }
}

async fn md5_exchange(client: &mut Client, snapshot: &Snapshot, name: &str) -> Result<Arc<User>, End> {
    let salt: [u8; 4] = rand::random();
    backend::authentication_md5_password(client.say(), salt);
    let body = response(client).await?;
    let given = Password::parse(&body)?;
    let user = snapshot.user(name);
    let shadow = match user.map(|user| &user.secret) {
        Some(Secret::Password(password)) => md5::shadow(name, password),
        Some(Secret::Md5(shadow)) => shadow.clone(),
        // Nobody's: compared all the same.
        Some(Secret::Verifier(_) | Secret::None) | None => md5::shadow(name, &format!("{:x}", rand::random::<u128>())),
    };
    match user {
        Some(user) if md5::is_right(&shadow, salt, given) => Ok(Arc::clone(user)),
        _ => Err(refused(name)),
    }
}

async fn scram(client: &mut Client, worker: &Worker, snapshot: &Snapshot, name: &str) -> Result<Arc<User>, End> {
    let user = snapshot.user(name);
    let verifier = user.and_then(|user| snapshot.verifiers.get(&user.name).cloned());
    let verifier = verifier.unwrap_or_else(|| Arc::new(Verifier::mock(name, &worker.shared.mock, DEFAULT_ITERATIONS)));
    let fault = |fault: ClientFault| match fault {
        ClientFault::WrongProof => refused(name),
        other => End::Fatal(other.sqlstate(), other.to_client().into_owned()),
    };
    let first = AwaitFirst::new(verifier, ChannelBinding::Unavailable, Nonce::random());
    backend::authentication_sasl(client.say(), first.mechanisms());
    let body = response(client).await?;
    let initial = SaslInitial::parse(&body)?;
    let (last, reply) = first.client_first(initial.mechanism, initial.response.unwrap_or_default()).map_err(fault)?;
    backend::authentication_sasl_continue(client.say(), &reply);
    let body = response(client).await?;
    let accepted = last.client_final(&body).map_err(fault)?;
    let Some(user) = user else { return Err(refused(name)) };
    backend::authentication_sasl_final(client.say(), &accepted.message);
    Ok(Arc::clone(user))
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
