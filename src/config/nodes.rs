//! The nodes of a database: short and long form, one id per `host:port`.

use std::collections::HashMap;

use super::{
    Node, RoleSetting,
    fault::{At, Findings},
    hostport,
    raw::RawNode,
    value::Spanned,
};
use crate::base::NodeId;

/// Every `host:port` seen so far in the file.
#[derive(Default)]
pub(super) struct Known(HashMap<(String, u16), NodeId>);

impl Known {
    /// Host names do not tell upper from lower case; directories do.
    fn id(&mut self, host: &str, port: u16) -> NodeId {
        let host = if host.starts_with('/') { host.to_owned() } else { host.to_ascii_lowercase() };
        let next = NodeId(u32::try_from(self.0.len()).unwrap_or(u32::MAX));
        *self.0.entry((host, port)).or_insert(next)
    }
}

/// Reads the list `nodes:` of one database.
pub(super) fn check(raw: &Spanned<Vec<RawNode>>, known: &mut Known, findings: &mut Findings) -> Vec<Node> {
    if raw.is_given() && raw.value.is_empty() {
        findings.fault(&raw.at, "the database has no usable node", "host:port, or { host: …, port: … }");
    }
    let mut nodes: Vec<(Node, At)> = Vec::new();
    for entry in &raw.value {
        let Some((node, at)) = node(entry, known, findings) else { continue };
        if let Some((_, earlier)) = nodes.iter().find(|(other, _)| other.id == node.id) {
            let message =
                format!("{} stands here again, first on line {}", hostport::join(&node.host, node.port), earlier.line);
            findings.fault(&at, message, "each host and port once in a database");
        } else if let Some((_, earlier)) = nodes.iter().find(|(other, _)| other.name == node.name) {
            let message = format!("the name `{}` is taken by the node on line {}", node.name, earlier.line);
            findings.fault(&at, message, "each name once in a database");
        }
        let first = nodes.iter().find(|(other, _)| other.role == RoleSetting::Primary);
        if let (RoleSetting::Primary, Some((first, earlier))) = (node.role, first) {
            let message = format!("a second fixed primary, the first is `{}` on line {}", first.name, earlier.line);
            findings.fault(&at, message, "one; role: auto lets the servers say who is primary");
        }
        nodes.push((node, at));
    }
    let roles: Vec<_> = nodes.iter().map(|(node, _)| node.role).collect();
    if !roles.is_empty() && roles.iter().all(|role| *role == RoleSetting::Replica) {
        findings.warn(&raw.at, "every node is a fixed replica: writes will be refused");
    }
    nodes.into_iter().map(|(node, _)| node).collect()
}

fn node(entry: &RawNode, known: &mut Known, findings: &mut Findings) -> Option<(Node, At)> {
    match entry {
        RawNode::Short(text) => {
            let Some((host, port)) = hostport::split(&text.value).filter(|(_, port)| *port != 0) else {
                let allowed = "host:port such as db1:5432 or [::1]:5432, or { host: …, port: … }";
                findings.fault(&text.at, format!("`{}` is no host and port", text.value), allowed);
                return None;
            };
            let node = Node {
                id: known.id(host, port),
                name: hostport::join(host, port),
                host: host.to_owned(),
                port,
                role: RoleSetting::Auto,
                weight: 1,
                tags: Vec::new(),
            };
            Some((node, text.at.clone()))
        }
        RawNode::Long(raw, at) => {
            let host = raw.host.value.as_str();
            let port = u16::try_from(raw.port.value.0).ok()?;
            if !raw.host.is_given() {
                return None;
            }
            // An address without brackets, a name without a port.
            let fits = host.starts_with('/') || hostport::split(&hostport::join(host, port)).is_some();
            if !fits {
                let allowed =
                    "a host name, an address without brackets, or an absolute directory; the port has its own key";
                findings.fault(&raw.host.at, format!("`{host}` is no host"), allowed);
                return None;
            }
            let node = Node {
                id: known.id(host, port),
                name: raw.name.value.clone().unwrap_or_else(|| hostport::join(host, port)),
                host: host.to_owned(),
                port,
                role: raw.role.value,
                weight: raw.weight.value.0,
                tags: raw.tags.value.clone(),
            };
            Some((node, if raw.name.is_given() { raw.name.at.clone() } else { at.clone() }))
        }
    }
}
