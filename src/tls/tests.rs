//! Certificates of every kind, and whole handshakes in memory.

use std::{fs, path::Path};

use rustls::{
    ClientConnection, ServerConnection,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use tempfile::TempDir;

use super::{certificate::is_named_in_subject, *};

#[path = "../../tests/pg/certs.rs"]
#[allow(unreachable_pub, dead_code, reason = "shared with the black-box tests")]
pub(crate) mod certs;

use certs::{Pair, Wish, authority, expired, server, version_1};

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

fn der(pair: &Pair) -> Vec<u8> {
    CertificateDer::from_pem_slice(&read(&pair.cert)).unwrap().to_vec()
}

#[test]
fn logins_are_bound_by_the_hash_of_the_signature() {
    let dir = dir();
    let rsa = Wish { subject: "/CN=a", more: &["-newkey", "rsa:2048"], ..Wish::default() }.make(dir.path(), "rsa").key;
    let rsa = rsa.to_str().unwrap();
    let ec: &[&str] = &[];
    let with_rsa = &["-key", rsa];
    let pss = &["-key", rsa, "-sigopt", "rsa_padding_mode:pss"];
    type Sum = fn(&[u8]) -> Vec<u8>;
    let (sha224, sha256, sha384, sha512): (Sum, Sum, Sum, Sum) = (
        |der| Sha224::digest(der).to_vec(),
        |der| Sha256::digest(der).to_vec(),
        |der| Sha384::digest(der).to_vec(),
        |der| Sha512::digest(der).to_vec(),
    );
    let check = |key: &[&str], digest: &str, expected: Option<Sum>| {
        let more = [key, &[digest]].concat();
        let der = der(&Wish { subject: "/CN=a", more: &more, ..Wish::default() }.make(dir.path(), "x"));
        assert_eq!(server_end_point(&der), expected.map(|sum| sum(&der)), "{more:?}");
    };
    for (digest, sum) in
        [("-sha1", sha256), ("-sha224", sha224), ("-sha256", sha256), ("-sha384", sha384), ("-sha512", sha512)]
    {
        check(ec, digest, Some(sum));
        check(with_rsa, digest, Some(sum));
        check(pss, digest, Some(sum));
    }
    check(with_rsa, "-md5", Some(sha256));
    check(&["-newkey", "ed25519"], "-sha256", None);
    assert_eq!(server_end_point(b"no certificate"), None);
}

#[test]
fn the_common_name_is_the_first() {
    let dir = dir();
    let check = |subject: &str, expected: Option<&str>| {
        let der = der(&Wish { subject, more: &["-utf8"], ..Wish::default() }.make(dir.path(), "x"));
        assert_eq!(common_name(&der).as_deref(), expected, "{subject}");
    };
    check("/CN=app", Some("app"));
    check("/C=DE/O=Test/CN=app/CN=other", Some("app"));
    check("/CN=Jürgen", Some("Jürgen"));
    check("/O=app", None);
    assert_eq!(common_name(b""), None);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let dir = dir();
    let (ca, other) = (authority(dir.path(), "ca"), authority(dir.path(), "other"));
    let pair = server(dir.path(), "server", &ca, "DNS:localhost");
    let old = version_1(dir.path(), "old");
    let (cert, key, ca) = (read(&pair.cert), read(&pair.key), read(&ca.cert));
    let check = |cert: &[u8], key: &[u8], ca: Option<&[u8]>, expected: Option<(Material, &str)>| {
        let fault = TowardsClients::new(ClientMode::Verify, cert, key, ca).err();
        match (&fault, expected) {
            (None, None) => {}
            (Some(fault), Some((of, words))) => {
                assert!(fault.of == of && fault.message.contains(words), "{fault:?}, expected {words}");
            }
            _ => panic!("{fault:?}, expected {expected:?}"),
        }
    };
    check(&cert, &key, Some(&ca), None);
    check(&cert, &key, None, None);
    check(&read(&old.cert), &read(&old.key), None, None);
    check(b"", &key, None, Some((Material::Certificate, "no certificate")));
    check(&key, &key, None, Some((Material::Certificate, "no certificate")));
    check(b"-----BEGIN CERTIFICATE-----\n*\n", &key, None, Some((Material::Certificate, "has no end")));
    let nonsense = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    check(nonsense, &key, None, Some((Material::Certificate, "cannot be read")));
    check(&cert, b"", None, Some((Material::Key, "no private key")));
    check(&cert, &cert, None, Some((Material::Key, "no private key")));
    check(&cert, &read(&other.key), None, Some((Material::Key, "does not belong")));
    let p521 =
        Wish { subject: "/CN=a", more: &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-521"], ..Wish::default() };
    let p521 = p521.make(dir.path(), "p521");
    check(&read(&p521.cert), &read(&p521.key), None, Some((Material::Key, "not supported")));
    check(&cert, &key, Some(b""), Some((Material::Authorities, "no certificate")));
    check(&cert, &key, Some(nonsense), Some((Material::Authorities, "cannot be read")));
    assert_eq!(TowardsServers::new(ServerMode::VerifyCa, Some(b"x")).unwrap_err().of, Material::Authorities);
    let towards = TowardsClients::new(ClientMode::Require, &cert, &key, None).unwrap();
    assert_eq!(format!("{towards:?}"), "TowardsClients { mode: Require, .. }");
}

/// A handshake between our two halves, or what went wrong first.
fn shake(towards_server: &TowardsServers, host: &str, towards_client: &TowardsClients) -> Result<(), String> {
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut near = ClientConnection::new(towards_server.settings().unwrap(), name).unwrap();
    let mut far = ServerConnection::new(towards_client.settings()).unwrap();
    while near.is_handshaking() || far.is_handshaking() {
        for towards_far in [true, false] {
            let mut bytes = Vec::new();
            if towards_far {
                near.write_tls(&mut bytes).unwrap();
                far.read_tls(&mut bytes.as_slice()).unwrap();
                far.process_new_packets().map_err(|error| format!("server: {error}"))?;
            } else {
                far.write_tls(&mut bytes).unwrap();
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    near.read_tls(&mut rest).unwrap();
                    near.process_new_packets().map_err(|error| format!("client: {error}"))?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn servers_are_believed_as_libpq_does() {
    let dir = dir();
    let (ca, other) = (authority(dir.path(), "ca"), authority(dir.path(), "other"));
    let towards_clients =
        |pair: &Pair| TowardsClients::new(ClientMode::Prefer, &read(&pair.cert), &read(&pair.key), None).unwrap();
    let make = |name: &str, subject: &str, extensions: &[&str], by: Option<&Pair>| {
        Wish { subject, extensions, by, more: &[] }.make(dir.path(), name)
    };
    let named = towards_clients(&server(dir.path(), "named", &ca, "DNS:db.example,DNS:*.pool.example,IP:10.0.0.1"));
    let bare = towards_clients(&make("bare", "/CN=db.example", &["basicConstraints=CA:FALSE"], Some(&ca)));
    let wild = towards_clients(&make("wild", "/CN=*.example", &["basicConstraints=CA:FALSE"], Some(&ca)));
    let stale = towards_clients(&expired(dir.path(), "stale", Some(&ca)));
    let own = make("own", "/CN=db.example", &["basicConstraints=critical,CA:TRUE"], None);
    let own_stale = expired(dir.path(), "own_stale", None);
    let old = version_1(dir.path(), "old");
    let (by_own, by_own_stale, by_old) = (towards_clients(&own), towards_clients(&own_stale), towards_clients(&old));

    let check = |mode: ServerMode, ca: Option<&Pair>, far: &TowardsClients, host: &str, expected: Result<(), &str>| {
        let pem = ca.map(|pair| read(&pair.cert));
        let near = TowardsServers::new(mode, pem.as_deref()).unwrap();
        let outcome = shake(&near, host, far);
        let fits = match (&outcome, expected) {
            (Ok(()), Ok(())) => true,
            (Err(got), Err(words)) => got.contains(words),
            _ => false,
        };
        assert!(fits, "{mode:?} {host}: {outcome:?}, expected {expected:?}");
    };
    use ServerMode::{Prefer, Require, VerifyCa, VerifyFull};
    // Nothing is verified.
    for far in [&named, &stale, &by_own, &by_old] {
        check(Prefer, None, far, "whatever", Ok(()));
        check(Require, None, far, "10.9.9.9", Ok(()));
    }
    // With authorities, require is verify-ca.
    for mode in [Require, VerifyCa] {
        check(mode, Some(&ca), &named, "whatever", Ok(()));
        check(mode, Some(&other), &named, "whatever", Err("UnknownIssuer"));
        check(mode, Some(&ca), &stale, "whatever", Err("expired"));
    }
    check(VerifyFull, Some(&ca), &named, "db.example", Ok(()));
    check(VerifyFull, Some(&ca), &named, "a.pool.example", Ok(()));
    check(VerifyFull, Some(&ca), &named, "10.0.0.1", Ok(()));
    check(VerifyFull, Some(&ca), &named, "10.0.0.2", Err("not valid for name"));
    check(VerifyFull, Some(&ca), &named, "other.example", Err("not valid for name"));
    check(VerifyFull, Some(&ca), &named, "server", Err("not valid for name"));
    check(VerifyFull, Some(&other), &named, "db.example", Err("UnknownIssuer"));
    check(VerifyFull, None, &named, "db.example", Err("UnknownIssuer"));
    // A certificate without names is for its common name.
    check(VerifyFull, Some(&ca), &bare, "db.example", Ok(()));
    check(VerifyFull, Some(&ca), &bare, "DB.Example", Ok(()));
    check(VerifyFull, Some(&ca), &bare, "other.example", Err("not valid for name"));
    check(VerifyFull, Some(&ca), &wild, "db.example", Ok(()));
    check(VerifyFull, Some(&ca), &wild, "a.db.example", Err("not valid for name"));
    // A server's own certificate as the authority.
    check(VerifyFull, Some(&own), &by_own, "db.example", Ok(()));
    check(VerifyFull, Some(&own), &by_own, "other.example", Err("not valid for name"));
    check(VerifyCa, Some(&own_stale), &by_own_stale, "db.example", Err("Expired"));
    check(VerifyCa, Some(&own), &by_own_stale, "db.example", Err("invalid peer certificate"));
    check(VerifyCa, Some(&old), &by_old, "whatever", Ok(()));
    check(VerifyCa, Some(&ca), &by_old, "whatever", Err("X.509 version 1"));
}

#[test]
fn clients_are_asked_only_with_authorities() {
    let dir = dir();
    let ca = authority(dir.path(), "ca");
    let pair = server(dir.path(), "server", &ca, "DNS:db.example");
    let near = TowardsServers::new(ServerMode::Require, None).unwrap();
    for ca in [None, Some(read(&ca.cert))] {
        // Who shows none is let through here and judged at login.
        let far = TowardsClients::new(ClientMode::Verify, &read(&pair.cert), &read(&pair.key), ca.as_deref()).unwrap();
        assert_eq!(shake(&near, "db.example", &far), Ok(()));
    }
}

#[test]
fn equal_files_are_equal_settings() {
    let dir = dir();
    let ca = read(&authority(dir.path(), "ca").cert);
    let new = |mode, ca: Option<&[u8]>| TowardsServers::new(mode, ca).unwrap();
    assert_eq!(new(ServerMode::VerifyCa, Some(&ca)), new(ServerMode::VerifyCa, Some(&ca)));
    assert_ne!(new(ServerMode::VerifyCa, Some(&ca)), new(ServerMode::VerifyFull, Some(&ca)));
    assert_ne!(new(ServerMode::VerifyFull, Some(&ca)), new(ServerMode::VerifyFull, None));
    assert_eq!(TowardsServers::default(), new(ServerMode::Disable, None));
}

#[test]
fn names_without_a_host_are_not_wild() {
    let dir = dir();
    let der = der(&Wish { subject: "/CN=*.example", ..Wish::default() }.make(dir.path(), "x"));
    for (host, expected) in [("a.example", true), (".example", false), ("example", false), ("a.b.example", false)] {
        assert_eq!(is_named_in_subject(&der, host), expected, "{host}");
    }
}
