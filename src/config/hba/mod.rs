//! `auth.hba_file`: who may come from where, and how it proves who it is. The first line that matches decides (PostgreSQL's hba.c).
//!
//! What a line of pg_hba.conf can say and pgsluice can not do is a fault when the file is read, never a line that is passed over.

mod parse;
mod range;
mod tokens;

use std::net::IpAddr;

pub(super) use parse::read;
pub use range::Range;

/// All lines, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hba {
    /// The first that matches decides.
    pub lines: Vec<HbaLine>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HbaLine {
    /// Where it stands, from 1.
    pub number: usize,
    /// Which connections it is about.
    pub kind: HbaKind,
    /// Any of them.
    pub databases: Vec<HbaDatabase>,
    /// Any of them; `None` in the list: everybody.
    pub users: Vec<HbaUser>,
    /// Addresses of TCP clients; `None`: any. Always `None` with `local`.
    pub addresses: Option<Range>,
    /// What it decides.
    pub method: HbaMethod,
}

/// The first word of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HbaKind {
    /// A Unix socket.
    Local,
    /// TCP, with TLS or without.
    Host,
    /// TCP with TLS.
    HostSsl,
    /// TCP without TLS.
    HostNoSsl,
}

/// A word of the second field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HbaDatabase {
    /// `all`.
    All,
    /// `sameuser`: the one named like the user.
    SameUser,
    /// `replication`: no database; pgsluice carries no such connections, so it matches nothing.
    Replication,
    /// This one.
    Named(String),
}

/// A word of the third field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HbaUser {
    /// `all`.
    All,
    /// This one.
    Named(String),
}

/// The last field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HbaMethod {
    /// Let in as whoever it says it is.
    Trust,
    /// Sent away.
    Reject,
    /// md5, or SCRAM for users with a verifier.
    Md5,
    /// SCRAM.
    ScramSha256,
    /// The password in clear text.
    Password,
    /// The common name of the client's certificate. Only on `hostssl` lines.
    Cert,
}

/// How a client came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over a Unix socket.
    Local,
    /// Over TCP.
    Tcp {
        /// From where.
        from: IpAddr,
        /// With TLS?
        encrypted: bool,
    },
}

impl Hba {
    /// The first line for such a client.
    pub fn line(&self, way: Way, database: &str, user: &str) -> Option<&HbaLine> {
        self.lines.iter().find(|line| line.matches(way, database, user))
    }
}

impl Hba {
    /// Does any line?
    pub(super) fn asks_for_certificates(&self) -> bool {
        self.lines.iter().any(|line| line.method == HbaMethod::Cert)
    }
}

impl HbaLine {
    fn matches(&self, way: Way, database: &str, user: &str) -> bool {
        let comes = match (way, self.kind) {
            (Way::Local, kind) => kind == HbaKind::Local,
            (Way::Tcp { .. }, HbaKind::Local) => false,
            (Way::Tcp { from, encrypted }, kind) => {
                let fits = match kind {
                    HbaKind::Local | HbaKind::Host => true,
                    HbaKind::HostSsl => encrypted,
                    HbaKind::HostNoSsl => !encrypted,
                };
                fits && self.addresses.as_ref().is_none_or(|range| range.contains(from))
            }
        };
        comes
            && self.databases.iter().any(|word| match word {
                HbaDatabase::All => true,
                HbaDatabase::SameUser => database == user,
                HbaDatabase::Replication => false,
                HbaDatabase::Named(name) => name == database,
            })
            && self.users.iter().any(|word| match word {
                HbaUser::All => true,
                HbaUser::Named(name) => name == user,
            })
    }
}

#[cfg(test)]
mod tests;
