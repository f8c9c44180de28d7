//! Who may log in: secrets, databases, and whether the servers will let them in.

use std::{collections::HashMap, sync::Arc};

use super::{AuthMethod, Database, Secret, User, check::name_fits, fault::Findings, raw, value::Origin, verifier};

/// Reads the list `users:`.
pub(super) fn check(
    raw: &raw::Raw,
    auth: AuthMethod,
    databases: &[Arc<Database>],
    findings: &mut Findings,
) -> Vec<Arc<User>> {
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
