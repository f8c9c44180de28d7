//! From accept to the first ReadyForQuery.

use std::{rc::Rc, time::Duration};

use super::{
    admission::{Admitted, Connected, Full},
    auth::authenticate,
    cancel::LongKey,
    deeds::Deeds,
    end::End,
    first::first_packets,
    half_open::{self, HalfOpen},
    probe::Probe,
    state::{Pins, Session},
    statements::Names,
    tx::Tx,
    welcome::{Answer, Asked, Known},
    worker::Worker,
};
use crate::{
    base::{Report, SqlState},
    net::Stream,
    observe::{ClientState, LimitHit, LoginEnd},
    policy::Identity,
    pool::{Lease, Params, set_all},
    relay::{Client, Feed, Outgoing},
    route::Floor,
    sql::StringRules,
    wire::{
        backend::{self, DataRow, ErrorText, Severity, TxStatus},
        startup::{Protocol, Replication, StartupMessage},
    },
};

/// Serves one client from its first byte to its last.
pub async fn serve(stream: Stream, worker: Rc<Worker>, connected: Connected) {
    let snapshot = worker.shared.snapshot.load_full();
    let limits = &snapshot.config.limits;
    let mut client = Client::new(stream, Rc::clone(&worker.buffers));
    let half_open = worker.half_open.begin(HalfOpen::most(limits.clients, snapshot.config.workers));
    worker.metrics.half_open(worker.half_open.len());
    let outcome = Box::pin(log_in_in_time(&mut client, &worker, half_open, limits.login)).await;
    worker.metrics.half_open(worker.half_open.len());
    drop(snapshot);
    let end = match &outcome {
        Ok(Some(_)) => Some(LoginEnd::Ok),
        // A look whether the port is open, a cancel request, or a client that leaves to ask its user for the password.
        Ok(None) | Err(End::Left) => None,
        Err(End::Fatal(SqlState::TOO_MANY_CONNECTIONS, _)) => Some(LoginEnd::Limited),
        Err(End::Fatal(
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION | SqlState::UNDEFINED_DATABASE,
            _,
        )) => Some(LoginEnd::Refused),
        Err(End::Fatal(..)) => Some(LoginEnd::Failed),
    };
    if let Some(end) = end {
        worker.metrics.login(end);
    }
    if let Err(End::Fatal(_, error)) = &outcome {
        let host = client.stream.peer().ip().map_or_else(|| "a local socket".to_owned(), |ip| ip.to_string());
        worker.shared.login_failed(&host, error);
    }
    match outcome {
        Ok(Some(entry)) => {
            worker.metrics.client_enters(entry.tenant.slot, ClientState::Idle);
            let session = Box::new(Session {
                handle: worker.enter(entry.pid),
                tenant: entry.tenant,
                database: entry.database,
                client,
                pid: entry.pid,
                held: None,
                feed: Feed::default(),
                outgoing: Outgoing::default(),
                mark: std::time::Instant::now(),
                tx: Tx::Idle,
                names: Names::default(),
                births: Default::default(),
                unnamed_told: None,
                describing: Vec::new(),
                bound: Vec::new(),
                portals: Vec::new(),
                cursors: super::cursors::Cursors::default(),
                names_in_sql: Vec::new(),
                params: entry.params.clone(),
                startup: entry.params,
                scope: Default::default(),
                doubt: Default::default(),
                strings: entry.strings,
                told: entry.told,
                pins: Pins::default(),
                temporary: Default::default(),
                pinned: None,
                warned: Pins::default(),
                owner: worker.owner(),
                prepared_by_sql: super::prepared_by_sql::PreparedBySql::default(),
                deeds: Deeds::default(),
                recalls: false,
                floor: Floor::None,
                serializable: false,
                last: Default::default(),
                seat: None,
                orders: Default::default(),
                group_controls: false,
                group_moves_names: false,
                usual: None,
                skipping: false,
                group_open: false,
                unread: 0,
                closing: false,
                _admitted: entry.admitted,
                _connected: connected,
                worker,
            });
            session.run().await;
        }
        Ok(None) | Err(End::Left) => {}
        Err(End::Fatal(sqlstate, message)) => {
            backend::error_response(client.say(), &ErrorText::new(Severity::Fatal, sqlstate, &message));
            let _ = tokio::time::timeout(std::time::Duration::from_secs(1), client.flush()).await;
            client.stream.shut_write();
        }
    }
}

/// The words of PostgreSQL's InitProcess.
const TOO_MANY: &str = "sorry, too many clients already";

/// What a login yields.
struct Entry {
    pid: u32,
    tenant: Rc<super::worker::Tenant>,
    database: Box<str>,
    params: Params,
    strings: StringRules,
    told: Vec<(Box<str>, Box<str>)>,
    admitted: Admitted,
}

/// The whole login within `limit`, unless it is cut before it has come far.
async fn log_in_in_time(
    client: &mut Client,
    worker: &Rc<Worker>,
    half_open: half_open::Login,
    limit: Duration,
) -> Result<Option<Entry>, End> {
    let cut = half_open.watch();
    let login = Box::pin(log_in(client, worker, half_open));
    let limited = async {
        match limit.is_zero() {
            true => login.await,
            // Like PostgreSQL's authentication_timeout: nothing is said to somebody who says nothing.
            false => tokio::time::timeout(limit, login).await.unwrap_or_else(|_| {
                worker.metrics.limit(LimitHit::Login);
                worker.metrics.login(LoginEnd::Limited);
                Err(End::Left)
            }),
        }
    };
    tokio::select! {
        biased;
        outcome = limited => outcome,
        () = cut.notified() => {
            if worker.shared.is_draining() {
                return Err(End::Fatal(SqlState::CANNOT_CONNECT_NOW, "the database system is shutting down".into()));
            }
            worker.metrics.limit(LimitHit::HalfOpen);
            worker.metrics.login(LoginEnd::Limited);
            Err(End::Left)
        }
    }
}

async fn log_in(client: &mut Client, worker: &Rc<Worker>, half_open: half_open::Login) -> Result<Option<Entry>, End> {
    let Some((startup, channel)) = first_packets(client, worker).await? else { return Ok(None) };
    if startup.needs_negotiation() {
        backend::negotiate_protocol_version(client.say(), startup.agreed().code(), &startup.unknown_options);
    }
    let snapshot = worker.shared.snapshot.load_full();
    if worker.shared.is_full(&snapshot.config) {
        worker.metrics.limit(LimitHit::Clients);
        return Err(End::Fatal(SqlState::TOO_MANY_CONNECTIONS, TOO_MANY.into()));
    }
    if startup.replication != Replication::No {
        return Err(End::Fatal(
            SqlState::FEATURE_NOT_SUPPORTED,
            "pgsluice does not carry replication connections; connect to the server itself".into(),
        ));
    }
    let account = authenticate(client, &channel, worker, &snapshot, &startup).await?;
    let user = &account.user;
    let Some((_, database)) = snapshot.database(&startup.database) else {
        return Err(End::Fatal(
            SqlState::UNDEFINED_DATABASE,
            format!("database \"{}\" does not exist", startup.database),
        ));
    };
    if !user.may_use(&startup.database) {
        return Err(End::Fatal(
            SqlState::INVALID_AUTHORIZATION,
            format!("user \"{}\" may not use database \"{}\"", user.name, startup.database),
        ));
    }
    let admitted = worker.shared.admit(user, database, &snapshot.config).map_err(|full| {
        // The words of PostgreSQL's postinit.c.
        let (hit, message) = match full {
            Full::All => (LimitHit::Clients, TOO_MANY.to_owned()),
            Full::User => (LimitHit::PerUser, format!("too many connections for role \"{}\"", user.name)),
            Full::Database => {
                (LimitHit::PerDatabase, format!("too many connections for database \"{}\"", startup.database))
            }
        };
        worker.metrics.limit(hit);
        End::Fatal(SqlState::TOO_MANY_CONNECTIONS, message)
    })?;
    // It is somebody now, and counted as such.
    drop(half_open);
    worker.metrics.half_open(worker.half_open.len());
    let Some(tenant) = worker.tenant(&account, &startup.database) else {
        return Err(End::Fatal(SqlState::CANNOT_CONNECT_NOW, "the database was just reconfigured, try again".into()));
    };
    let answer = Box::pin(welcome(worker, &tenant, &startup, client.stream.peer().ip())).await?;
    let long = if startup.agreed() >= Protocol::V3_2 { LongKey::Yes } else { LongKey::No };
    let key = worker.shared.keys.issue(worker.index, long);
    let out = client.say();
    backend::authentication_ok(out);
    out.extend_from_slice(&answer.statuses);
    backend::backend_key_data(out, key.pid, &key.secret);
    backend::ready_for_query(out, TxStatus::Idle);
    Ok(Some(Entry {
        pid: key.pid,
        tenant,
        database: startup.database.as_str().into(),
        strings: answer.strings,
        told: answer.told(),
        params: answer.params,
        admitted,
    }))
}

/// What the client's parameters come to on a server.
async fn welcome(
    worker: &Rc<Worker>,
    tenant: &Rc<super::worker::Tenant>,
    startup: &StartupMessage,
    from: Option<std::net::IpAddr>,
) -> Result<Answer, End> {
    let options =
        startup.option_settings().map_err(|error| End::Fatal(error.sqlstate(), error.to_client().into_owned()))?;
    let mut wishes: Vec<(Box<str>, Box<str>)> = Vec::new();
    for (name, value) in options.iter().chain(&startup.parameters) {
        let name = name.to_ascii_lowercase();
        wishes.retain(|(n, _)| **n != *name);
        wishes.push((name.into(), value.as_str().into()));
    }
    let wish = |wanted: &str| wishes.iter().find(|(name, _)| **name == *wanted).map(|(_, value)| &**value);
    let identity = Identity {
        user: &tenant.account.user.name,
        database: &startup.database,
        application: wish("application_name").unwrap_or_default(),
        client: from,
        role: &tenant.account.user.name,
        search_path: wish("search_path"),
    };
    worker
        .police_login(&identity, wishes.iter().map(|(name, _)| name.clone()))
        .map_err(|(sqlstate, message)| End::Fatal(sqlstate, message))?;
    // Every process may give another, and it needs no server to say what becomes of it.
    let application = wishes.iter().position(|(name, value)| **name == *"application_name" && is_plain_name(value));
    let application = application.map(|at| wishes.remove(at).1);
    let asked = Asked {
        user: tenant.account.user.name.as_str().into(),
        database: startup.database.as_str().into(),
        defaults: tenant.catalog.defaults(),
        wishes: wishes.into(),
    };
    let answer = answer(worker, tenant, asked).await?;
    Ok(match application {
        Some(name) => answer.with_application_name(&name),
        None => answer,
    })
}

/// Does a server take this application name as it stands? It would cut longer ones and replace what is not printable.
fn is_plain_name(name: &str) -> bool {
    name.len() < 64 && name.bytes().all(|b| (b' '..=b'~').contains(&b))
}

/// The answer to somebody's wishes: fresh, or else from a server; but nobody waits in line for what is known already.
async fn answer(worker: &Rc<Worker>, tenant: &Rc<super::worker::Tenant>, asked: Asked) -> Result<Answer, End> {
    let known = worker.welcomes.borrow().find(&asked);
    if let Some(Known::Fresh(answer)) = known {
        return Ok(answer);
    }
    let probe = Probe::new(worker, tenant);
    let lease = match (probe.idle_server(), known) {
        (Some(lease), _) => lease,
        (None, Some(Known::Stale(answer))) => return Ok(answer),
        (None, _) => {
            let welcome = probe.welcome();
            let composed = welcome.and_then(|w| worker.shared.singles.compose(&asked, &w.parameters));
            match composed {
                Some(answer) => return Ok(answer),
                None => probe.server().await?,
            }
        }
    };
    let answer = try_on_server(&probe, lease, &asked).await?;
    worker.shared.singles.keep(&asked, &answer.params);
    worker.welcomes.borrow_mut().keep(asked, answer.clone());
    Ok(answer)
}

/// Applies the wishes on a server and listens to what it reports.
async fn try_on_server(probe: &Probe<'_>, lease: Lease, asked: &Asked) -> Result<Answer, End> {
    let Some(welcome) = lease.local().pool.welcome() else {
        return Err(End::Fatal(SqlState::CANNOT_CONNECT_NOW, "no server is available".into()));
    };
    let mut reported = welcome.parameters.clone();
    if asked.wishes.is_empty() {
        lease.give_back(std::time::Instant::now());
        return Ok(Answer::new(&reported, Params::default()));
    }
    let mut set = String::new();
    set_all(&mut set, asked.wishes.iter().map(|(name, value)| (&**name, &**value)));
    let (lease, feed) = probe.ask(lease, &set).await?;
    if let Some((sqlstate, message)) = feed.hidden_error.map(|said| *said) {
        // The statement failed as a whole, so none of the wishes took effect.
        probe.release(lease, &Params::default());
        // As a server says it: a bad parameter in the startup packet is fatal.
        return Err(End::Fatal(sqlstate, message.into()));
    }
    for (name, value, _) in feed.reported {
        match reported.iter_mut().find(|(n, _)| *n == name) {
            Some(known) => known.1 = value,
            None => reported.push((name, value)),
        }
    }
    let row = feed.rows.first().cloned().unwrap_or_default();
    let values: Vec<Option<String>> = match DataRow::parse(&row) {
        Ok(row) => row.columns().map(|v| v.ok().flatten().map(|v| String::from_utf8_lossy(v).into_owned())).collect(),
        Err(_) => Vec::new(),
    };
    let names = asked.wishes.iter().map(|(name, _)| &**name);
    let params = Params::default().with(names.zip(&values).map(|(n, v)| (n, v.as_deref())));
    probe.release(lease, &params);
    Ok(Answer::new(&reported, params))
}
