//! Expectations, messages and what was learnt as words, so that a test is a line of text.
//!
//! Owed: `query parse bind close describe portal execute sync`; `~` in front: swallowed, `=`: collected; `!` behind: changes the
//! client's names; `#1`: a statement that exists then, `%1`: one that is gone then, `?1`: the unnamed one, `$1`: one on trial, `&`:
//! one that is lent, `^1`: what is told, `*0`: what is asked, `@1`: what is bound. `local:x` is a reply of our own, `poison:x`
//! an error of our own.
//! Messages: the tag, `:` and the body. `E:22012`, `F:57P01` and `P:XX000` are errors, FATALs and PANICs.

use crate::{
    base::SqlState,
    pool::StatementId,
    relay::{Ack, Feed, Names, Owed, Show, What},
    wire::{
        Frames,
        backend::{ErrorFields, tag},
    },
};

/// Any message.
pub(super) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

/// The messages of a line.
pub(super) fn encode(line: &str) -> Vec<u8> {
    line.split_whitespace().flat_map(encode_word).collect()
}

fn encode_word(word: &str) -> Vec<u8> {
    let (tag, body) = word.split_at(1);
    let body = body.strip_prefix(':').unwrap_or_default();
    match tag {
        "E" | "F" | "P" => {
            let severity = [("E", "ERROR"), ("F", "FATAL"), ("P", "PANIC")].iter().find(|(t, _)| *t == tag).unwrap().1;
            message(b'E', format!("SFEHLER\0V{severity}\0C{body}\0Mno\0\0").as_bytes())
        }
        "S" if body.contains('=') => {
            let (name, value) = body.split_once('=').unwrap();
            message(b'S', format!("{name}\0{value}\0").as_bytes())
        }
        "T" if body.contains('=') => message(b'T', &columns(&body[1..])),
        _ => message(tag.as_bytes()[0], body.as_bytes()),
    }
}

/// A RowDescription of columns of these names; `T:=a,b`.
fn columns(names: &str) -> Vec<u8> {
    let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
    let mut body = (names.len() as u16).to_be_bytes().to_vec();
    for name in names {
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&[0; 19]);
    }
    body
}

/// The line of some messages; what is left of one in the end is said, too.
pub(super) fn decode(bytes: &[u8]) -> String {
    let mut frames = Frames::new(bytes, u32::MAX);
    let mut words: Vec<String> = frames.by_ref().map(|frame| decode_frame(frame.unwrap().raw)).collect();
    if frames.consumed() < bytes.len() {
        words.push(format!("+{}", bytes.len() - frames.consumed()));
    }
    words.join(" ")
}

fn decode_frame(raw: &[u8]) -> String {
    let (tag, body) = (char::from(raw[0]), &raw[5..]);
    let text = match raw[0] {
        tag::ERROR_RESPONSE => {
            let Ok(fields) = ErrorFields::parse(body) else { return "E?".to_owned() };
            return format!("{}:{}", char::from(fields.severity().unwrap()[0]), fields.sqlstate().unwrap());
        }
        tag::PARAMETER_STATUS => String::from_utf8_lossy(body).trim_end_matches('\0').replace('\0', "="),
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    if text.is_empty() { tag.to_string() } else { format!("{tag}:{text}") }
}

/// A conversation in which this is owed.
pub(super) fn owing(line: &str) -> Feed {
    let mut feed = Feed::default();
    line.split_whitespace().for_each(|word| feed.queue.push(owed(word)));
    feed
}

pub(super) fn owed(word: &str) -> Owed {
    if let Some(reply) = word.strip_prefix("local:") {
        let (reply, names) = changes(reply);
        return Owed::Local(encode(reply).into(), names);
    }
    if let Some(reply) = word.strip_prefix("poison:") {
        return Owed::Poison(encode(reply).into());
    }
    let (show, word) = match word.split_at(1) {
        ("~", rest) => (Show::Swallow, rest),
        ("=", rest) => (Show::Collect, rest),
        _ => (Show::Pass, word),
    };
    let (word, names) = changes(word);
    let (word, mark, id) = match word.find(['#', '%', '?', '$', '^', '*', '@', '&']) {
        Some(at) => (&word[..at], &word[at..=at], &word[at + 1..]),
        None => (word, "", "0"),
    };
    let number: u32 = id.parse().unwrap_or_default();
    let id = StatementId(number.into());
    let ack = match mark {
        "$" => Ack::OnTrial(id),
        "^" => Ack::Told(number),
        "*" => Ack::Asked(number),
        "@" => Ack::Bound(number),
        "&" => Ack::Lent,
        "#" => Ack::Prepared(id),
        "%" => Ack::Closed(id),
        "?" => Ack::Unnamed(id),
        _ => Ack::Nothing,
    };
    let what = match word {
        "query" => What::Query,
        "parse" => What::Parse,
        "bind" => What::Bind,
        "close" => What::Close,
        "describe" => What::DescribeStatement,
        "portal" => What::DescribePortal,
        "execute" => What::Execute,
        "sync" => What::Sync,
        other => panic!("{other}"),
    };
    Owed::Reply { what, show, ack, names }
}

fn changes(word: &str) -> (&str, Names) {
    word.strip_suffix('!').map_or((word, Names::Untouched), |word| (word, Names::Change))
}

/// Everything a conversation has learnt that is not as it was in the beginning.
pub(super) fn learnt(feed: &Feed) -> String {
    let mut notes: Vec<String> = Vec::new();
    notes.extend(feed.status.map(|status| char::from(status as u8).to_string()));
    let flags = [
        ("copy_in", feed.copy_in),
        ("delivered", feed.delivered),
        ("misrouted", feed.misrouted),
        ("not_here", feed.not_here),
        ("stale", feed.stale_plan),
        ("failed_parse", feed.failed_parse),
        ("skipping", feed.skipping),
        ("mid_message", feed.is_mid_message()),
    ];
    notes.extend(flags.iter().filter(|(_, set)| *set).map(|(name, _)| (*name).to_owned()));
    let code = |said: &Option<Box<(SqlState, Box<str>)>>| said.as_ref().map(|said| said.0.to_string());
    notes.extend(feed.error.map(|code| format!("error={code}")));
    notes.extend(code(&feed.hidden_error).map(|code| format!("hidden={code}")));
    notes.extend(code(&feed.fatal).map(|code| format!("fatal={code}")));
    notes.extend(feed.rows.iter().map(|row| format!("row={}", String::from_utf8_lossy(row))));
    notes.extend(feed.reported.iter().map(|(name, value, _)| format!("{name}={value}")));
    notes.extend(feed.skipped.iter().map(|ack| match ack {
        Ack::Nothing => "skipped".to_owned(),
        Ack::OnTrial(id) => format!("skipped${}", id.0),
        Ack::Lent => "skipped&".to_owned(),
        Ack::Told(number) => format!("skipped^{number}"),
        Ack::Asked(index) => format!("skipped*{index}"),
        Ack::Bound(number) => format!("skipped@{number}"),
        Ack::Prepared(id) => format!("skipped#{}", id.0),
        Ack::Closed(id) => format!("skipped%{}", id.0),
        Ack::Unnamed(id) => format!("skipped?{}", id.0),
    }));
    for (name, count) in [("names", feed.name_changes), ("owed", feed.queue.len() as u32)] {
        notes.extend((count > 0).then(|| format!("{name}={count}")));
    }
    notes.join(" ")
}
