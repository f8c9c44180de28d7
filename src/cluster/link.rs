//! A connection of the control plane's own to one node.

use std::time::Duration;

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
    net::{Address, DialError, Stream},
    tls::TowardsServers,
};

/// Longest wait for a connection: a stopped server neither refuses nor answers.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// Neither an answer nor a refusal.
    #[error("no answer within {} s", .0.as_secs())]
    Deadline(Duration),
    /// Nobody there, or no TLS.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Refused or broken.
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
    /// Answered, but not what PostgreSQL answers to this question.
    #[error("unexpected answer: {0}")]
    Nonsense(&'static str),
}

impl LinkError {
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
            Self::Deadline(_) | Self::Dial(_) | Self::Nonsense(_) => self.to_string(),
        }
    }
}

/// An open connection. Dropping it closes it.
pub(super) struct Link {
    client: Client,
    driver: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        // The driver of a stopped server would wait for ever to send its Terminate.
        self.driver.abort();
    }
}

impl Link {
    /// Logs in. `options` are further words of the startup packet's.
    pub(super) async fn connect(host: &Host, login: &Login, options: &str) -> Result<Self, LinkError> {
        timeout(DEADLINE, Self::dial(host, login, options)).await.map_err(|_| LinkError::Deadline(DEADLINE))?
    }

    async fn dial(host: &Host, login: &Login, options: &str) -> Result<Self, LinkError> {
        let first = Self::log_in(host, login, options, &login.tls).await;
        let Some(clear) = login.tls.fallback() else { return first };
        match first {
            // As the pools do: pg_hba.conf may let in only what is not encrypted.
            Err(LinkError::Postgres(error)) if error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                Self::log_in(host, login, options, &clear).await
            }
            other => other,
        }
    }

    async fn log_in(host: &Host, login: &Login, options: &str, tls: &TowardsServers) -> Result<Self, LinkError> {
        let mut config = tokio_postgres::Config::new();
        config
            .user(&login.user)
            .dbname(&login.dbname)
            .application_name("pgsluice")
            // In the startup packet and not by SET: where a role defaults to serializable, a standby refuses
            // every statement, SET included.
            .options(format!(r"-c default_transaction_isolation=read\ committed {options}"));
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
        Ok(Self { client, driver })
    }

    /// All rows that a text gives.
    pub(super) async fn rows(&self, sql: &str) -> Result<Vec<SimpleQueryRow>, LinkError> {
        let messages = self.client.simple_query(sql).await?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows.collect())
    }

    /// Its first row.
    pub(super) async fn row(&self, sql: &str) -> Result<SimpleQueryRow, LinkError> {
        self.rows(sql).await?.into_iter().next().ok_or(LinkError::Nonsense("no row"))
    }
}
