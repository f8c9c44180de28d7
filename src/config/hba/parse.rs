//! Lines → [`Hba`], and every fault with its place.

use std::net::IpAddr;

use super::{
    Hba, HbaDatabase, HbaKind, HbaLine, HbaMethod, HbaUser, Range,
    tokens::{self, Field, Line, Place, Word},
};
use crate::config::fault::{At, Findings};

const KINDS: &str = "local, host, hostssl, hostnossl";
const METHODS: &str = "trust, reject, scram-sha-256, md5, password, and cert on hostssl lines";
const ADDRESSES: &str = "all, a block such as 10.0.0.0/8 or ::1/128, or an address and a mask";

/// Reads a whole file; faulty lines are left out and told.
pub(in crate::config) fn read(text: &str, findings: &mut Findings) -> Hba {
    // Options of some methods hold passwords, so lines with options are not quoted.
    let quoted: Vec<&str> = text.lines().map(|line| if line.contains('=') { "" } else { line }).collect();
    findings.quote_from(&quoted.join("\n"));
    let lines: Vec<HbaLine> = tokens::lines(text).iter().filter_map(|line| read_line(line, findings)).collect();
    if lines.is_empty() {
        findings.warn(&At::default(), "holds no line: nobody is let in");
    }
    Hba { lines }
}

fn at(place: Place) -> At {
    At { line: place.line, column: place.column, path: String::new() }
}

/// Reads fields one after the other; what is missing is a fault at the end of the line.
struct Reader<'a, 'f> {
    line: &'a Line,
    next: usize,
    findings: &'f mut Findings,
}

impl<'a> Reader<'a, '_> {
    fn fault(&mut self, place: Place, message: String, allowed: &str) {
        self.findings.fault(&at(place), message, allowed);
    }

    fn field(&mut self, what: &str, allowed: &str) -> Option<&'a Field> {
        let field = self.line.fields.get(self.next);
        let told = self.next > self.line.fields.len();
        self.next += 1;
        if field.is_none() && !told {
            self.fault(self.line.end, format!("the line ends before its {what}"), allowed);
        }
        field
    }

    fn single(&mut self, what: &str, allowed: &str) -> Option<&'a Word> {
        match self.field(what, allowed)?.as_slice() {
            [word] => Some(word),
            [_, second, ..] => {
                self.fault(second.place, format!("there can be only one {what}"), allowed);
                None
            }
            [] => None,
        }
    }
}

fn read_line(line: &Line, findings: &mut Findings) -> Option<HbaLine> {
    let mut reader = Reader { line, next: 0, findings };
    let number = line.fields.first()?.first()?.place.line;
    let kind = kind(&mut reader)?;
    // One faulty word does not hide another.
    let databases = list(&mut reader, "databases", database);
    let users = list(&mut reader, "users", user);
    let addresses = if kind == HbaKind::Local { Some(None) } else { addresses(&mut reader) };
    // Where an address ends is not known if it is none.
    let addresses = addresses?;
    let method = method(&mut reader, kind);
    if let Some(option) = line.fields.get(reader.next).and_then(|field| field.first()) {
        let name = option.text.split('=').next().unwrap_or_default().to_owned();
        if method.is_some() {
            reader.fault(option.place, format!("the option `{name}` is not supported"), "nothing behind the method");
        }
        return None;
    }
    Some(HbaLine { number, kind, databases: databases?, users: users?, addresses, method: method? })
}

fn kind(reader: &mut Reader<'_, '_>) -> Option<HbaKind> {
    let word = reader.single("connection type", KINDS)?;
    match word.text.as_str() {
        "local" => return Some(HbaKind::Local),
        // There is no GSSAPI encryption here, so this is every TCP connection.
        "host" | "hostnogssenc" => return Some(HbaKind::Host),
        "hostssl" => return Some(HbaKind::HostSsl),
        "hostnossl" => return Some(HbaKind::HostNoSsl),
        "hostgssenc" => reader.fault(word.place, "GSSAPI encryption is not supported".to_owned(), KINDS),
        "include" | "include_if_exists" | "include_dir" => {
            reader.fault(word.place, "other files can not be included".to_owned(), KINDS);
        }
        other => reader.fault(word.place, format!("`{other}` is no connection type"), KINDS),
    }
    None
}

/// Each word of a field by `read`; `None` if one of them is faulty.
fn list<T>(
    reader: &mut Reader<'_, '_>,
    what: &str,
    read: impl Fn(&Word, &mut Reader<'_, '_>) -> Option<T>,
) -> Option<Vec<T>> {
    let field = reader.field(what, "all, or names with commas between them")?;
    let words: Vec<Option<T>> = field.iter().map(|word| read(word, reader)).collect();
    words.into_iter().collect()
}

/// What both lists refuse.
fn is_plain(word: &Word, reader: &mut Reader<'_, '_>) -> bool {
    let message = match word.text.chars().next() {
        _ if word.quoted => return true,
        Some('@') => "names can not be read from another file",
        Some('/') => "regular expressions are not supported",
        _ => return true,
    };
    reader.fault(word.place, message.to_owned(), "all, or names with commas between them; a name may be quoted");
    false
}

fn database(word: &Word, reader: &mut Reader<'_, '_>) -> Option<HbaDatabase> {
    if !is_plain(word, reader) {
        return None;
    }
    Some(match word.text.as_str() {
        _ if word.quoted => HbaDatabase::Named(word.text.clone()),
        "all" => HbaDatabase::All,
        "sameuser" => HbaDatabase::SameUser,
        "replication" => HbaDatabase::Replication,
        "samerole" | "samegroup" => {
            let message = format!("`{}`: who is a member of which role is not known here", word.text);
            reader.fault(word.place, message, "all, sameuser, or names of databases");
            return None;
        }
        name => HbaDatabase::Named(name.to_owned()),
    })
}

fn user(word: &Word, reader: &mut Reader<'_, '_>) -> Option<HbaUser> {
    if !is_plain(word, reader) {
        return None;
    }
    match word.text.as_str() {
        "all" if !word.quoted => Some(HbaUser::All),
        name if name.starts_with('+') && !word.quoted => {
            let message = format!("`{name}`: who is a member of which role is not known here");
            reader.fault(word.place, message, "all, or names of users");
            None
        }
        name => Some(HbaUser::Named(name.to_owned())),
    }
}

/// `Some(None)`: any address.
fn addresses(reader: &mut Reader<'_, '_>) -> Option<Option<Range>> {
    let word = reader.single("address", ADDRESSES)?;
    let text = word.text.as_str();
    if text == "all" && !word.quoted {
        return Some(None);
    }
    if text.contains('/') {
        let range = Range::cidr(text);
        if range.is_none() {
            reader.fault(word.place, format!("`{text}` is no address block"), ADDRESSES);
        }
        return range.map(Some);
    }
    let Ok(address) = text.parse::<IpAddr>() else {
        let message = match text {
            "samehost" | "samenet" => format!("`{text}` is not supported"),
            _ => format!("`{text}`: host names are not looked up"),
        };
        reader.fault(word.place, message, ADDRESSES);
        return None;
    };
    let mask = reader.single("mask", ADDRESSES)?;
    let range = mask.text.parse().ok().and_then(|mask| Range::masked(address, mask));
    if range.is_none() {
        reader.fault(mask.place, format!("`{}` is no mask for {address}", mask.text), ADDRESSES);
    }
    range.map(Some)
}

fn method(reader: &mut Reader<'_, '_>, kind: HbaKind) -> Option<HbaMethod> {
    let word = reader.single("method", METHODS)?;
    match word.text.as_str() {
        "trust" => return Some(HbaMethod::Trust),
        "reject" => return Some(HbaMethod::Reject),
        "md5" => return Some(HbaMethod::Md5),
        "scram-sha-256" => return Some(HbaMethod::ScramSha256),
        "password" => return Some(HbaMethod::Password),
        "cert" if kind == HbaKind::HostSsl => return Some(HbaMethod::Cert),
        "cert" => {
            reader.fault(word.place, "only hostssl lines can ask for a certificate".to_owned(), METHODS);
        }
        "ident" | "peer" | "gss" | "sspi" | "ldap" | "radius" | "pam" | "bsd" | "oauth" => {
            reader.fault(word.place, format!("the method {} is not supported", word.text), METHODS);
        }
        other => reader.fault(word.place, format!("`{other}` is no method"), METHODS),
    }
    None
}
