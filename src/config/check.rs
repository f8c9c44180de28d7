//! Raw → [`Config`]: gives the keys their meaning, resolves every reference, finds what contradicts what.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Admin, AllowList, Config, Consistency, Database, Firewall, Limits, Listen, Log, Pool, Principal, Routing, Secret,
    SessionGuard, auth,
    encryption::{self, Files},
    fault::{At, Findings},
    hostport, nodes, raw,
    rules::AllowListMode,
    unbuilt, users,
    value::{OneOrMany, Origin, Spanned},
    verifier,
    words::{ConsistencyWord, ResetMode},
};

/// Checks a whole file; what is faulty is left out of the result and put among the findings.
pub(super) fn check(raw: &raw::Raw, files: Files<'_>, findings: &mut Findings) -> Config {
    unbuilt::unsupported(raw, findings);
    unbuilt::idle(raw, findings);
    let databases = databases(raw, findings);
    let users = users::check(raw, &databases, findings);
    let auth = auth::check(&raw.auth.value, &users, &databases, findings);
    Config {
        listen: listeners(&raw.listen, findings),
        workers: match raw.workers.value {
            // Half of the cores: the kernel's network work and, on small machines, the servers need the other half. Figures for one
            // and two workers on two cores are in benches/RESULTS.md.
            raw::Workers::Auto => std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
            raw::Workers::Fixed(threads) => threads as usize,
        },
        databases,
        users,
        auth,
        tls: encryption::check(raw, files, findings),
        limits: limits(&raw.limits.value),
        admin: raw.admin.value.as_ref().and_then(|admin| self::admin(admin, findings)),
        log: log(&raw.log.value, findings),
        session_guard: session_guard(&raw.session_guard.value),
        firewall: firewall(&raw.firewall.value, findings),
        rules: raw.rules.value.0.iter().map(|glob| glob.value.clone()).collect(),
    }
}

fn listeners(raw: &Spanned<OneOrMany<String>>, findings: &mut Findings) -> Vec<Listen> {
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
pub(super) fn name_fits(name: &str, at: &At, what: &str, findings: &mut Findings) {
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
        ResetMode::Targeted => {}
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
pub(super) fn consistency(word: ConsistencyWord) -> Option<Consistency> {
    use ConsistencyWord as Word;
    match word {
        Word::Off => Some(Consistency::Off),
        Word::Session => Some(Consistency::Session),
        Word::Monotonic | Word::Global | Word::Universal | Word::Bounded => None,
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
        max_pinned: raw.max_pinned.value.map(|sessions| sessions.0 as usize),
    }
}

fn firewall(raw: &raw::RawFirewall, findings: &mut Findings) -> Firewall {
    let list = &raw.allow_list.value;
    let modes = std::iter::once(&list.default).chain(list.principals.value.iter().map(|principal| &principal.mode));
    for mode in modes.filter(|mode| mode.value != AllowListMode::Off && list.store.value.is_none()) {
        findings.fault(&mode.at, "an allow list needs a file", "firewall: { allow_list: { store: … } }");
    }
    let principal = |raw: &raw::RawPrincipal| Principal {
        user: raw.user.value.clone(),
        database: raw.database.value.clone(),
        application: raw.application.value.clone(),
        client: raw.client.value,
        mode: raw.mode.value,
    };
    Firewall {
        mode: raw.mode.value,
        allow_list: AllowList {
            store: list.store.value.as_ref().map(PathBuf::from),
            capacity: list.capacity.value.0 as usize,
            default: list.default.value,
            principals: list.principals.value.iter().map(principal).collect(),
            learned: Arc::default(),
        },
    }
}

/// The directory that relative rule globs start from.
pub(super) fn base_directory(file: &Path) -> PathBuf {
    file.parent().map(Path::to_path_buf).unwrap_or_default()
}
