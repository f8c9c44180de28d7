//! Who is there, and may it come this way? The client proves it; an unknown user hears the same words as a wrong password, after the
//! same messages and the same work.

mod gate;
mod methods;

use std::{rc::Rc, sync::Arc};

use super::{
    account::Account,
    end::End,
    first::Channel,
    lookup::{self, Question},
    shared::Snapshot,
    worker::Worker,
};
use crate::{
    base::{Report, SqlState},
    config::{AuthMethod, Secret},
    relay::Client,
    wire::startup::StartupMessage,
};
use gate::Gate;

/// Lets the client in as somebody, or not.
pub(super) async fn authenticate(
    client: &mut Client,
    channel: &Channel,
    worker: &Rc<Worker>,
    snapshot: &Arc<Snapshot>,
    startup: &StartupMessage,
) -> Result<Arc<Account>, End> {
    let gate = gate::open(client, channel, snapshot, startup)?;
    let name = startup.user.as_str();
    let configured = snapshot.account(name).cloned();
    let complete = configured.as_ref().is_some_and(|account| account.user.secret != Secret::None);
    let question = snapshot.lookups.as_ref().filter(|_| !complete).map(|lookups| {
        // Whether there is such a database is told only to those who have proved who they are; until then any is as good.
        let database = snapshot.database(&startup.database).map_or(0, |(index, _)| index);
        let (worker, snapshot) = (Rc::clone(worker), Arc::clone(snapshot));
        (Arc::clone(lookups), Question { worker, snapshot, database, user: name.into() })
    });
    let found = match &question {
        Some((lookups, question)) => lookups
            .find(question.clone(), lookup::FRESH)
            .await
            .map_err(|error| End::Fatal(error.sqlstate(), error.to_client().into_owned()))?,
        None => None,
    };
    let account = found.or(configured);
    let claim = methods::Claim { name, account, question, channel, worker, iterations: snapshot.iterations };
    let method = match gate {
        Gate::Method(method) => method,
        Gate::Password => return claim.password(client).await,
    };
    if method == AuthMethod::Cert {
        channel.proves(client, name)?;
    }
    match method {
        AuthMethod::Trust | AuthMethod::Cert => claim
            .account
            .ok_or_else(|| End::Fatal(SqlState::INVALID_AUTHORIZATION, format!("role \"{name}\" does not exist"))),
        AuthMethod::Md5 if claim.answers_md5(snapshot.mostly_scram) => claim.md5(client).await,
        AuthMethod::Md5 | AuthMethod::ScramSha256 => claim.scram(client).await,
    }
}
