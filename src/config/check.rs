//! Raw → [`Config`]: gives the keys their meaning, resolves every reference, finds what contradicts what.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Admin, AuthMethod, Config, Consistency, Database, Limits, Listen, Log, Pool, Routing, Secret, SessionGuard, User,
    fault::{At, Findings},
    hostport, nodes, raw,
    value::{Origin, Spanned},
    verifier,
};

/// Checks a whole file; what is faulty is left out of the result and put among the findings.
pub(super) fn check(raw: &raw::Raw, findings: &mut Findings) -> Config {
    unsupported(raw, findings);
    idle(raw, findings);
    let auth = auth_method(raw.auth.value.method.value);
    let databases = databases(raw, findings);
    let users = users(raw, auth, &databases, findings);
    Config {
        listen: listeners(&raw.listen, findings),
        workers: match raw.workers.value {
            raw::Workers::Auto => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            raw::Workers::Fixed(threads) => threads as usize,
        },
        databases,
        users,
        auth,
        limits: limits(&raw.limits.value),
        admin: raw.admin.value.as_ref().and_then(|admin| self::admin(admin, findings)),
        log: log(&raw.log.value, findings),
        session_guard: session_guard(&raw.session_guard.value),
        rules: raw.rules.value.0.iter().map(|glob| glob.value.clone()).collect(),
    }
}

/// Tells of keys that belong to something this version leaves off: they are accepted and mean nothing yet.
fn idle(raw: &raw::Raw, findings: &mut Findings) {
    let mut idle = |given: bool, at: &At| {
        if given {
            findings.warn(at, format!("`{}` has no effect in this version", at.path));
        }
    };
    for (_, database) in &raw.databases.value.0 {
        let cache = &database.cache.value;
        idle(cache.memory.is_given(), &cache.memory.at);
        idle(cache.max_result.is_given(), &cache.max_result.at);
    }
    let list = &raw.firewall.value.allow_list.value;
    idle(list.capacity.is_given(), &list.capacity.at);
    for whom in &list.principals.value {
        for key in [&whom.user, &whom.database, &whom.application] {
            idle(key.is_given(), &key.at);
        }
        idle(whom.client.is_given(), &whom.client.at);
    }
}

/// Refuses what a later version will do: a key that is accepted and then ignored would be a promise broken in silence.
fn unsupported(raw: &raw::Raw, findings: &mut Findings) {
    let mut refuse = |asked: bool, at: &At, allowed: &str| {
        if asked {
            let message = format!("`{}` is not supported by this version with this value", at.path);
            findings.fault(at, message, allowed);
        }
    };
    let (client, server) = (&raw.tls.value.client.value, &raw.tls.value.server.value);
    refuse(client.mode.value != raw::TlsClientMode::Disable, &client.mode.at, "disable");
    refuse(server.mode.value != raw::TlsServerMode::Disable, &server.mode.at, "disable");
    for file in [&client.cert, &client.key, &client.ca, &server.ca] {
        refuse(file.value.is_some(), &file.at, "null");
    }
    let auth = &raw.auth.value;
    refuse(auth.method.value == raw::AuthWord::Cert, &auth.method.at, "trust, md5, scram-sha-256");
    refuse(auth.query.value.is_some(), &auth.query.at, "null");
    let guard = &raw.session_guard.value;
    refuse(guard.mode.value != super::GuardMode::Pin, &guard.mode.at, "pin");
    for (_, mode) in guard.features.value.each() {
        refuse(mode.value.is_some_and(|mode| mode != super::GuardMode::Pin), &mode.at, "pin, null");
    }
    let firewall = &raw.firewall.value;
    refuse(firewall.mode.value != raw::FirewallMode::Off, &firewall.mode.at, "\"off\"");
    let list = &firewall.allow_list.value;
    let modes = std::iter::once(&list.default).chain(list.principals.value.iter().map(|principal| &principal.mode));
    for mode in modes {
        refuse(mode.value != raw::AllowListMode::Off, &mode.at, "\"off\"");
    }
    refuse(list.store.value.is_some(), &list.store.at, "null");
    for user in &raw.users.value {
        refuse(user.statement_timeout.value.is_some(), &user.statement_timeout.at, "null");
        refuse(user.rate.value.is_some(), &user.rate.at, "null");
        refuse(user.hints.value.is_some(), &user.hints.at, "null");
    }
    for (_, database) in &raw.databases.value.0 {
        let cache = &database.cache.value;
        refuse(cache.enabled.value, &cache.enabled.at, "false");
        refuse(cache.invalidation.value != raw::Invalidation::Statements, &cache.invalidation.at, "statements");
        let consistency = &database.routing.value.consistency;
        refuse(self::consistency(consistency.value).is_none(), &consistency.at, "off, session");
    }
}

fn listeners(raw: &Spanned<super::value::OneOrMany<String>>, findings: &mut Findings) -> Vec<Listen> {
    const ALLOWED: &str = "address:port such as 127.0.0.1:6432, [::1]:6432, *:6432, or an absolute directory";
    let mut listeners = Vec::new();
    for text in &raw.value.0 {
        let listen = if text.value.starts_with('/') {
            Some(Listen::Unix(PathBuf::from(&text.value)))
        } else {
            hostport::listener(&text.value).map(Listen::Tcp)
        };
        match listen {
            None => findings.fault(&text.at, format!("can not listen on `{}`", text.value), ALLOWED),
            Some(listen) if listeners.contains(&listen) && !ends_in_port_zero(&listen) => {
                findings.fault(&text.at, format!("`{}` stands here twice", text.value), "each address once");
            }
            Some(listen) => listeners.push(listen),
        }
    }
    if raw.is_given() && raw.value.0.is_empty() {
        findings.fault(&raw.at, "there is nothing to listen on", ALLOWED);
    }
    listeners
}

fn ends_in_port_zero(listen: &Listen) -> bool {
    matches!(listen, Listen::Tcp(address) if address.port() == 0)
}

fn databases(raw: &raw::Raw, findings: &mut Findings) -> Vec<Arc<Database>> {
    if raw.databases.is_given() && raw.databases.value.0.is_empty() {
        findings.fault(&raw.databases.at, "there is no database", "name: { nodes: [host:port, …] }");
    }
    let mut known = nodes::Known::default();
    let mut databases = Vec::new();
    for (name, database) in &raw.databases.value.0 {
        databases.push(Arc::new(self::database(name, database, &mut known, findings)));
    }
    databases
}

fn database(
    name: &Spanned<String>,
    raw: &raw::RawDatabase,
    known: &mut nodes::Known,
    findings: &mut Findings,
) -> Database {
    name_fits(&name.value, &name.at, "the name of a database", findings);
    if let Some(dbname) = &raw.dbname.value {
        name_fits(dbname, &raw.dbname.at, "the name of a database", findings);
    }
    if let Some(user) = &raw.server_user.value {
        name_fits(user, &raw.server_user.at, "the name of a user", findings);
    }
    if raw.server_password.value.is_some() && raw.server_user.value.is_none() && raw.server_user.origin != Origin::Fault
    {
        findings.fault(&raw.server_password.at, "`server_password` without `server_user`", "both, or neither");
    }
    if let Some(password) = &raw.server_password.value {
        let at = &raw.server_password.at;
        if password.is_empty() {
            findings.fault(at, "the password is empty", "a password, or null");
        }
        if matches!(verifier::secret(password), Ok(Secret::Verifier(_) | Secret::Md5(_))) {
            findings.fault(
                at,
                "a verifier can not log in to a server",
                "the password in clear text, e.g. \"${SERVER_PASSWORD}\"",
            );
        }
    }
    Database {
        name: name.value.clone(),
        dbname: raw.dbname.value.clone(),
        nodes: nodes::check(&raw.nodes, known, findings),
        server_user: raw.server_user.value.clone(),
        server_password: raw.server_password.value.clone(),
        pool: pool(&raw.pool.value, findings),
        routing: routing(&raw.routing.value),
    }
}

/// What PostgreSQL would cut off or could not be sent in a startup packet.
fn name_fits(name: &str, at: &At, what: &str, findings: &mut Findings) {
    // NAMEDATALEN - 1.
    if name.is_empty() || name.len() > 63 || name.contains('\0') {
        findings.fault(at, format!("this can not be {what}"), "1 to 63 bytes");
    }
}

fn pool(raw: &raw::RawPool, findings: &mut Findings) -> Pool {
    if raw.size.origin != Origin::Fault && raw.min_idle.value.0 > raw.size.value.0 {
        let message = format!("`min_idle` is more than `size`, which is {}", raw.size.value.0);
        findings.fault(&raw.min_idle.at, message, format!("0 to {}", raw.size.value.0));
    }
    if raw.checkout_timeout.value.is_zero() {
        findings.fault(&raw.checkout_timeout.at, "nobody can wait for no time at all", "a duration from 1ms");
    }
    match raw.reset.value {
        raw::ResetMode::Targeted => {}
    }
    Pool {
        mode: raw.mode.value,
        size: raw.size.value.0 as usize,
        min_idle: raw.min_idle.value.0 as usize,
        checkout_timeout: raw.checkout_timeout.value,
        idle_timeout: raw.idle_timeout.value,
        max_lifetime: raw.max_lifetime.value,
        max_prepared: raw.max_prepared.value.0 as usize,
    }
}

fn routing(raw: &raw::RawRouting) -> Routing {
    Routing {
        reads: raw.reads.value,
        consistency: consistency(raw.consistency.value).unwrap_or(Consistency::Session),
        wait: raw.wait.value,
        on_timeout: raw.on_timeout.value,
        max_lag: raw.max_lag.value,
        on_no_replica: raw.on_no_replica.value,
        unknown_functions: raw.unknown_functions.value,
        balance: raw.balance.value,
        defer_begin: raw.defer_begin.value,
    }
}

/// `None`: not built yet.
fn consistency(word: raw::ConsistencyWord) -> Option<Consistency> {
    use raw::ConsistencyWord as Word;
    match word {
        Word::Off => Some(Consistency::Off),
        Word::Session => Some(Consistency::Session),
        Word::Monotonic | Word::Global | Word::Universal | Word::Bounded => None,
    }
}

fn auth_method(word: raw::AuthWord) -> AuthMethod {
    match word {
        raw::AuthWord::Trust => AuthMethod::Trust,
        raw::AuthWord::Md5 => AuthMethod::Md5,
        // `cert` is among the faults by now; the strictest method stands in for it.
        raw::AuthWord::ScramSha256 | raw::AuthWord::Cert => AuthMethod::ScramSha256,
    }
}

fn users(raw: &raw::Raw, auth: AuthMethod, databases: &[Arc<Database>], findings: &mut Findings) -> Vec<Arc<User>> {
    let mut lines: HashMap<&str, usize> = HashMap::new();
    let mut users = Vec::new();
    for user in &raw.users.value {
        let name = &user.name;
        if name.is_given() {
            name_fits(&name.value, &name.at, "the name of a user", findings);
            if let Some(line) = lines.insert(&name.value, name.at.line) {
                let message = format!("user `{}` stands here again, first on line {line}", name.value);
                findings.fault(&name.at, message, "each user once");
            }
        }
        let secret = secret(user, auth, findings);
        let allowed = user.databases.value.as_ref();
        for wanted in allowed.into_iter().flatten() {
            if !databases.iter().any(|database| database.name == wanted.value || database.name == "*") {
                let names: Vec<_> = databases.iter().map(|database| database.name.as_str()).collect();
                findings.fault(&wanted.at, format!("there is no database `{}`", wanted.value), names.join(", "));
            }
        }
        let allowed = allowed.map(|list| list.iter().map(|name| name.value.clone()).collect::<Vec<_>>());
        servers_let_in(user, &secret, allowed.as_deref(), databases, findings);
        users.push(Arc::new(User {
            name: name.value.clone(),
            secret,
            databases: allowed,
            pool_size: user.pool_size.value.map(|size| size.0 as usize),
            max_clients: user.max_clients.value.map(|clients| clients.0 as usize),
        }));
    }
    if raw.users.value.is_empty() && raw.users.origin != Origin::Fault {
        findings.warn(&raw.users.at, "`users` is empty: nobody can log in");
    }
    users
}

fn secret(user: &raw::RawUser, auth: AuthMethod, findings: &mut Findings) -> Secret {
    let Some(text) = &user.password.value else {
        if auth != AuthMethod::Trust && user.name.is_given() && user.password.origin != Origin::Fault {
            let message = format!("user `{}` has no password, so nobody can log in as it", user.name.value);
            findings.fault(&user.password.at, message, "password: …, or auth: { method: trust }");
        }
        return Secret::None;
    };
    match verifier::secret(text) {
        Ok(Secret::Md5(hash)) => {
            if auth == AuthMethod::ScramSha256 {
                let message = "an md5 secret can not answer auth.method scram-sha-256";
                findings.fault(
                    &user.password.at,
                    message,
                    "clear text, a SCRAM-SHA-256$… verifier, or auth: { method: md5 }",
                );
            } else {
                findings.warn(&user.password.at, "an md5 secret logs in only to servers that ask for md5");
            }
            Secret::Md5(hash)
        }
        Ok(secret) => secret,
        Err(fault) => {
            findings.fault(&user.password.at, fault.to_string(), verifier::FORMS);
            Secret::None
        }
    }
}

/// A verifier proves a client's password but is none: with it alone nobody can log in to a server.
fn servers_let_in(
    user: &raw::RawUser,
    secret: &Secret,
    allowed: Option<&[String]>,
    databases: &[Arc<Database>],
    findings: &mut Findings,
) {
    if !matches!(secret, Secret::Verifier(_)) {
        return;
    }
    let is_named = |name: &String| databases.iter().any(|database| database.name == *name);
    let may_use = |database: &Database| match allowed {
        None => true,
        Some(list) if database.name == "*" => list.iter().any(|name| name == "*" || !is_named(name)),
        Some(list) => list.contains(&database.name),
    };
    let closed: Vec<&str> = databases
        .iter()
        .filter(|database| database.server_user.is_none() && may_use(database))
        .map(|database| database.name.as_str())
        .collect();
    if !closed.is_empty() {
        let message = format!(
            "only a verifier is known of user `{}`, and with that it can not log in to the servers of {}",
            user.name.value,
            closed.join(", ")
        );
        let allowed = "the password in clear text here, or server_user and server_password at the database";
        findings.fault(&user.password.at, message, allowed);
    }
}

fn limits(raw: &raw::RawLimits) -> Limits {
    Limits {
        clients: raw.clients.value.0 as usize,
        per_user: raw.per_user.value.map(|clients| clients.0 as usize),
        per_database: raw.per_database.value.map(|clients| clients.0 as usize),
        login: raw.login.value,
        idle_client: raw.idle_client.value,
        idle_in_transaction: raw.idle_in_transaction.value,
        query: raw.query.value,
        shutdown: raw.shutdown.value,
        message: u32::try_from(raw.message.value.0).unwrap_or(1 << 30),
        parse: usize::try_from(raw.parse.value.0).unwrap_or(1 << 30),
    }
}

fn admin(raw: &raw::RawAdmin, findings: &mut Findings) -> Option<Admin> {
    let listen = hostport::listener(&raw.listen.value);
    match listen {
        None if raw.listen.is_given() => {
            let message = format!("can not listen on `{}`", raw.listen.value);
            findings.fault(&raw.listen.at, message, "address:port such as 127.0.0.1:6433");
        }
        Some(address) if !address.ip().is_loopback() && raw.tokens.value.is_empty() => {
            findings.warn(&raw.listen.at, "without `tokens` only /metrics, /healthz and /readyz answer other machines");
        }
        _ => {}
    }
    if raw.tokens.value.iter().any(|token| token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic())) {
        findings.fault(&raw.tokens.at, "a token can not be sent in an HTTP header", "printable ASCII without blanks");
    }
    Some(Admin { listen: listen?, tokens: raw.tokens.value.clone() })
}

fn log(raw: &raw::RawLog, findings: &mut Findings) -> Log {
    let directives = raw.level.value.split(',').map(str::trim);
    for directive in directives {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        let known = ["off", "error", "warn", "info", "debug", "trace"];
        if !known.iter().any(|word| word.eq_ignore_ascii_case(level)) {
            let message = format!("`{level}` is no log level");
            findings.fault(
                &raw.level.at,
                message,
                format!("{}; or target=level, several with commas", known.join(", ")),
            );
        }
    }
    Log { level: raw.level.value.clone(), format: raw.format.value }
}

fn session_guard(raw: &raw::RawSessionGuard) -> SessionGuard {
    let features = raw.features.value.each();
    SessionGuard {
        mode: raw.mode.value,
        features: features.into_iter().filter_map(|(feature, mode)| Some((feature, mode.value?))).collect(),
    }
}

/// The directory that relative rule globs start from.
pub(super) fn base_directory(file: &Path) -> PathBuf {
    file.parent().map(Path::to_path_buf).unwrap_or_default()
}
