//! `auth:`: who proves what, and who asks for those who are not configured.

use std::sync::Arc;

use super::{
    Auth, AuthMethod, Database, Secret, User, check,
    fault::Findings,
    raw,
    value::{Origin, Spanned},
    verifier,
    words::AuthWord,
};

/// The method alone; users are checked against it.
pub(super) fn method(raw: &raw::RawAuth) -> AuthMethod {
    match raw.method.value {
        AuthWord::Trust => AuthMethod::Trust,
        AuthWord::Md5 => AuthMethod::Md5,
        AuthWord::ScramSha256 => AuthMethod::ScramSha256,
        AuthWord::Cert => AuthMethod::Cert,
    }
}

/// Everything but the file of `hba_file`, which only [`super::Config::load`] reads.
pub(super) fn check(
    raw: &raw::RawAuth,
    users: &[Arc<User>],
    databases: &[Arc<Database>],
    findings: &mut Findings,
) -> Auth {
    if raw.hba_file.value.is_some() && raw.method.is_given() {
        findings.warn(&raw.method.at, "`auth.method` has no effect beside `auth.hba_file`");
    }
    if let Some(name) = &raw.user.value {
        check::name_fits(name, &raw.user.at, "the name of a user", findings);
    }
    if let Some(name) = &raw.database.value {
        check::name_fits(name, &raw.database.at, "the name of a database", findings);
        if raw.query.value.is_none() {
            findings.warn(&raw.database.at, "`auth.database` has no effect without `auth.query`");
        }
    }
    query(&raw.query, raw.user.value.is_some(), databases, findings);
    Auth {
        method: method(raw),
        hba: raw.hba_file.value.as_ref().map(|_| Arc::default()),
        query: raw.query.value.clone(),
        user: raw.user.value.clone(),
        password: password(raw, users, findings),
        database: raw.database.value.clone(),
    }
}

fn query(query: &Spanned<Option<String>>, has_user: bool, databases: &[Arc<Database>], findings: &mut Findings) {
    let Some(text) = &query.value else { return };
    if !text.contains("$1") || text.contains('\0') {
        let allowed = "a statement such as SELECT usename, passwd FROM pg_shadow WHERE usename=$1";
        findings.fault(&query.at, "the query does not ask for $1, the name of the user", allowed);
    }
    let nobody: Vec<&str> =
        databases.iter().filter(|database| database.server_user.is_none()).map(|d| d.name.as_str()).collect();
    if !has_user && !nobody.is_empty() {
        let message = format!("there is nobody to ask the servers of {} as", nobody.join(", "));
        findings.fault(&query.at, message, "auth.user and auth.password, or server_user at each database");
    }
}

/// The password of `auth.user`: its own, or that of the user of the same name.
fn password(raw: &raw::RawAuth, users: &[Arc<User>], findings: &mut Findings) -> Option<String> {
    let allowed = "the password in clear text, e.g. \"${AUTH_PASSWORD}\"";
    match (&raw.user.value, &raw.password.value) {
        (None, Some(_)) if raw.user.origin != Origin::Fault => {
            findings.fault(&raw.password.at, "`auth.password` without `auth.user`", "both, or neither");
            None
        }
        (_, Some(password)) => {
            if password.is_empty() {
                findings.fault(&raw.password.at, "the password is empty", "a password, or null");
            } else if matches!(verifier::secret(password), Ok(Secret::Verifier(_) | Secret::Md5(_)) | Err(_)) {
                findings.fault(&raw.password.at, "a verifier can not log in to a server", allowed);
            }
            Some(password.clone())
        }
        (Some(name), None) => match users.iter().find(|user| user.name == *name).map(|user| &user.secret) {
            Some(Secret::Password(password)) => Some(password.clone()),
            Some(Secret::Verifier(_) | Secret::Md5(_)) => {
                let message = format!("only a verifier is known of `{name}`, and that can not log in to a server");
                findings.fault(&raw.user.at, message, "auth.password, in clear text");
                None
            }
            Some(Secret::None) | None => None,
        },
        (None, None) => None,
    }
}
