//! `host:port` texts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Splits `host:port` and `[::1]:port`; the host may be a name. `None` unless both are there and the port is 0–65535.
pub(super) fn split(text: &str) -> Option<(&str, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").filter(|(host, _)| is_ipv6(host))?,
        None => text.split_once(':')?,
    };
    let host_fits =
        !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control() || "/[]".contains(c));
    let port_fits = port.bytes().all(|b| b.is_ascii_digit());
    (host_fits && port_fits).then_some((host, port.parse().ok()?))
}

/// An IPv6 address, perhaps with a zone as in `fe80::1%eth0`.
fn is_ipv6(host: &str) -> bool {
    host.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// An address to listen on: `127.0.0.1:6432`, `[::]:6432`, `localhost:6432`, `*:6432` (every IPv4 address).
/// Port 0 lets the system choose.
pub(super) fn listener(text: &str) -> Option<SocketAddr> {
    let (host, port) = split(text)?;
    let address = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        host => host.parse().ok()?,
    };
    Some(SocketAddr::new(address, port))
}

/// `host:port` again, with brackets where they are needed.
pub(super) fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
