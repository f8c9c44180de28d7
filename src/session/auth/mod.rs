//! Who is there, and may it come this way? The client proves it; an unknown user hears the same words as a wrong password, after the
//! same messages and the same work.

mod gate;
mod methods;

use std::sync::Arc;

use super::{account::Account, end::End, first::Channel, shared::Snapshot, worker::Worker};
use crate::{base::SqlState, config::AuthMethod, relay::Client, wire::startup::StartupMessage};
use gate::Gate;

/// Lets the client in as somebody, or not.
pub(super) async fn authenticate(
    client: &mut Client,
    channel: &Channel,
    worker: &Worker,
    snapshot: &Snapshot,
    startup: &StartupMessage,
) -> Result<Arc<Account>, End> {
    let gate = gate::open(client, channel, snapshot, startup)?;
    let name = startup.user.as_str();
    let account = snapshot.account(name);
    let claim = methods::Claim { name, account, channel, worker, iterations: snapshot.iterations };
    let method = match gate {
        Gate::Method(method) => method,
        Gate::Password => return claim.password(client).await,
    };
    if method == AuthMethod::Cert {
        channel.proves(client, name)?;
    }
    match method {
        AuthMethod::Trust | AuthMethod::Cert => match account {
            Some(account) => Ok(Arc::clone(account)),
            None => Err(End::Fatal(SqlState::INVALID_AUTHORIZATION, format!("role \"{name}\" does not exist"))),
        },
        AuthMethod::Md5 if claim.answers_md5(snapshot.mostly_scram) => claim.md5(client).await,
        AuthMethod::Md5 | AuthMethod::ScramSha256 => claim.scram(client).await,
    }
}
