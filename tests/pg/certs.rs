//! Certificates made on the spot by openssl's command line, which makes every kind that may stand on a real server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Pair {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What is to be made. Without more: a self-signed ECDSA certificate; without extensions it is of X.509 version 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish<'a> {
    /// `/CN=…`
    pub subject: &'a str,
    /// `-addext` lines.
    pub extensions: &'a [&'a str],
    /// Who signs it.
    pub by: Option<&'a Pair>,
    /// Further arguments of `openssl req`; `-newkey` or `-key` here replaces the default.
    pub more: &'a [&'a str],
}

impl Wish<'_> {
    /// Makes `<name>.crt` and `<name>.key` in `dir`, over what may be there.
    pub fn make(&self, dir: &Path, name: &str) -> Pair {
        let config = dir.join("openssl.cnf");
        fs::write(&config, "[req]\ndistinguished_name = dn\n[dn]\n").expect("write openssl.cnf");
        let pair = Pair { cert: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) };
        let mut command = Command::new("openssl");
        command.args(["req", "-batch", "-x509", "-nodes", "-subj", self.subject, "-config"]).arg(config);
        command.args(["-days", "3650"]);
        if !self.more.iter().any(|argument| ["-newkey", "-key"].contains(argument)) {
            command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        }
        if !self.more.contains(&"-key") {
            command.arg("-keyout").arg(&pair.key);
        }
        for extension in self.extensions {
            command.args(["-addext", extension]);
        }
        if let Some(by) = self.by {
            command.arg("-CA").arg(&by.cert).arg("-CAkey").arg(&by.key);
        }
        run(command.arg("-out").arg(&pair.cert).args(self.more));
        pair
    }
}

/// An authority.
pub fn authority(dir: &Path, name: &str) -> Pair {
    let extensions = &["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"];
    Wish { subject: &format!("/CN={name}"), extensions, ..Wish::default() }.make(dir, name)
}

/// A server's certificate for these names, as in subjectAltName (`DNS:localhost,IP:127.0.0.1`).
pub fn server(dir: &Path, name: &str, by: &Pair, names: &str) -> Pair {
    let names = format!("subjectAltName={names}");
    Wish { subject: "/CN=server", extensions: &[&names], by: Some(by), ..Wish::default() }.make(dir, name)
}

/// A client's certificate for a user.
pub fn client(dir: &Path, name: &str, by: &Pair, user: &str) -> Pair {
    let extensions = &["extendedKeyUsage=clientAuth"];
    Wish { subject: &format!("/O=Test/CN={user}"), extensions, by: Some(by), ..Wish::default() }.make(dir, name)
}

/// A self-signed certificate of X.509 version 1, as the commands in PostgreSQL's documentation make with OpenSSL 3.0.
pub fn version_1(dir: &Path, name: &str) -> Pair {
    let (request, pair) = request(dir, name, "/CN=old");
    run(Command::new("openssl")
        .args(["x509", "-req", "-days", "3650", "-in"])
        .arg(&request)
        .arg("-signkey")
        .arg(&pair.key)
        .arg("-out")
        .arg(&pair.cert));
    pair
}

/// A certificate that held in January 2020; signed by itself if by nobody else.
pub fn expired(dir: &Path, name: &str, by: Option<&Pair>) -> Pair {
    let (request, pair) = request(dir, name, "/CN=db.example");
    let (config, serial) = (dir.join("ca.cnf"), format!("{:016x}", rand::random::<u64>() >> 1));
    fs::write(dir.join("index.txt"), "").expect("write index.txt");
    fs::write(dir.join("serial"), serial).expect("write serial");
    let sections = "[ca]\ndefault_ca = c\n[p]\ncommonName = supplied\n[e]\nbasicConstraints = CA:FALSE\n[c]\npolicy = p\ndefault_md = sha256";
    let (place, rest) = (dir.display(), "x509_extensions = e");
    let text =
        format!("{sections}\n{rest}\ndatabase = {place}/index.txt\nserial = {place}/serial\nnew_certs_dir = {place}\n");
    fs::write(&config, text).expect("write ca.cnf");
    let mut command = Command::new("openssl");
    command.args([
        "ca",
        "-batch",
        "-notext",
        "-startdate",
        "20200101000000Z",
        "-enddate",
        "20200201000000Z",
        "-config",
    ]);
    command.arg(config).arg("-in").arg(request).arg("-out").arg(&pair.cert);
    match by {
        Some(by) => command.arg("-cert").arg(&by.cert).arg("-keyfile").arg(&by.key),
        None => command.arg("-selfsign").arg("-keyfile").arg(&pair.key),
    };
    run(&mut command);
    pair
}

/// A key and a request for a certificate, and where the two are to lie.
fn request(dir: &Path, name: &str, subject: &str) -> (PathBuf, Pair) {
    let pair = Pair { cert: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) };
    let request = dir.join(format!("{name}.csr"));
    run(Command::new("openssl")
        .args(["req", "-batch", "-new", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-subj", subject])
        .arg("-keyout")
        .arg(&pair.key)
        .arg("-out")
        .arg(&request));
    (request, pair)
}

fn run(command: &mut Command) {
    let out = command.output().expect("run openssl");
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}
