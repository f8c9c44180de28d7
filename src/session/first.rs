//! Everything before the StartupMessage: whether the connection is to be encrypted, and cancel requests.

use std::sync::Arc;

use super::{end::End, worker::Worker};
use crate::{
    base::{Report, SqlState},
    net::Peer,
    relay::Client,
    tls::{ALPN, ClientMode, TowardsClients, common_name},
    wire::{
        scram::ChannelBinding,
        startup::{
            First, GSSENC_REQUEST, MAX_STARTUP, Protocol, SSL_REQUEST, StartupError, StartupMessage, is_cancel,
            next_first,
        },
    },
};

/// The first byte of a TLS handshake record: what a StartupMessage of a length we accept never begins with.
const TLS_HANDSHAKE: u8 = 0x16;

/// What carries a client's bytes.
#[derive(Debug)]
pub(super) enum Channel {
    /// A Unix socket.
    Local,
    /// TCP in the clear.
    Clear,
    /// TLS over TCP, with the settings it was begun with.
    Tls(Arc<TowardsClients>),
}

impl Channel {
    /// What a SCRAM login can be bound to.
    pub(super) fn binding(&self) -> ChannelBinding {
        match self {
            Self::Tls(towards) => towards
                .end_point()
                .map_or(ChannelBinding::Unavailable, |hash| ChannelBinding::ServerEndPoint(hash.to_vec())),
            Self::Local | Self::Clear => ChannelBinding::Unavailable,
        }
    }

    /// Is it good enough for `tls.client.mode`? What hostssl and clientcert say in pg_hba.conf; a Unix socket is no host.
    pub(super) fn check(&self, client: &Client, mode: ClientMode, startup: &StartupMessage) -> Result<(), End> {
        match (self, mode) {
            (Self::Local, _) | (_, ClientMode::Disable | ClientMode::Prefer) => Ok(()),
            (Self::Clear, ClientMode::Require | ClientMode::Verify) => {
                let host = client.stream.peer().ip().map(|ip| ip.to_string()).unwrap_or_default();
                Err(End::Fatal(
                    SqlState::INVALID_AUTHORIZATION,
                    format!(
                        "connections without TLS are not accepted for host \"{host}\", user \"{}\", database \"{}\": set sslmode=require",
                        startup.user, startup.database
                    ),
                ))
            }
            (Self::Tls(_), ClientMode::Require) => Ok(()),
            (Self::Tls(_), ClientMode::Verify) => match client.stream.peer_certificate() {
                Some(_) => Ok(()),
                None => Err(no_certificate()),
            },
        }
    }

    /// `auth.method: cert`: the certificate's common name is the user's.
    pub(super) fn proves(&self, client: &Client, user: &str) -> Result<(), End> {
        let certificate = client.stream.peer_certificate().ok_or_else(no_certificate)?;
        if common_name(certificate).as_deref() == Some(user) {
            return Ok(());
        }
        Err(End::Fatal(
            SqlState::INVALID_AUTHORIZATION,
            format!("certificate authentication failed for user \"{user}\""),
        ))
    }
}

fn no_certificate() -> End {
    End::Fatal(SqlState::INVALID_AUTHORIZATION, "connection requires a valid client certificate".into())
}

/// Up to the StartupMessage. `Ok(None)`: there is nothing to serve.
pub(super) async fn first_packets(
    client: &mut Client,
    worker: &Worker,
) -> Result<Option<(StartupMessage, Channel)>, End> {
    let mut channel = match client.stream.peer() {
        Peer::Local => Channel::Local,
        Peer::Ip(_) => Channel::Clear,
    };
    let mut asked = Asked::default();
    loop {
        match next_packet(client, worker, &channel, &mut asked).await? {
            Next::Nothing => return Ok(None),
            Next::Startup(startup) => return Ok(Some((startup, channel))),
            Next::Tls(towards) => {
                let (peer, is_direct) = (client.stream.peer(), !asked.tls);
                if let Err(error) = client.accept_tls(&towards).await {
                    // The client has an alert, if anything; PostgreSQL logs it, too.
                    tracing::info!(?peer, %error, "no TLS connection with a client");
                    return Ok(None);
                }
                if is_direct && client.stream.alpn() != Some(ALPN) {
                    // Or a client of another protocol could be made to talk to us; PostgreSQL 17 refuses it, too.
                    let message = "direct TLS needs the ALPN protocol \"postgresql\"".into();
                    return Err(End::Fatal(SqlState::PROTOCOL_VIOLATION, message));
                }
                channel = Channel::Tls(towards);
                asked = Asked { tls: true, gss: true };
            }
        }
    }
}

/// What has been asked for. Each kind of encryption can be asked for once, and none inside TLS (PostgreSQL's
/// `ProcessStartupPacket`).
#[derive(Debug, Default)]
struct Asked {
    tls: bool,
    gss: bool,
}

/// What a client wants next.
enum Next {
    Nothing,
    Startup(StartupMessage),
    Tls(Arc<TowardsClients>),
}

async fn next_packet(client: &mut Client, worker: &Worker, channel: &Channel, asked: &mut Asked) -> Result<Next, End> {
    // Whatever a reload may change meanwhile.
    let offer = match channel {
        Channel::Clear => worker.shared.snapshot.load().config.tls.client.clone(),
        Channel::Local | Channel::Tls(_) => None,
    };
    loop {
        if let (Some(&TLS_HANDSHAKE), Some(towards), Asked { tls: false, gss: false }) =
            (client.pending().first(), &offer, &asked)
        {
            return Ok(Next::Tls(Arc::clone(towards)));
        }
        let first = match next_first(client.pending()) {
            Ok(Some((first, used))) => {
                client.consume(used);
                first
            }
            Ok(None) if client.pending().len() <= MAX_STARTUP + 4 => {
                client.fill().await?;
                continue;
            }
            Ok(None) => return Ok(Next::Nothing),
            // As a server: nothing is said to a CancelRequest, not even that it is none.
            Err(_) if is_cancel(client.pending()) => return Ok(Next::Nothing),
            Err(error) => return Err(fatal(&error)),
        };
        match first {
            First::Ssl if asked.tls => return Err(fatal(&StartupError::Protocol(Protocol::from_code(SSL_REQUEST)))),
            First::Gssenc if asked.gss => {
                return Err(fatal(&StartupError::Protocol(Protocol::from_code(GSSENC_REQUEST))));
            }
            First::Ssl => {
                asked.tls = true;
                if let Some(towards) = &offer {
                    if !client.pending().is_empty() {
                        // Whoever put it there need not be who will be at the other end of TLS (CVE-2021-23214).
                        let message = "received unencrypted data after SSL request".into();
                        return Err(End::Fatal(SqlState::PROTOCOL_VIOLATION, message));
                    }
                    answer(client, b'S').await?;
                    return Ok(Next::Tls(Arc::clone(towards)));
                }
                answer(client, b'N').await?;
            }
            First::Gssenc => {
                asked.gss = true;
                answer(client, b'N').await?;
            }
            First::Cancel(request) => {
                if let Some(target) = worker.shared.keys.find(request.pid, &request.key) {
                    (worker.shared.forward_cancel)(target, request.pid);
                }
                return Ok(Next::Nothing);
            }
            First::Startup(startup) => return Ok(Next::Startup(startup)),
        }
    }
}

async fn answer(client: &mut Client, byte: u8) -> Result<(), End> {
    client.say().push(byte);
    Ok(client.flush().await?)
}

fn fatal(error: &StartupError) -> End {
    End::Fatal(error.sqlstate(), error.to_client().into_owned())
}
