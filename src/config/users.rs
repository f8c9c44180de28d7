//! Who may log in: secrets, databases, and whether the servers will let them in.

use std::{collections::HashMap, sync::Arc};

use super::{
    AuthMethod, Database, Secret, User, auth, check::name_fits, fault::Findings, raw, value::Origin, verifier,
};

/// Reads the list `users:`.
pub(super) fn check(raw: &raw::Raw, databases: &[Arc<Database>], findings: &mut Findings) -> Vec<Arc<User>> {
    let auth = &raw.auth.value;
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
            let known = databases.iter().any(|database| database.name == wanted.value || database.name == "*");
            if !known && wanted.value != "*" {
                let names: Vec<_> = databases.iter().map(|database| database.name.as_str()).collect();
                findings.fault(&wanted.at, format!("there is no database `{}`", wanted.value), names.join(", "));
            }
        }
        let allowed = allowed.map(|list| list.iter().map(|name| name.value.clone()).collect::<Vec<_>>());
        let checked = User {
            name: name.value.clone(),
            secret,
            databases: allowed,
            pool_size: user.pool_size.value.map(|size| size.0 as usize),
            max_clients: user.max_clients.value.map(|clients| clients.0 as usize),
            statement_timeout: user.statement_timeout.value.unwrap_or_default(),
            rate: user.rate.value,
            hints: user.hints.value.clone(),
        };
        servers_let_in(user, &checked, auth, databases, findings);
        users.push(Arc::new(checked));
    }
    if raw.users.value.is_empty() && raw.users.origin != Origin::Fault && auth.query.value.is_none() {
        findings.warn(&raw.users.at, "`users` is empty: nobody can log in");
    }
    probes_are_let_in(raw, &users, databases, findings);
    users
}

fn secret(user: &raw::RawUser, auth: &raw::RawAuth, findings: &mut Findings) -> Secret {
    let method = auth::method(auth);
    let by_line = auth.hba_file.value.is_some();
    let Some(text) = &user.password.value else {
        let looked_up = auth.query.value.is_some();
        let needed = !matches!(method, AuthMethod::Trust | AuthMethod::Cert) && !by_line && !looked_up;
        if needed && user.name.is_given() && user.password.origin != Origin::Fault {
            let message = format!("user `{}` has no password, so nobody can log in as it", user.name.value);
            findings.fault(&user.password.at, message, "password: …, or auth: { method: trust } or { method: cert }");
        }
        return Secret::None;
    };
    match verifier::secret(text) {
        Ok(Secret::Md5(hash)) => {
            if method == AuthMethod::ScramSha256 && !by_line {
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

/// Databases this user may use whose servers it logs in to as itself.
fn as_itself<'a>(user: &User, databases: &'a [Arc<Database>]) -> Vec<&'a str> {
    let is_named = |name: &String| databases.iter().any(|database| database.name == *name);
    let may_use = |database: &Database| match &user.databases {
        Some(list) if database.name == "*" => list.iter().any(|name| name == "*" || !is_named(name)),
        _ => user.may_use(&database.name),
    };
    let own = databases.iter().filter(|database| database.server_user.is_none() && may_use(database));
    own.map(|database| database.name.as_str()).collect()
}

/// With a verifier, servers are logged in to with the keys that a client proves; where nobody proves anything there are none.
fn servers_let_in(
    raw: &raw::RawUser,
    user: &User,
    auth: &raw::RawAuth,
    databases: &[Arc<Database>],
    findings: &mut Findings,
) {
    let nothing_proved = auth::method(auth) == AuthMethod::Trust && auth.hba_file.value.is_none();
    let closed = as_itself(user, databases);
    if matches!(user.secret, Secret::Verifier(_)) && nothing_proved && !closed.is_empty() {
        let message = format!(
            "only a verifier is known of user `{}`, and with auth.method trust no client proves its password, so it can not log in to \
             the servers of {}",
            user.name,
            closed.join(", ")
        );
        let allowed = "the password in clear text here, or server_user and server_password at the database";
        findings.fault(&raw.password.at, message, allowed);
    }
    let shared = databases.iter().any(|database| database.server_user.is_some() && user.may_use(&database.name));
    if user.pool_size.is_some() && shared && closed.is_empty() {
        findings.warn(&raw.pool_size.at, "`pool_size` has no effect where a server_user is shared by all");
    }
}

/// Nodes are probed by ourselves, before and without any client: that takes a password, where the servers ask for one.
fn probes_are_let_in(raw: &raw::Raw, users: &[Arc<User>], databases: &[Arc<Database>], findings: &mut Findings) {
    if raw.auth.value.user.value.is_some() {
        return;
    }
    for ((name, _), database) in raw.databases.value.0.iter().zip(databases) {
        let allowed = || users.iter().filter(|user| user.may_use(&database.name));
        let hashed = allowed().any(|user| matches!(user.secret, Secret::Verifier(_) | Secret::Md5(_)));
        let clear = allowed().any(|user| matches!(user.secret, Secret::Password(_)));
        if database.server_user.is_none() && hashed && !clear {
            let message = format!(
                "no password is known to look at the nodes of `{}` with; give auth.user and auth.password, or server_user, unless \
                 the servers ask pgsluice for none",
                database.name
            );
            findings.warn(&name.at, message);
        }
    }
}
