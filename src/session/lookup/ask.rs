//! One question to one server: `auth.query` with the user's name.

use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{DEADLINE, LookupError, Question};
use crate::{
    base::SqlState,
    config::{Auth, Config, Database, Secret},
    net::Address,
    pool::{CheckoutError, Lease, Local, Login, PoolKey, Pools, Proof, Settings},
    session::probe::order,
    wire::{
        HEAD_BYTES,
        backend::{DataRow, ErrorFields, TxStatus, tag},
        frontend, next_head,
    },
};

/// Connections to a node for questions. A user whose look-up is slow keeps one of them.
const CONNECTIONS: usize = 4;
/// One that nobody needed for so long is closed.
const IDLE: Duration = Duration::from_secs(60);
/// Longest message of an answer.
const CAP: u32 = 64 * 1024;

/// What the first node that answers says. `None`: no such user.
pub(super) async fn ask(question: &Question, pools: &Pools) -> Result<Option<Secret>, LookupError> {
    let snapshot = &question.snapshot;
    let (auth, database) = (&snapshot.config.auth, snapshot.config.databases.get(question.database));
    let (Some(query), Some(database), Some(view)) = (&auth.query, database, snapshot.views.get(question.database))
    else {
        return Ok(None);
    };
    let mut failure = LookupError::Deadline;
    for node in order(&view.load(), database.nodes.len()) {
        let (Some(node), Some(login)) = (database.nodes.get(node), login(auth, database)) else { continue };
        let key = PoolKey {
            database: database.name.as_str().into(),
            node: node.id,
            address: Address::new(&node.host, node.port),
            dbname: login.dbname.clone(),
            user: login.user.clone(),
        };
        let pool = pools.pool(key, login, settings(&snapshot.config));
        let local = Rc::new(Local { pool, worker: question.worker.index });
        // A connection that lay idle may have died unnoticed, a new one has not.
        for _ in 0..2 {
            match local.checkout(DEADLINE).await {
                Ok(lease) => match run(lease, query, &question.user).await {
                    Err(LookupError::Lost) => failure = LookupError::Lost,
                    answer => return answer,
                },
                Err(CheckoutError::Connect(error)) => {
                    question.worker.shared.no_connection(&node.name, &error);
                    failure = CheckoutError::Connect(error).into();
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Err(failure)
}

/// `auth.user`, or else the database's server user.
fn login(auth: &Auth, database: &Database) -> Option<Login> {
    let (user, password) = match (&auth.user, &database.server_user) {
        (Some(user), _) => (user, &auth.password),
        (None, Some(user)) => (user, &database.server_password),
        (None, None) => return None,
    };
    let dbname = match (&auth.database, &database.dbname, database.name.as_str()) {
        (Some(name), ..) | (None, Some(name), _) => name.as_str(),
        // Anybody may ask for any name here; every cluster has this one.
        (None, None, "*") => "postgres",
        (None, None, name) => name,
    };
    let proof = password.as_deref().map_or(Proof::None, |password| Proof::Password(password.into()));
    Some(Login::new(user, dbname, proof, Arc::default()))
}

fn settings(config: &Config) -> Settings {
    Settings {
        size: CONNECTIONS,
        min_idle: 0,
        checkout_timeout: DEADLINE,
        idle_timeout: IDLE,
        max_lifetime: Duration::from_secs(3600),
        max_prepared: 1,
        tls: config.tls.server.clone(),
    }
}

async fn run(mut lease: Lease, query: &str, user: &str) -> Result<Option<Secret>, LookupError> {
    let server = lease.server().ok_or(LookupError::Lost)?;
    let mut message = Vec::with_capacity(query.len() + user.len() + 64);
    frontend::parse(&mut message, b"", query.as_bytes(), &[]);
    frontend::bind_texts(&mut message, &[user.as_bytes()]);
    frontend::execute(&mut message, b"", 0);
    frontend::sync(&mut message);
    server.stream.write_all(&message).await.map_err(|_| LookupError::Lost)?;
    let mut answer = Answer::default();
    let mut bytes = std::mem::take(&mut server.tail);
    let mut chunk = vec![0u8; 4 * 1024];
    while answer.status.is_none() {
        while let Some(head) = next_head(&bytes, CAP).map_err(|_| LookupError::Lost)? {
            let Some(body) = bytes.get(HEAD_BYTES..head.total()) else { break };
            answer.take(head.tag, body)?;
            bytes.drain(..head.total());
            if answer.status.is_some() {
                break;
            }
        }
        if answer.status.is_none() {
            match server.stream.read(&mut chunk).await {
                Ok(n @ 1..) => bytes.extend_from_slice(&chunk[..n]),
                Ok(0) | Err(_) => return Err(LookupError::Lost),
            }
        }
    }
    server.tail = bytes;
    server.unnamed = None;
    if answer.status == Some(TxStatus::Idle) {
        lease.give_back(Instant::now());
    }
    answer.secret(user)
}

/// What has come so far.
#[derive(Default)]
struct Answer {
    rows: usize,
    name: Option<Vec<u8>>,
    secret: Option<Vec<u8>>,
    columns: u16,
    error: Option<LookupError>,
    status: Option<TxStatus>,
}

impl Answer {
    fn take(&mut self, tag: u8, body: &[u8]) -> Result<(), LookupError> {
        match tag {
            tag::DATA_ROW => {
                self.rows += 1;
                let row = DataRow::parse(body).map_err(|_| LookupError::Lost)?;
                let mut columns = row.columns().map(|value| value.ok().flatten().map(<[u8]>::to_vec));
                (self.columns, self.name, self.secret) =
                    (row.count, columns.next().flatten(), columns.next().flatten());
            }
            tag::ERROR_RESPONSE => {
                let fields = ErrorFields::parse(body).map_err(|_| LookupError::Lost)?;
                if fields.severity() != Some(b"ERROR") {
                    return Err(LookupError::Lost);
                }
                self.error = Some(LookupError::Query {
                    sqlstate: fields.sqlstate().unwrap_or(SqlState::INTERNAL_ERROR),
                    message: String::from_utf8_lossy(fields.message().unwrap_or_default()).into(),
                });
            }
            tag::READY_FOR_QUERY => self.status = Some(TxStatus::parse(body).map_err(|_| LookupError::Lost)?),
            _ => {}
        }
        Ok(())
    }

    fn secret(self, user: &str) -> Result<Option<Secret>, LookupError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        match (self.rows, self.columns) {
            (0, _) => return Ok(None),
            (1, 2..) => {}
            (1, _) => return Err(LookupError::Answer("one column instead of two, user and secret")),
            _ => return Err(LookupError::Answer("several rows for one user")),
        }
        if self.name.is_none() && self.secret.is_none() {
            // What a function with OUT parameters gives for somebody it does not find.
            return Ok(None);
        }
        // Whoever logs in is the one it says it is, or nobody.
        if self.name.as_deref() != Some(user.as_bytes()) {
            return Err(LookupError::Answer("another user than the one it was asked for"));
        }
        match self.secret.map(String::from_utf8) {
            // It exists, and no password lets it in.
            None => Ok(Some(Secret::None)),
            Some(Ok(text)) => match Secret::read(&text) {
                Some(secret) => Ok(Some(secret)),
                None => Err(LookupError::Answer("a secret that is none")),
            },
            Some(Err(_)) => Err(LookupError::Answer("a secret that is not UTF-8")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::backend;

    /// `(name, secret)` per row; `∅`: NULL.
    fn told(rows: &[&[&str]], user: &str) -> String {
        let mut answer = Answer::default();
        for row in rows {
            let mut out = Vec::new();
            let columns: Vec<Option<&[u8]>> = row.iter().map(|v| (*v != "∅").then_some(v.as_bytes())).collect();
            backend::data_row(&mut out, &columns);
            answer.take(tag::DATA_ROW, &out[HEAD_BYTES..]).expect("a row");
        }
        match answer.secret(user) {
            Ok(secret) => format!("{secret:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn answers_are_taken_for_what_they_are() {
        let verifier = "SCRAM-SHA-256$4096:AAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let table: &[(&[&[&str]], &str)] = &[
            (&[], "None"),
            (&[&["∅", "∅"]], "None"),
            (&[&["u", "∅"]], "Some(None)"),
            (&[&["u", "clear"]], "Some(Password(…))"),
            (&[&["u", "md5c4ca4238a0b923820dcc509a6f75849b", "more"]], "Some(Md5(…))"),
            (&[&["u", verifier]], "Some(Verifier(…))"),
            (&[&["u", ""]], "the query gave a secret that is none"),
            (&[&["u", "SCRAM-SHA-256$x"]], "the query gave a secret that is none"),
            (&[&["v", "clear"]], "the query gave another user than the one it was asked for"),
            (&[&["∅", "clear"]], "the query gave another user than the one it was asked for"),
            (&[&["u"]], "the query gave one column instead of two, user and secret"),
            (&[&["u", "a"], &["u", "b"]], "the query gave several rows for one user"),
        ];
        for (rows, wanted) in table {
            assert_eq!(told(rows, "u"), *wanted, "{rows:?}");
        }
    }

    #[test]
    fn only_an_error_is_the_query_s_own() {
        let mut answer = Answer::default();
        answer.take(tag::ERROR_RESPONSE, b"SERROR\0VERROR\0C42501\0Mpermission denied\0\0").expect("an error");
        assert_eq!(answer.secret("u").map_err(|e| e.to_string()), Err("permission denied (42501)".to_owned()));
        let fatal = Answer::default().take(tag::ERROR_RESPONSE, b"SFATAL\0VFATAL\0C57P01\0Mgoing\0\0");
        assert!(matches!(fatal, Err(LookupError::Lost)));
    }
}
