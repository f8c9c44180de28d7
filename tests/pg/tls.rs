//! TLS on both sides: who is let in how, whom we believe, and that nothing else changes by it.

mod between;
mod clients;
mod large;
mod papers;
mod reload;
mod servers;

use std::{path::Path, sync::Arc};

use rustls::ClientConfig;

use crate::{
    Case,
    certs::Pair,
    client::{Client, Login, Trouble},
    frontend,
    world::{Proxy, Setup, World},
};

pub use papers::Papers;

pub fn cases() -> Vec<Case> {
    let mut all = clients::cases();
    all.extend(servers::cases());
    all.extend(between::cases());
    all.extend(reload::cases());
    all.extend(large::cases());
    all
}

/// `tls.client` of this mode with the usual files.
fn towards_clients(papers: &Papers, mode: &str, ca: Option<&Pair>) -> String {
    let ca = ca.map_or("null".to_owned(), |ca| format!("{:?}", ca.cert));
    format!("client: {{ mode: {mode}, cert: {:?}, key: {:?}, ca: {ca} }}", papers.proxy.cert, papers.proxy.key)
}

/// `tls.server` of this mode.
fn towards_servers(mode: &str, ca: Option<&Pair>) -> String {
    let ca = ca.map_or("null".to_owned(), |ca| format!("{:?}", ca.cert));
    format!("server: {{ mode: {mode}, ca: {ca} }}")
}

fn tls(parts: &[String]) -> String {
    format!("tls: {{ {} }}", parts.join(", "))
}

/// TLS on both sides, in front of the servers that ask for it.
fn both_sides(world: &World, setup: Setup) -> Proxy {
    let papers = world.papers();
    let top = tls(&[towards_clients(papers, "require", None), towards_servers("verify-full", Some(&papers.ca))]);
    world.start_proxy(&setup.top(&top), world.tls_cluster())
}

/// How a client begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Clear,
    Asked,
    Direct,
}

/// Comes in by a door, up to the startup packet. The error says what the answer was instead.
fn enter(port: u16, door: Door, config: &Arc<ClientConfig>) -> Result<Client, String> {
    let mut client = Client::dial(port).expect("connect");
    if door == Door::Asked {
        client.send(&frontend::ssl_request()).expect("send");
        match client.recv_byte().expect("an answer") {
            b'S' => {}
            other => return Err(char::from(other).to_string()),
        }
    }
    if door != Door::Clear {
        client.start_tls(config, "localhost").map_err(|trouble| format!("no TLS: {trouble}"))?;
    }
    Ok(client)
}

/// Comes in and logs in.
fn login(port: u16, door: Door, config: &Arc<ClientConfig>, login: &Login) -> Result<Client, String> {
    let mut client = enter(port, door, config)?;
    let sent = client.send(&login.packet());
    let outcome = sent.map_err(Trouble::Io).and_then(|()| client.authenticate(login));
    match outcome {
        Ok(()) => Ok(client),
        Err(Trouble::Refused(msg)) => {
            let field = |letter| msg.field(letter).unwrap_or_default();
            Err(format!("{} {} {}", field(b'S'), field(b'C'), field(b'M')))
        }
        // With TLS 1.3 a client hears only after the handshake that its certificate was refused.
        Err(Trouble::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => Err(format!("no TLS: {error}")),
        Err(other) => Err(other.to_string()),
    }
}

/// Runs psql; its output, or its last words.
fn psql(world: &World, port: u16, conninfo: &str, sql: &str) -> Result<String, String> {
    let mut command = world.cluster().binaries().command("psql");
    // A home without certificates.
    command.env("HOME", world.cluster().dir()).env("PGPASSWORD", "secret").args([
        "-XAtq",
        "-v",
        "ON_ERROR_STOP=1",
        "-c",
        sql,
    ]);
    command.arg(format!("hostaddr=127.0.0.1 port={port} dbname=app user=app {conninfo}"));
    let out = command.output().expect("run psql");
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
