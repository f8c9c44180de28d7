//! One connection to one node, and the question asked on it.

use std::{str::FromStr, time::Duration};

use tokio::{task::JoinHandle, time::timeout};
use tokio_postgres::{
    Client, SimpleQueryMessage, SimpleQueryRow,
    config::{SslMode, SslNegotiation},
    error::SqlState,
};

use super::{
    carrier::{Begun, Carrier},
    state::{Host, Login},
};
use crate::{
    base::{Clock, Lsn},
    net::{Address, DialError, Stream},
    tls::TowardsServers,
};

/// Longest wait for a connection, and again for an answer: a stopped server neither refuses nor answers.
const DEADLINE: Duration = Duration::from_secs(2);

/// Asked once per connection. Both functions are open to everybody unless an administrator revoked it; then the
/// system identifier stays unknown, and nothing is written to the server's log.
const ONCE: &str = "SELECT pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'execute')";
const SYSTEM: &str = "SELECT system_identifier FROM pg_catalog.pg_control_system()";

/// Asked every time. Functions that a standby (or a primary) refuses stand behind CASE; they are volatile, so the
/// planner does not call them early.
const ASK: &str = "SELECT r AS in_recovery, \
    CASE WHEN NOT r THEN pg_catalog.pg_current_wal_flush_lsn() END AS flush, \
    CASE WHEN NOT r THEN pg_catalog.pg_current_wal_insert_lsn() END AS insert, \
    CASE WHEN r THEN pg_catalog.pg_last_wal_replay_lsn() END AS replay, \
    CASE WHEN NOT r THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END AS walfile, \
    (SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver LIMIT 1) AS received_tli, \
    pg_catalog.pg_postmaster_start_time() AS started, \
    pg_catalog.current_setting('synchronous_commit') AS synchronous_commit, \
    pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size')) AS wal_segment \
    FROM (SELECT pg_catalog.pg_is_in_recovery() AS r OFFSET 0) AS s";

/// What a node said about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// `pg_is_in_recovery()`.
    pub(super) in_recovery: bool,
    /// Flushed (primary; inserted if commits do not wait for the flush) or replayed (replica).
    pub(super) lsn: Option<Lsn>,
    /// Inserted (primary); the same as `lsn` on a replica.
    pub(super) insert: Option<Lsn>,
    /// Timeline it writes (primary) or receives (replica, if we may see it).
    pub(super) timeline: Option<u32>,
    /// `pg_postmaster_start_time()` as text: only compared.
    pub(super) started: String,
    /// `wal_segment_size` in bytes, 0 if unknown.
    pub(super) wal_segment: u64,
    /// `system_identifier`, if we may see it.
    pub(super) system: Option<String>,
    /// Clock before the question was sent.
    pub(super) begun: Duration,
    /// Clock after the answer was read.
    pub(super) ended: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    /// Neither an answer nor a refusal.
    #[error("no answer within {} s", DEADLINE.as_secs())]
    Deadline,
    /// Nobody there, or no TLS.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Refused or broken.
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
    /// Answered, but not what PostgreSQL ≥ 10 answers.
    #[error("unexpected answer to the probe: {0}")]
    Nonsense(&'static str),
}

impl ProbeError {
    /// The server lives but has no connection left: says nothing against the connections that the pools hold.
    pub(super) fn is_crowded(&self) -> bool {
        matches!(self, Self::Postgres(error) if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS))
    }

    /// The text for the log: the server's own words where it gave some.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Postgres(error) => match (error.as_db_error(), std::error::Error::source(error)) {
                (Some(db), _) => format!("{}: {}", db.code().code(), db.message()),
                (None, Some(cause)) => format!("{error}: {cause}"),
                (None, None) => error.to_string(),
            },
            Self::Deadline | Self::Dial(_) | Self::Nonsense(_) => self.to_string(),
        }
    }
}

/// An open probe connection. Dropping it closes the connection.
pub(super) struct Probe {
    client: Client,
    driver: JoinHandle<()>,
    system: Option<String>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        // The driver of a stopped server would wait for ever to send its Terminate.
        self.driver.abort();
    }
}

impl Probe {
    /// Connects and asks what cannot change within a connection.
    pub(super) async fn connect(host: &Host, login: &Login) -> Result<Self, ProbeError> {
        timeout(DEADLINE, Self::dial(host, login)).await.map_err(|_| ProbeError::Deadline)?
    }

    async fn dial(host: &Host, login: &Login) -> Result<Self, ProbeError> {
        let first = Self::log_in(host, login, &login.tls).await;
        let Some(clear) = login.tls.fallback() else { return first };
        match first {
            // As the pools do: pg_hba.conf may let in only what is not encrypted.
            Err(ProbeError::Postgres(error))
                if error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) =>
            {
                Self::log_in(host, login, &clear).await
            }
            other => other,
        }
    }

    async fn log_in(host: &Host, login: &Login, tls: &TowardsServers) -> Result<Self, ProbeError> {
        let mut config = tokio_postgres::Config::new();
        config
            .user(&login.user)
            .dbname(&login.dbname)
            .application_name("pgsluice")
            // In the startup packet and not by SET: where a role defaults to serializable, a standby refuses
            // every statement, SET included.
            .options(r"-c default_transaction_isolation=read\ committed -c statement_timeout=2000");
        if let Some(password) = &login.password {
            config.password(password);
        }
        let stream = Address::new(&host.name, host.port).dial(tls, DEADLINE).await?;
        // TLS has begun already, or never will: the library is to ask for nothing.
        match &stream {
            Stream::Tls(_) => config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct),
            Stream::Tcp(_) | Stream::Unix(_) | Stream::Taken => config.ssl_mode(SslMode::Disable),
        };
        let (client, connection) = config.connect_raw(Carrier(stream), Begun).await?;
        let driver = tokio::spawn(async move {
            // Its errors reach the caller through the client's requests.
            let _ = connection.await;
        });
        let mut probe = Self { client, driver, system: None };
        if probe.row(ONCE).await?.try_get(0)? == Some("t") {
            probe.system = probe.row(SYSTEM).await?.try_get(0)?.map(str::to_owned);
        }
        Ok(probe)
    }

    /// Asks where the node stands.
    pub(super) async fn ask(&self, clock: &Clock) -> Result<Sample, ProbeError> {
        let begun = clock.now();
        let row = timeout(DEADLINE, self.row(ASK)).await.map_err(|_| ProbeError::Deadline)??;
        let text = |name: &'static str| row.try_get(name);
        let lsn = |name: &'static str| -> Result<Option<Lsn>, ProbeError> {
            text(name)?.map(Lsn::from_str).transpose().map_err(|_| ProbeError::Nonsense(name))
        };
        let in_recovery = text("in_recovery")? == Some("t");
        let (lsn, insert) = if in_recovery {
            (lsn("replay")?, lsn("replay")?)
        } else if text("synchronous_commit")? == Some("off") {
            (lsn("insert")?, lsn("insert")?)
        } else {
            (lsn("flush")?, lsn("insert")?)
        };
        let timeline = match text("walfile")? {
            Some(walfile) => walfile.get(..8).and_then(|hex| u32::from_str_radix(hex, 16).ok()),
            None => text("received_tli")?.and_then(|number| number.parse().ok()),
        };
        Ok(Sample {
            in_recovery,
            lsn,
            insert,
            timeline,
            started: text("started")?.ok_or(ProbeError::Nonsense("started"))?.to_owned(),
            wal_segment: text("wal_segment")?.and_then(|bytes| bytes.parse().ok()).unwrap_or(0),
            system: self.system.clone(),
            begun,
            ended: clock.now(),
        })
    }

    async fn row(&self, query: &str) -> Result<SimpleQueryRow, ProbeError> {
        let messages = self.client.simple_query(query).await?;
        messages
            .into_iter()
            .find_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            })
            .ok_or(ProbeError::Nonsense("no row"))
    }
}
