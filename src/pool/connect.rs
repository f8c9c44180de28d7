//! Dialling a server and logging in to it.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout;

use super::{BackendKey, CancelTarget, Login, Params, Pool, Prepared, Server, Welcome};
use crate::{
    base::{Blame, Report, SqlState},
    net::{DialError, Stream},
    tls::{TowardsServers, server_end_point},
    wire::{
        HEAD_BYTES, WireError,
        backend::{Authentication, BackendKeyData, ErrorFields, ParameterStatus, tag},
        frontend, next_head,
        scram::{self, ChannelBinding, Nonce, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, client::ServerFault},
        startup::Protocol,
    },
};

/// From the first SYN to ReadyForQuery.
pub const LOGIN_DEADLINE: Duration = Duration::from_secs(5);
/// No message of a login is longer.
const LOGIN_CAP: u32 = 64 * 1024;

/// No server connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody there.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The connection ended during login.
    #[error("connection ended during login: {0}")]
    Io(#[from] std::io::Error),
    /// Login took too long.
    #[error("login took longer than {0:?}")]
    Deadline(Duration),
    /// The server said no.
    #[error("server refused the login: {message} ({sqlstate})")]
    Refused {
        /// Its code.
        sqlstate: SqlState,
        /// Its words.
        message: String,
    },
    /// The server wants a password and we have none.
    #[error("server asks for a password, but none is configured for this user")]
    NoPassword,
    /// The server wants a password and only SCRAM keys are known.
    #[error("server asks for a password, but only a SCRAM verifier is known of this user")]
    OnlyKeys,
    /// The user is known by its verifier, and no client has proved its keys yet.
    #[error("no client has logged in with the password of this user yet, and only a SCRAM verifier is known of it")]
    NoKeys,
    /// The server wants something we cannot do.
    #[error("server asks for an authentication method that is not supported (code {0})")]
    Method(u32),
    /// SCRAM failed.
    #[error(transparent)]
    Scram(#[from] ServerFault),
    /// The server broke the protocol.
    #[error("server broke the protocol during login: {0}")]
    Wire(#[from] WireError),
}

impl ConnectError {
    /// Is the node itself in doubt (and not only this login)?
    pub fn doubts_node(&self) -> bool {
        match self {
            // Certificates are no sign of life or death; the probes need them, too.
            Self::Dial(error) => !error.is_about_tls(),
            Self::Io(_) | Self::Deadline(_) | Self::Wire(_) => true,
            Self::Refused { sqlstate, .. } => {
                matches!(*sqlstate, SqlState::CANNOT_CONNECT_NOW | SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN)
            }
            Self::NoPassword | Self::OnlyKeys | Self::NoKeys | Self::Method(_) | Self::Scram(_) => false,
        }
    }
}

impl Report for ConnectError {
    fn blame(&self) -> Blame {
        match self {
            Self::NoPassword
            | Self::OnlyKeys
            | Self::NoKeys
            | Self::Method(_)
            | Self::Scram(ServerFault::ForeignKeys) => Blame::Operator,
            Self::Dial(error) if error.is_about_tls() => Blame::Operator,
            Self::Dial(_) | Self::Io(_) | Self::Deadline(_) | Self::Refused { .. } | Self::Scram(_) | Self::Wire(_) => {
                Blame::Server
            }
        }
    }

    fn sqlstate(&self) -> SqlState {
        match self {
            Self::Refused { sqlstate, .. } => *sqlstate,
            Self::NoPassword | Self::OnlyKeys | Self::NoKeys | Self::Method(_) | Self::Scram(_) => {
                SqlState::INVALID_AUTHORIZATION
            }
            Self::Dial(_) | Self::Io(_) | Self::Deadline(_) | Self::Wire(_) => SqlState::CANNOT_CONNECT_NOW,
        }
    }

    fn to_client(&self) -> Cow<'static, str> {
        match self {
            Self::Refused { message, .. } => message.clone().into(),
            Self::Scram(ServerFault::ForeignKeys) => {
                "the server holds another SCRAM verifier of this user than the one the client has logged in with; \
                 log in again, or give pgsluice the server's"
                    .into()
            }
            Self::NoPassword | Self::OnlyKeys | Self::NoKeys | Self::Method(_) | Self::Scram(_) => {
                "pgsluice could not log in to the server as this user; its configuration must be mended".into()
            }
            Self::Dial(error) if error.is_about_tls() => {
                "pgsluice has no TLS connection to the server that its tls.server allows; its log says why".into()
            }
            Self::Dial(_) | Self::Io(_) | Self::Deadline(_) | Self::Wire(_) => "the server cannot be reached".into(),
        }
    }
}

/// Dials and logs in. The startup packet holds user and database only: what stands in it is what DISCARD ALL returns to, so it
/// must be nobody's wish.
pub(super) async fn connect(pool: &Arc<Pool>, worker: usize) -> Result<Server, ConnectError> {
    // The epoch first: a connection made with settings of before must not count as one of after.
    let epoch = pool.epoch();
    let login = pool.login();
    let (max_prepared, tls) = {
        let settings = pool.settings();
        (settings.max_prepared, settings.tls.clone())
    };
    let talk = async {
        let (mut inbox, tls) = match log_in(pool, &login, &tls).await {
            // pg_hba.conf may let in only what is not encrypted; libpq's prefer tries both.
            Err(ConnectError::Refused { sqlstate: SqlState::INVALID_AUTHORIZATION, message }) => match tls.fallback() {
                Some(clear) => (log_in(pool, &login, &clear).await?, clear),
                None => return Err(ConnectError::Refused { sqlstate: SqlState::INVALID_AUTHORIZATION, message }),
            },
            other => (other?, tls),
        };
        let (key, parameters) = greet(&mut inbox).await?;
        let now = Instant::now();
        pool.note_welcome(Arc::new(Welcome { parameters, asked: now }));
        let tail = inbox.bytes.split_off(inbox.start);
        Ok(Server {
            stream: inbox.stream,
            home: worker,
            tail,
            params: Params::default(),
            prepared: Prepared::new(max_prepared),
            unnamed: None,
            flushes: None,
            temporary: false,
            residue: None,
            borrower: None,
            strange_sequences: false,
            own_sequences: false,
            code: false,
            stale_plans: false,
            target: Arc::new(CancelTarget { address: pool.address.clone(), tls, key }),
            epoch,
            born: now,
            idle_since: now,
            uses: 0,
        })
    };
    match timeout(LOGIN_DEADLINE, talk).await {
        Ok(server) => server,
        Err(_) => Err(ConnectError::Deadline(LOGIN_DEADLINE)),
    }
}

/// From dialling to AuthenticationOk.
async fn log_in(pool: &Pool, login: &Login, tls: &TowardsServers) -> Result<Inbox, ConnectError> {
    let mut stream = pool.address.dial(tls, LOGIN_DEADLINE).await?;
    let mut out = Vec::with_capacity(128);
    frontend::startup(&mut out, Protocol::V3_0.code(), &[("user", &login.user), ("database", &login.dbname)]);
    stream.write_all(&out).await?;
    let mut inbox = Inbox { stream, bytes: Vec::with_capacity(1024), start: 0 };
    authenticate(&mut inbox, login).await?;
    Ok(inbox)
}

/// Whole messages, one after the other.
struct Inbox {
    stream: Stream,
    bytes: Vec<u8>,
    start: usize,
}

impl Inbox {
    /// The next message's tag and body. An ErrorResponse is the end of a login.
    async fn message(&mut self) -> Result<(u8, Vec<u8>), ConnectError> {
        loop {
            if let Some(head) = next_head(&self.bytes[self.start..], LOGIN_CAP)?
                && let Some(frame) = self.bytes.get(self.start..self.start + head.total())
            {
                let body = frame[HEAD_BYTES..].to_vec();
                self.start += head.total();
                if head.tag == tag::ERROR_RESPONSE {
                    let fields = ErrorFields::parse(&body)?;
                    let message = String::from_utf8_lossy(fields.message().unwrap_or_default()).into_owned();
                    let sqlstate = fields.sqlstate().unwrap_or(SqlState::INTERNAL_ERROR);
                    return Err(ConnectError::Refused { sqlstate, message });
                }
                return Ok((head.tag, body));
            }
            let mut chunk = [0u8; 4096];
            match self.stream.read(&mut chunk).await? {
                0 => return Err(ConnectError::Io(std::io::ErrorKind::UnexpectedEof.into())),
                n => self.bytes.extend_from_slice(&chunk[..n]),
            }
        }
    }

    async fn authentication(&mut self) -> Result<Vec<u8>, ConnectError> {
        loop {
            match self.message().await? {
                (tag::AUTHENTICATION, body) => return Ok(body),
                (tag::NOTICE_RESPONSE | tag::NEGOTIATE_PROTOCOL_VERSION, _) => {}
                (other, _) => return Err(unexpected(other)),
            }
        }
    }
}

fn unexpected(tag: u8) -> ConnectError {
    ConnectError::Wire(WireError::BadValue { what: "message during login", value: tag.into() })
}

async fn authenticate(inbox: &mut Inbox, login: &Login) -> Result<(), ConnectError> {
    let mut out = Vec::new();
    loop {
        let body = inbox.authentication().await?;
        let request = Authentication::parse(&body)?;
        match request {
            Authentication::Ok => return Ok(()),
            Authentication::CleartextPassword => frontend::password(&mut out, login.password()?.as_bytes()),
            Authentication::Md5Password { salt } => frontend::password(&mut out, login.md5(salt)?.as_bytes()),
            Authentication::Sasl { .. } => {
                let binding = binding(&inbox.stream, &request);
                if !request.offers(SCRAM_SHA_256) && !matches!(binding, ChannelBinding::ServerEndPoint(_)) {
                    return Err(ConnectError::Method(10));
                }
                scram_exchange(inbox, login, &binding).await?;
            }
            Authentication::SaslContinue { .. } => return Err(ConnectError::Method(11)),
            Authentication::SaslFinal { .. } => return Err(ConnectError::Method(12)),
            Authentication::Other { code } => return Err(ConnectError::Method(code)),
        }
        if !out.is_empty() {
            inbox.stream.write_all(&out).await?;
            out.clear();
        }
    }
}

/// Binds the login to the TLS channel wherever both sides can: then nobody in between can pass for the server.
fn binding(stream: &Stream, request: &Authentication<'_>) -> ChannelBinding {
    match stream.peer_certificate().and_then(server_end_point) {
        Some(hash) if request.offers(SCRAM_SHA_256_PLUS) => ChannelBinding::ServerEndPoint(hash),
        Some(_) => ChannelBinding::NotOffered,
        None => ChannelBinding::Unavailable,
    }
}

async fn scram_exchange(inbox: &mut Inbox, login: &Login, binding: &ChannelBinding) -> Result<(), ConnectError> {
    let opening = scram::client::open(binding, Nonce::random());
    let mut out = Vec::new();
    frontend::sasl_initial(&mut out, opening.mechanism, &opening.message);
    inbox.stream.write_all(&out).await?;
    let body = inbox.authentication().await?;
    let Authentication::SaslContinue { message } = Authentication::parse(&body)? else {
        return Err(ConnectError::Method(11));
    };
    let (next, reply) = login.scram(|secret| Ok(opening.next.server_first(message, secret)?))?;
    out.clear();
    frontend::sasl_response(&mut out, &reply);
    inbox.stream.write_all(&out).await?;
    let body = inbox.authentication().await?;
    let Authentication::SaslFinal { message } = Authentication::parse(&body)? else {
        return Err(ConnectError::Method(12));
    };
    login.accepted(next.server_final(message)?);
    Ok(())
}

type Greeting = (BackendKey, Vec<(Box<str>, Box<str>)>);

/// From AuthenticationOk to ReadyForQuery.
async fn greet(inbox: &mut Inbox) -> Result<Greeting, ConnectError> {
    let mut key = BackendKey { pid: 0, secret: Box::new([0; 4]) };
    let mut parameters = Vec::new();
    loop {
        let (tag, body) = inbox.message().await?;
        match tag {
            tag::PARAMETER_STATUS => {
                let status = ParameterStatus::parse(&body)?;
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned().into_boxed_str();
                parameters.push((text(status.name), text(status.value)));
            }
            tag::BACKEND_KEY_DATA => {
                let given = BackendKeyData::parse(&body)?;
                key = BackendKey { pid: given.pid, secret: given.key.into() };
            }
            tag::NOTICE_RESPONSE => {}
            tag::READY_FOR_QUERY => return Ok((key, parameters)),
            other => return Err(unexpected(other)),
        }
    }
}
