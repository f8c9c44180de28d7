//! StartupMessage: who the client is and what it wishes.

use super::{super::reader::Reader, StartupError, split_options};

/// A protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol {
    /// 3 since PostgreSQL 7.4.
    pub major: u16,
    /// 0, or 2 since PostgreSQL 18. 3.1 was never used.
    pub minor: u16,
}

impl Protocol {
    /// Spoken by every client.
    pub const V3_0: Self = Self { major: 3, minor: 0 };
    /// Cancel keys of more than four bytes.
    pub const V3_2: Self = Self { major: 3, minor: 2 };

    /// From the code in a startup packet.
    pub const fn from_code(code: u32) -> Self {
        Self { major: (code >> 16) as u16, minor: (code & 0xffff) as u16 }
    }

    /// The code in a startup packet: 196608 is 3.0.
    pub const fn code(self) -> u32 {
        ((self.major as u32) << 16) | self.minor as u32
    }
}

/// `replication` in the startup packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replication {
    /// An ordinary session.
    No,
    /// A walsender without a database.
    Physical,
    /// A walsender in a database.
    Logical,
}

/// StartupMessage, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupMessage {
    /// What the client asked for; see [`StartupMessage::agreed`].
    pub protocol: Protocol,
    /// Never empty.
    pub user: String,
    /// The user's name if the client gave none.
    pub database: String,
    /// `options` as it came; see [`StartupMessage::option_settings`].
    pub options: Option<String>,
    /// Whether this is a replication connection.
    pub replication: Replication,
    /// All other parameters in the client's order; the later of two equal names counts.
    pub parameters: Vec<(String, String)>,
    /// Names of protocol options (`_pq_.…`). We know none: all are named in NegotiateProtocolVersion, none is
    /// passed to a server.
    pub unknown_options: Vec<String>,
}

impl StartupMessage {
    /// Reads the part behind the protocol code.
    pub(super) fn parse(protocol: Protocol, body: &[u8]) -> Result<Self, StartupError> {
        if protocol.major != 3 {
            return Err(StartupError::Protocol(protocol));
        }
        let (mut user, mut database, mut options) = (String::new(), String::new(), None);
        let mut replication = Replication::No;
        let (mut parameters, mut unknown_options) = (Vec::new(), Vec::new());
        let mut r = Reader::new(body);
        loop {
            let name = text(r.cstr().map_err(|_| StartupError::Layout)?)?;
            if name.is_empty() {
                break;
            }
            let value = text(r.cstr().map_err(|_| StartupError::Layout)?)?;
            match name {
                "user" => user = value.to_owned(),
                "database" => database = value.to_owned(),
                "options" => options = Some(value.to_owned()),
                "replication" => replication = replication_of(value)?,
                _ if name.starts_with("_pq_.") => unknown_options.push(name.to_owned()),
                _ => parameters.push((name.to_owned(), value.to_owned())),
            }
        }
        r.end().map_err(|_| StartupError::Layout)?;
        if user.is_empty() {
            return Err(StartupError::NoUser);
        }
        if database.is_empty() {
            database.clone_from(&user);
        }
        Ok(Self { protocol, user, database, options, replication, parameters, unknown_options })
    }

    /// The version both sides go on with: what was asked, or the next older one we speak.
    pub const fn agreed(&self) -> Protocol {
        if self.protocol.minor >= Protocol::V3_2.minor { Protocol::V3_2 } else { Protocol::V3_0 }
    }

    /// Whether the client must be told, before anything else, that it does not get all it asked for: send
    /// NegotiateProtocolVersion with [`StartupMessage::agreed`] and [`StartupMessage::unknown_options`].
    pub fn needs_negotiation(&self) -> bool {
        self.protocol != self.agreed() || !self.unknown_options.is_empty()
    }

    /// The settings in `options`, in order. PostgreSQL applies them before [`StartupMessage::parameters`], so the
    /// latter win.
    ///
    /// # Errors
    /// [`StartupError::BadOption`].
    pub fn option_settings(&self) -> Result<Vec<(String, String)>, StartupError> {
        self.options.as_deref().map_or_else(|| Ok(Vec::new()), split_options)
    }

    /// The last value of a parameter, its name compared without regard to case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

fn text(bytes: &[u8]) -> Result<&str, StartupError> {
    std::str::from_utf8(bytes).map_err(|_| StartupError::NotUtf8)
}

/// `database`, or a boolean in any of PostgreSQL's spellings (`parse_bool`: unique prefixes, any case).
fn replication_of(value: &str) -> Result<Replication, StartupError> {
    if value == "database" {
        return Ok(Replication::Logical);
    }
    let value = value.to_ascii_lowercase();
    let is_prefix = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if is_prefix("true", 1) || is_prefix("yes", 1) || value == "on" || value == "1" {
        Ok(Replication::Physical)
    } else if is_prefix("false", 1) || is_prefix("no", 1) || is_prefix("off", 2) || value == "0" {
        Ok(Replication::No)
    } else {
        Err(StartupError::BadReplication)
    }
}
