//! Reading script files.

use super::{Act, Read, Script, Step};
use crate::frontend::{self, Values};

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Bare(String),
    Quoted(Vec<u8>),
    List(Vec<Option<Vec<u8>>>),
}

/// All cases of a file's text.
pub(super) fn read(text: &str) -> Result<Vec<Script>, String> {
    let mut scripts: Vec<Script> = Vec::new();
    let (mut preamble, mut also) = (Vec::new(), Vec::new());
    for (i, line) in text.lines().enumerate() {
        let (line, number) = (line.trim(), i + 1);
        let fault = |what: String| format!("line {number}: {what}");
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if let Some(name) = line.strip_prefix("# ") {
            let (name, before, also) = (name.to_owned(), preamble.clone(), also.clone());
            scripts.push(Script { name, before, also, pool: 1, ..Script::default() });
            continue;
        }
        let Some(script) = scripts.last_mut() else {
            match line.split_once(' ') {
                Some(("@", sql)) => preamble.push(sql.to_owned()),
                Some(("~", rest)) if rest.starts_with("also ") => also.push(rest["also ".len()..].to_owned()),
                _ => return Err(fault("only @ and ~ also before the first case".to_owned())),
            }
            continue;
        };
        read_line(script, line, number).map_err(fault)?;
    }
    Ok(scripts)
}

fn read_line(script: &mut Script, line: &str, number: usize) -> Result<(), String> {
    match line.split_once(' ') {
        Some(("@", sql)) => script.before.push(sql.to_owned()),
        Some(("~", "ours")) => script.ours = true,
        Some(("~", rest)) => match rest.split_once(' ') {
            Some(("pool", n)) => script.pool = n.parse().map_err(|_| format!("not a number: {n}"))?,
            Some(("also", words)) => script.also.extend(words.split(' ').map(str::to_owned)),
            Some(("except", words)) => script.except.extend(words.split(' ').map(str::to_owned)),
            Some(("ignore", tags)) => script.ignore.extend(tags.chars().filter(|c| !c.is_whitespace())),
            _ => return Err(format!("no such directive: {rest}")),
        },
        Some(("=", letters)) => last(script)?.expected = Some(letters.trim().to_owned()),
        Some(("?", node)) => last(script)?.route = Some(node.trim().to_owned()),
        _ => {
            let (client, rest) = match line.split_once(": ") {
                Some((name, rest)) if name.len() == 1 => (name.chars().next().unwrap_or('A'), rest),
                _ => ('A', line),
            };
            let act = act(&words(rest)?)?;
            script.steps.push(Step { client, act, expected: None, route: None, line: number });
        }
    }
    Ok(())
}

fn last(script: &mut Script) -> Result<&mut Step, String> {
    script.steps.last_mut().ok_or_else(|| "no step before".to_owned())
}

fn words(line: &str) -> Result<Vec<Word>, String> {
    let mut rest = line.trim_start();
    let mut words = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '"' => {
                let (bytes, after) = quoted(&rest[1..])?;
                (Word::Quoted(bytes), after)
            }
            '[' => list(&rest[1..])?,
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (Word::Bare(rest[..end].to_owned()), &rest[end..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Up to the closing quote; `\n \t \0 \\ \" \xNN` are escapes.
fn quoted(text: &str) -> Result<(Vec<u8>, &str), String> {
    let mut out = Vec::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return Ok((out, &text[i + 1..])),
            '\\' => match chars.next() {
                Some((_, 'n')) => out.push(b'\n'),
                Some((_, 't')) => out.push(b'\t'),
                Some((_, '0')) => out.push(0),
                Some((j, 'x')) => {
                    let byte = text.get(j + 1..j + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
                    out.push(byte.ok_or("two hexadecimal digits after \\x")?);
                    chars.nth(1);
                }
                Some((_, c)) => out.extend_from_slice(c.to_string().as_bytes()),
                None => break,
            },
            c => out.extend_from_slice(c.to_string().as_bytes()),
        }
    }
    Err("no closing quote".to_owned())
}

/// `[1,null,"a b"]`.
fn list(text: &str) -> Result<(Word, &str), String> {
    let mut items = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            return Ok((Word::List(items), after));
        }
        if let Some(after) = rest.strip_prefix('"') {
            let (bytes, after) = quoted(after)?;
            items.push(Some(bytes));
            rest = after.trim_start();
        } else {
            let end = rest.find([',', ']']).ok_or("no closing bracket")?;
            let word = rest[..end].trim();
            items.push((word != "null").then(|| word.as_bytes().to_vec()));
            rest = &rest[end..];
        }
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
}

/// Takes words off the front of a line.
struct Words<'a>(std::slice::Iter<'a, Word>);

impl Words<'_> {
    fn bytes(&mut self) -> Result<Vec<u8>, String> {
        match self.0.next() {
            Some(Word::Bare(word)) => Ok(word.clone().into_bytes()),
            Some(Word::Quoted(bytes)) => Ok(bytes.clone()),
            other => Err(format!("a name or text expected, not {other:?}")),
        }
    }

    fn text(&mut self) -> Result<String, String> {
        String::from_utf8(self.bytes()?).map_err(|e| e.to_string())
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("not a number: {text}"))
    }

    fn optional_list(&mut self) -> Vec<Option<Vec<u8>>> {
        match self.0.as_slice().first() {
            Some(Word::List(items)) => {
                self.0.next();
                items.clone()
            }
            _ => Vec::new(),
        }
    }

    /// A word such as `r=1,0`, if it comes next.
    fn optional_numbers(&mut self, key: &str) -> Result<Vec<u16>, String> {
        let Some(Word::Bare(word)) = self.0.as_slice().first() else { return Ok(Vec::new()) };
        let Some(numbers) = word.strip_prefix(key).and_then(|rest| rest.strip_prefix('=')) else {
            return Ok(Vec::new());
        };
        self.0.next();
        numbers.split(',').map(|n| n.parse().map_err(|_| format!("not a number: {n}"))).collect()
    }
}

fn act(line: &[Word]) -> Result<Act, String> {
    let mut words = Words(line.iter());
    match line.first() {
        Some(Word::Bare(word)) if word == "vanish" => return Ok(Act::Vanish),
        Some(Word::Bare(word)) if word == "cancel" => return Ok(Act::Cancel),
        Some(Word::Bare(word)) if word == "login" => {
            words.0.next();
            return login(words);
        }
        _ => {}
    }
    let (mut segments, mut answers, mut read) = (vec![Vec::new()], 0, None);
    while let Some(word) = words.0.next() {
        let Word::Bare(verb) = word else { return Err(format!("a message expected, not {word:?}")) };
        if verb == ">" {
            read = Some(reading(&mut words)?);
            continue;
        }
        if verb == "/" {
            segments.push(Vec::new());
            continue;
        }
        answers += usize::from(["Q", "S", "F"].contains(&verb.as_str()));
        let message = message(verb, &mut words)?;
        if let Some(segment) = segments.last_mut() {
            segment.extend(message);
        }
    }
    Ok(Act::Say { segments, read: read.unwrap_or(Read::Until { tag: b'Z', count: answers }) })
}

fn login(words: Words<'_>) -> Result<Act, String> {
    let (mut user, mut params) = ("app".to_owned(), Vec::new());
    let mut rest = words;
    while rest.0.len() > 0 {
        let name = rest.text()?;
        let value = rest.text()?;
        if name == "user" { user = value } else { params.push((name, value)) }
    }
    Ok(Act::Login { user, params })
}

/// `> nothing`, `> EOF`, `> T`, `> 3x Z`.
fn reading(words: &mut Words<'_>) -> Result<Read, String> {
    let word = words.text()?;
    match word.as_str() {
        "nothing" => Ok(Read::Until { tag: b'Z', count: 0 }),
        "EOF" => Ok(Read::ToTheEnd),
        tag if tag.len() == 1 => Ok(Read::Until { tag: tag.as_bytes()[0], count: 1 }),
        count => {
            let number = count.strip_suffix('x').and_then(|n| n.parse().ok());
            let count = number.ok_or_else(|| format!("not a count: {count}"))?;
            let tag = words.text()?;
            Ok(Read::Until { tag: *tag.as_bytes().first().ok_or("a tag expected")?, count })
        }
    }
}

fn message(verb: &str, words: &mut Words<'_>) -> Result<Vec<u8>, String> {
    Ok(match verb {
        "Q" => frontend::query(&words.text()?),
        "P" => {
            let (name, sql) = (words.text()?, words.text()?);
            let oids: Vec<u32> = (words.optional_list().into_iter().flatten())
                .filter_map(|oid| String::from_utf8(oid).ok()?.parse().ok())
                .collect();
            frontend::parse(&name, &sql, &oids)
        }
        "B" => {
            let (portal, statement) = (words.text()?, words.text()?);
            let params = words.optional_list();
            let (formats, results) = (words.optional_numbers("p")?, words.optional_numbers("r")?);
            frontend::bind(&portal, &statement, &Values { formats, params, results })
        }
        "D" => frontend::describe(kind(words)?, &words.text()?),
        "C" => frontend::close(kind(words)?, &words.text()?),
        "E" => frontend::execute(&words.text()?, words.number()?),
        "S" => frontend::sync(),
        "H" => frontend::flush(),
        "d" => frontend::copy_data(&words.bytes()?),
        "c" => frontend::copy_done(),
        "f" => frontend::copy_fail(&words.text()?),
        "F" => {
            let oid = words.number()?;
            let args = words.optional_list();
            let args: Vec<String> = args.into_iter().flatten().filter_map(|a| String::from_utf8(a).ok()).collect();
            frontend::function_call(oid, &args.iter().map(String::as_str).collect::<Vec<_>>())
        }
        "X" => frontend::terminate(),
        // Any tag with any body.
        "m" => frontend::message(*words.bytes()?.first().ok_or("a tag expected")?, &words.bytes()?),
        "raw" => words.bytes()?,
        other => return Err(format!("no such message: {other}")),
    })
}

fn kind(words: &mut Words<'_>) -> Result<u8, String> {
    words.bytes()?.first().copied().ok_or_else(|| "S or P expected".to_owned())
}
