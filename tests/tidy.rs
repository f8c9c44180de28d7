//! The floors of the house, checked: which room may see which, and which rooms may touch the outside world.
//!
//! Exactly what ARCHITECTURE.md says and nothing about style. Unit tests inside `src` may do more than their room.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Room, floor, and rooms of the same floor it may see. The table in `src/lib.rs` must say the same.
const ROOMS: &[(&str, u8, &[&str])] = &[
    ("base", 0, &[]),
    ("config", 1, &["tls"]),
    ("tls", 1, &[]),
    ("wire", 1, &[]),
    ("sql", 1, &[]),
    ("policy", 2, &[]),
    ("route", 2, &["policy"]),
    ("observe", 2, &[]),
    ("net", 3, &[]),
    ("cache", 3, &[]),
    ("taps", 3, &[]),
    ("pool", 4, &[]),
    ("cluster", 4, &[]),
    ("relay", 5, &[]),
    ("session", 6, &[]),
    ("admin", 7, &[]),
    ("app", 8, &[]),
    ("cli", 9, &[]),
];

/// Words that only some files may hold.
struct Reserved {
    words: &'static [&'static str],
    allowed: fn(&Path) -> bool,
    why: &'static str,
}

const RESERVED: &[Reserved] = &[
    Reserved {
        words: &["TcpStream", "TcpListener", "UnixStream", "UnixListener"],
        allowed: may_name_sockets,
        why: "only net names sockets",
    },
    Reserved {
        words: &["rustls", "x509_cert", "webpki_roots"],
        allowed: |path| path.starts_with("tls") || path.starts_with("net"),
        why: "only tls names certificates' libraries, and net what moves the bytes",
    },
    Reserved { words: &["pg_query", "sqlparser"], allowed: may_name_a_parser, why: "only sql::parse names a parser" },
];

/// Words that no file of floors 0 to 2 may hold.
const OUTSIDE: &[&str] = &["tokio", "std::net", "std::fs", "Instant::now", "SystemTime"];

/// Besides net: listeners are bound where clients and the admin interface are let in, and the demo looks whether
/// its child listens.
fn may_name_sockets(path: &Path) -> bool {
    let allowed = ["net", "net.rs", "admin", "app/listen.rs", "app/run.rs", "cli/demo", "cli/demo.rs"];
    allowed.iter().any(|part| path.starts_with(part))
}

fn may_name_a_parser(path: &Path) -> bool {
    path.starts_with("sql/parse") || path == Path::new("sql/parse.rs")
}

/// Floors 0 to 2: the clock is read in one file, files are read in another, addresses are no sockets.
fn excused(path: &Path, word: &str) -> bool {
    match word {
        "Instant::now" => path == Path::new("base/clock.rs"),
        "std::fs" => path == Path::new("config/load.rs"),
        _ => false,
    }
}

#[test]
fn a_room_sees_only_lower_floors() {
    let mut faults = Vec::new();
    for (path, text) in sources() {
        let Some((room, floor, friends)) = room_of(&path) else { continue };
        for seen in rooms_named(&text) {
            let allowed =
                seen == room || ROOMS.iter().any(|(r, f, _)| *r == seen && *f < floor) || friends.contains(&seen);
            if !allowed {
                faults.push(format!("src/{}: {room} (floor {floor}) must not see {seen}", path.display()));
            }
        }
    }
    none(&faults);
}

#[test]
fn every_room_stands_on_a_floor() {
    let mut faults = Vec::new();
    for (path, _) in sources() {
        let file = path.components().count() == 1 && (path == Path::new("lib.rs") || path == Path::new("main.rs"));
        if !file && room_of(&path).is_none() {
            faults.push(format!("src/{}: a room that ARCHITECTURE.md and this test do not know", path.display()));
        }
    }
    none(&faults);
}

#[test]
fn thinking_rooms_touch_nothing_outside() {
    let mut faults = Vec::new();
    for (path, text) in sources() {
        let Some((_, floor, _)) = room_of(&path) else { continue };
        for word in OUTSIDE.iter().filter(|_| floor <= 2) {
            for line in lines_with(&text, word) {
                // An address is a value; only sockets are the outside.
                let address = *word == "std::net"
                    && !["TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs"].iter().any(|w| text.contains(w));
                if !excused(&path, word) && !address {
                    faults.push(format!("src/{}:{line}: floor {floor} must not name {word}", path.display()));
                }
            }
        }
    }
    none(&faults);
}

#[test]
fn reserved_words_stand_where_they_belong() {
    let mut faults = Vec::new();
    for (path, text) in sources() {
        for Reserved { words, allowed, why } in RESERVED {
            for word in words.iter().filter(|_| !allowed(&path)) {
                faults.extend(
                    lines_with(&text, word).map(|line| format!("src/{}:{line}: {word}: {why}", path.display())),
                );
            }
        }
    }
    none(&faults);
}

#[test]
fn the_map_in_lib_rs_names_the_same_floors() {
    let map = fs::read_to_string(src().join("lib.rs")).expect("src/lib.rs");
    let mut floors: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
    for (room, floor, _) in ROOMS {
        floors.entry(*floor).or_default().push(room);
    }
    let mut faults = Vec::new();
    for (floor, rooms) in floors {
        let row = map.lines().find(|line| line.starts_with(&format!("//! | {floor} |"))).unwrap_or_default();
        for room in rooms {
            // A room that is not built yet need not be on the map.
            if src().join(room).exists() && !row.contains(&format!("`{room}`")) {
                faults.push(format!("src/lib.rs: floor {floor} does not name {room}"));
            }
        }
    }
    none(&faults);
}

#[test]
fn the_test_can_see() {
    assert_eq!(
        rooms_named("use crate::{base::Lsn, sql, wire::{Head, Frame}};\nlet x = crate::pool::Lease;"),
        ["base", "sql", "wire", "pool"]
    );
    assert_eq!(strip("a // tokio\nb /* tokio */ \"tokio\" c"), "a \nb   c");
    assert_eq!(lines_with("x\ntokio::spawn", "tokio").collect::<Vec<_>>(), [2]);
    assert_eq!(lines_with("my_tokio_like", "tokio").count(), 0);
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file below `src` that is not a test, relative to it, without comments and literals.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![src()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a source directory").flatten() {
            let path = entry.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            if path.is_dir() && name != "tests" {
                dirs.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = strip(&fs::read_to_string(&path).expect("a source file"));
                let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
                found.push((path.strip_prefix(src()).expect("below src").to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

fn room_of(path: &Path) -> Option<(&'static str, u8, &'static [&'static str])> {
    let first = path.components().next()?.as_os_str().to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    ROOMS.iter().find(|(room, _, _)| *room == name).copied()
}

/// Rooms named after `crate::`, also inside braces.
fn rooms_named(text: &str) -> Vec<&str> {
    let mut rooms = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => rooms.extend(word(rest)),
            Some(list) => {
                let mut depth = 1;
                let mut start = true;
                for (i, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 1 => start = true,
                        c if start && depth == 1 && c.is_alphabetic() => {
                            rooms.extend(word(&list[i..]));
                            start = false;
                        }
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
    }
    rooms
}

fn word(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    // Macros and items of the crate's root are no rooms.
    ROOMS.iter().any(|(room, _, _)| *room == &text[..end]).then_some(&text[..end])
}

fn lines_with<'a>(text: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    let whole = move |line: &str| {
        line.match_indices(wanted).any(|(at, _)| {
            let joined = |c: char| c.is_alphanumeric() || c == '_';
            !line[..at].ends_with(joined) && !line[at + wanted.len()..].starts_with(joined)
        })
    };
    text.lines().enumerate().filter(move |(_, line)| whole(line)).map(|(i, _)| i + 1)
}

/// Takes out comments and the insides of string literals; lines stay where they are.
fn strip(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("r#\"") {
            rest.find("\"#").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = rest.strip_prefix("r\"") {
            raw.find('"').map_or(rest.len(), |end| end + 3)
        } else if rest.starts_with("'\"'") {
            3
        } else if c == '"' {
            literal_end(rest)
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
        rest = &rest[skipped..];
    }
    out
}

fn literal_end(text: &str) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}
