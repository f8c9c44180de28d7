//! `tls:` — reads the files it names through the reader it is given, and finds what does not fit together.

use std::sync::Arc;

use super::{
    Tls,
    fault::Findings,
    raw,
    value::{Origin, Spanned},
    words::AuthWord,
};
use crate::tls::{self, ClientMode, Fault, Material, ServerMode, TowardsClients, TowardsServers};

/// Gives a file's contents by the name it has in the configuration, or says why not, to follow the name.
pub(super) type Files<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// A key that may name a file.
type Key = Spanned<Option<String>>;

/// Checks the section, and `auth.method: cert`, which rests on it.
pub(super) fn check(raw: &raw::Raw, files: Files<'_>, findings: &mut Findings) -> Tls {
    let (client, server) = (&raw.tls.value.client.value, &raw.tls.value.server.value);
    let method = &raw.auth.value.method;
    let asks = client.mode.value != ClientMode::Disable && client.ca.value.is_some();
    if method.value == AuthWord::Cert && !asks && client.ca.origin != Origin::Fault {
        let message =
            "nobody can show a certificate: cert needs `tls.client` with a mode other than disable and a `ca`";
        findings.fault(&method.at, message, "tls: { client: { mode: verify, cert: …, key: …, ca: … } }");
    }
    Tls { client: towards_clients(client, files, findings), server: towards_servers(server, files, findings) }
}

fn towards_clients(raw: &raw::RawTlsClient, files: Files<'_>, findings: &mut Findings) -> Option<Arc<TowardsClients>> {
    let mode = raw.mode.value;
    if mode == ClientMode::Disable {
        for key in [&raw.cert, &raw.key, &raw.ca] {
            idle(key, "disable", findings);
        }
        return None;
    }
    if !tls::is_built() {
        findings.fault(&raw.mode.at, tls::NOT_BUILT, "disable");
        return None;
    }
    for (key, name) in [(&raw.cert, "cert"), (&raw.key, "key")] {
        if key.value.is_none() && key.origin != Origin::Fault {
            findings.fault(&raw.mode.at, format!("TLS towards clients needs `{name}`"), format!("{name}: a PEM file"));
        }
    }
    if mode == ClientMode::Verify && raw.ca.value.is_none() && raw.ca.origin != Origin::Fault {
        let message = "certificates of clients can not be verified without `ca`";
        findings.fault(&raw.mode.at, message, "ca: a PEM file with authorities, or mode: require");
    }
    // All three are read before any is judged, so that every fault is told.
    let [cert, key, ca] = [&raw.cert, &raw.key, &raw.ca].map(|key| read(key, files, findings));
    let (cert, key) = (cert??, key??);
    match TowardsClients::new(mode, &cert, &key, ca?.as_deref()) {
        Ok(towards) => Some(Arc::new(towards)),
        Err(fault) => {
            let key = match fault.of {
                Material::Certificate => &raw.cert,
                Material::Key => &raw.key,
                Material::Authorities => &raw.ca,
            };
            tell(key, &fault, findings);
            None
        }
    }
}

fn towards_servers(raw: &raw::RawTlsServer, files: Files<'_>, findings: &mut Findings) -> TowardsServers {
    let mode = raw.mode.value;
    if mode != ServerMode::Disable && !tls::is_built() {
        findings.fault(&raw.mode.at, tls::NOT_BUILT, "disable");
        return TowardsServers::default();
    }
    let authorities = match mode {
        ServerMode::Disable => {
            idle(&raw.ca, "disable", findings);
            Some(None)
        }
        ServerMode::Prefer => {
            idle(&raw.ca, "prefer", findings);
            Some(None)
        }
        ServerMode::VerifyCa if raw.ca.value.is_none() && raw.ca.origin != Origin::Fault => {
            // libpq, too, refuses sslrootcert=system with anything weaker than verify-full.
            let message = "without `ca` any certificate would do that a public authority has signed, for whatever host";
            findings.fault(&raw.mode.at, message, "ca: a PEM file with authorities, or mode: verify-full");
            None
        }
        ServerMode::Require | ServerMode::VerifyCa | ServerMode::VerifyFull => read(&raw.ca, files, findings),
    };
    let Some(authorities) = authorities else { return TowardsServers::default() };
    TowardsServers::new(mode, authorities.as_deref()).unwrap_or_else(|fault| {
        tell(&raw.ca, &fault, findings);
        TowardsServers::default()
    })
}

/// The contents of the file a key names: `None` if it cannot be read, which is a fault, `Some(None)` if the key names none.
fn read(key: &Key, files: Files<'_>, findings: &mut Findings) -> Option<Option<Vec<u8>>> {
    let Some(name) = &key.value else { return Some(None) };
    match files(name) {
        Ok(contents) => Some(Some(contents)),
        Err(why) => {
            findings.fault(&key.at, format!("`{name}` {why}"), "a PEM file, absolute or relative to this file");
            None
        }
    }
}

fn tell(key: &Key, fault: &Fault, findings: &mut Findings) {
    let name = key.value.as_deref().unwrap_or_default();
    findings.fault(&key.at, format!("`{name}` {fault}"), "");
}

fn idle(key: &Key, mode: &str, findings: &mut Findings) {
    if key.value.is_some() {
        findings.warn(&key.at, format!("`{}` has no effect with mode {mode}", key.at.path));
    }
}
