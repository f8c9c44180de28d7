//! By which way the client comes, and what is asked of those who come by it.

use crate::{
    base::SqlState,
    config::{
        AuthMethod,
        hba::{HbaMethod, Way},
    },
    net::Peer,
    relay::Client,
    session::{end::End, first::Channel, shared::Snapshot},
    wire::startup::StartupMessage,
};

/// What lets the client in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// This method.
    Method(AuthMethod),
    /// The password in clear text.
    Password,
}

fn way(client: &Client, channel: &Channel) -> Way {
    match client.stream.peer() {
        Peer::Ip(address) => {
            let encrypted = matches!(channel, Channel::Tls(_));
            Way::Tcp { from: address.ip().to_canonical(), encrypted }
        }
        Peer::Local => Way::Local,
    }
}

/// Asks `tls.client.mode`, and `auth.hba_file`, or else `auth.method`.
pub(super) fn open(
    client: &Client,
    channel: &Channel,
    snapshot: &Snapshot,
    startup: &StartupMessage,
) -> Result<Gate, End> {
    if let Some(towards) = &snapshot.config.tls.client {
        channel.check(client, towards.mode, startup)?;
    }
    let Some(hba) = &snapshot.config.auth.hba else { return Ok(Gate::Method(snapshot.config.auth.method)) };
    let way = way(client, channel);
    let line = hba.line(way, &startup.database, &startup.user);
    // The words of PostgreSQL's auth.c (ClientAuthentication and its `auth_failed`).
    let refusal = |what: &str| {
        let (host, encryption) = match way {
            Way::Local => ("[local]".to_owned(), "no encryption"),
            Way::Tcp { from, encrypted: true } => (from.to_string(), "SSL encryption"),
            Way::Tcp { from, encrypted: false } => (from.to_string(), "no encryption"),
        };
        let (user, database) = (&startup.user, &startup.database);
        let message = format!("{what} for host \"{host}\", user \"{user}\", database \"{database}\", {encryption}");
        End::Fatal(SqlState::INVALID_AUTHORIZATION, message)
    };
    match line.map(|line| line.method) {
        None => Err(refusal("no pg_hba.conf entry")),
        Some(HbaMethod::Reject) => Err(refusal("pg_hba.conf rejects connection")),
        Some(HbaMethod::Trust) => Ok(Gate::Method(AuthMethod::Trust)),
        Some(HbaMethod::Md5) => Ok(Gate::Method(AuthMethod::Md5)),
        Some(HbaMethod::ScramSha256) => Ok(Gate::Method(AuthMethod::ScramSha256)),
        Some(HbaMethod::Password) => Ok(Gate::Password),
        Some(HbaMethod::Cert) => Ok(Gate::Method(AuthMethod::Cert)),
    }
}
