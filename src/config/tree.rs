//! YAML text → a tree that remembers where everything stands, with the environment already put in.

use std::{borrow::Cow, collections::HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::fault::{At, Findings};

/// Deepest nesting; far more than any key of ours needs.
const MAX_DEPTH: usize = 64;
/// Most values in one file, aliases counted each time they are used.
const MAX_VALUES: usize = 200_000;
/// Values of keys with these letters are never shown, nor those of keys misspelt a little.
const SECRET_KEYS: [&str; 4] = ["pas", "pwd", "secret", "token"];

/// Looks up an environment variable.
pub(super) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) at: At,
    pub(super) node: Node,
}

/// YAML's three kinds of value, and what could not be made one.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// `quoted`: written with quotes or as a block, so `null` and `true` are texts.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Tree>),
    Map(Vec<(Key, Tree)>),
    /// The environment could not be put in; the fault is told.
    Broken,
}

/// A key of a map and its place.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) at: At,
    pub(super) text: String,
}

impl Tree {
    /// Written as nothing at all, `~` or `null`.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.node, Node::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// What kind of value it is, in the words of a fault.
    pub(super) fn noun(&self) -> &'static str {
        match self.node {
            _ if self.is_null() => "nothing",
            Node::Scalar { .. } => "a single value",
            Node::List(_) => "a list",
            Node::Map(_) => "a map",
            Node::Broken => "an unknown value",
        }
    }
}

/// Reads one document. `None`: the text is no YAML, which is then among the findings.
pub(super) fn read(text: &str, env: Env<'_>, findings: &mut Findings) -> Option<Tree> {
    read_with(text, Some(env), findings)
}

/// Like [`read`], but `${…}` means itself.
pub(super) fn read_verbatim(text: &str, findings: &mut Findings) -> Option<Tree> {
    read_with(text, None, findings)
}

fn read_with(text: &str, env: Option<Env<'_>>, findings: &mut Findings) -> Option<Tree> {
    let text = without_mark(text);
    let mut builder = Builder {
        events: Parser::new_from_str(text),
        env,
        findings,
        anchors: HashMap::new(),
        values: 0,
        blots: Vec::new(),
    };
    let tree = builder.document();
    let blots = std::mem::take(&mut builder.blots);
    let shown = match &tree {
        Ok(_) => blot(text, &blots),
        // Where a broken file keeps its secrets is not known: show nothing of it.
        Err(_) => String::new(),
    };
    match tree {
        Ok(tree) => {
            findings.quote_from(&shown);
            Some(tree)
        }
        Err(Stop { at, message, allowed }) => {
            findings.fault(&at, message, allowed);
            None
        }
    }
}

/// Without the byte order mark that some editors put before the first line.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Replaces each secret's characters, so that columns stay where they are.
fn blot(text: &str, spans: &[Span]) -> String {
    let mut covered = vec![];
    let chars: Vec<char> = text.chars().collect();
    for span in spans {
        let range = span.start.index()..span.end.index().min(chars.len());
        // The scanner's end of a quoted text lies behind the blanks that follow it.
        let blanks = chars.get(range.clone()).into_iter().flatten().rev().take_while(|c| c.is_whitespace()).count();
        covered.push(range.start..range.end - blanks);
    }
    covered.sort_by_key(|range| range.start);
    let mut ranges = covered.into_iter().peekable();
    let mut shown = String::with_capacity(text.len());
    for (index, c) in chars.into_iter().enumerate() {
        while ranges.next_if(|range| range.end <= index).is_some() {}
        let hidden = c != '\n' && ranges.peek().is_some_and(|range| range.contains(&index));
        shown.push(if hidden { '*' } else { c });
    }
    shown
}

/// The text can not be read any further.
struct Stop {
    at: At,
    message: String,
    allowed: &'static str,
}

struct Builder<'a, 'b> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    env: Option<Env<'b>>,
    findings: &'b mut Findings,
    anchors: HashMap<usize, Tree>,
    values: usize,
    blots: Vec<Span>,
}

/// Whether a value may be shown in a fault.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Open,
    Secret,
}

impl<'a> Builder<'a, '_> {
    fn document(&mut self) -> Result<Tree, Stop> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
                _ if root.is_some() => {
                    return Err(stop(span, "", "a second YAML document begins here, only one is read"));
                }
                event => root = Some(self.value(event, span, "", 0, Shown::Open)?),
            }
        }
        let at = At { line: 1, column: 1, path: String::new() };
        Ok(root.unwrap_or(Tree { at, node: Node::Map(Vec::new()) }))
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stop> {
        match self.events.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let mark = *error.marker();
                Err(Stop {
                    at: at(Span::empty(mark), ""),
                    message: format!("not readable as YAML: {}", error.info()),
                    allowed: "YAML; inside { } and [ ] a value with ${…} must be quoted",
                })
            }
            None => Err(stop(Span::default(), "", "the YAML text ends too early")),
        }
    }

    fn value(&mut self, event: Event<'a>, span: Span, path: &str, depth: usize, shown: Shown) -> Result<Tree, Stop> {
        self.values += 1;
        if depth > MAX_DEPTH || self.values > MAX_VALUES {
            return Err(stop(span, path, "the YAML text is nested too deeply or holds too many values"));
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                if shown == Shown::Secret {
                    self.blots.push(span);
                }
                let node = match self.expand(&text, &at(span, path)) {
                    Some(text) => Node::Scalar { text, quoted: style != ScalarStyle::Plain },
                    None => Node::Broken,
                };
                (node, anchor)
            }
            Event::SequenceStart(anchor, _) => (self.list(path, depth, shown)?, anchor),
            Event::MappingStart(anchor, _) => (self.map(path, depth, shown)?, anchor),
            Event::Alias(anchor) => {
                let Some(tree) = self.anchors.get(&anchor).cloned() else {
                    return Err(stop(span, path, "this alias stands inside the value it names"));
                };
                self.values += count(&tree);
                return Ok(moved(tree, at(span, path)));
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Err(stop(span, path, "a value is missing here")),
        };
        let tree = Tree { at: at(span, path), node };
        if anchor != 0 {
            self.anchors.insert(anchor, tree.clone());
        }
        Ok(tree)
    }

    fn list(&mut self, path: &str, depth: usize, shown: Shown) -> Result<Node, Stop> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Node::List(items));
            }
            let path = format!("{path}[{}]", items.len());
            items.push(self.value(event, span, &path, depth + 1, shown)?);
        }
    }

    fn map(&mut self, path: &str, depth: usize, shown: Shown) -> Result<Node, Stop> {
        let mut entries = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            let text: Cow<'_, str> = match event {
                Event::MappingEnd => return Ok(Node::Map(entries)),
                Event::Scalar(text, ..) => text,
                _ => return Err(stop(span, path, "a key must be a simple text")),
            };
            let path = if path.is_empty() { text.to_string() } else { format!("{path}.{text}") };
            let key = Key { at: at(span, &path), text: text.into_owned() };
            let lower = key.text.to_ascii_lowercase();
            let shown = if SECRET_KEYS.iter().any(|letters| lower.contains(letters)) { Shown::Secret } else { shown };
            let (event, span) = self.next()?;
            let value = self.value(event, span, &path, depth + 1, shown)?;
            match lines.get(&key.text) {
                Some(line) => {
                    let message = format!("key `{}` stands here again, first on line {line}", key.text);
                    self.findings.fault(&key.at, message, "each key once");
                }
                None => {
                    lines.insert(key.text.clone(), key.at.line);
                    entries.push((key, value));
                }
            }
        }
    }

    /// `${NAME}` and `${NAME:-default}`; `$${` stands for `${` itself. What the environment holds is not expanded again.
    /// `None`: at least one could not be replaced, and the findings say why.
    fn expand(&mut self, text: &str, at: &At) -> Option<String> {
        let Some(env) = self.env else { return Some(text.to_owned()) };
        let mut out = String::with_capacity(text.len());
        let mut whole = true;
        let mut rest = text;
        while let Some((before, tail)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                out.push_str(before);
                out.push_str("${");
                rest = tail;
                continue;
            }
            out.push_str(before);
            let Some((inside, after)) = tail.split_once('}') else {
                let allowed = "${NAME}, ${NAME:-default}, or $${ for the characters themselves";
                self.findings.fault(at, "`${` has no closing `}`", allowed);
                return None;
            };
            match variable(env, inside) {
                Ok(value) => out.push_str(&value),
                Err((message, allowed)) => {
                    self.findings.fault(at, message, allowed);
                    whole = false;
                }
            }
            rest = after;
        }
        out.push_str(rest);
        whole.then_some(out)
    }
}

/// What `NAME` or `NAME:-default` stands for, or what is wrong and what would be right.
fn variable(env: Env<'_>, inside: &str) -> Result<String, (String, String)> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_variable(name) {
        let message = format!("`{name}` is not the name of an environment variable");
        return Err((message, "letters, digits and _, not a digit first".to_owned()));
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        // As in a shell, `:-` replaces an empty value too.
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            let message = format!("environment variable {name} is not set");
            Err((message, format!("set it, or write ${{{name}:-default}}")))
        }
    }
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// What an alias stands for, in the alias's place. What is inside of it stays where it is written, on the way that leads through the alias.
fn moved(mut tree: Tree, to: At) -> Tree {
    let from = tree.at.path.len();
    put_under(&mut tree, from, &to.path);
    tree.at = to;
    tree
}

fn put_under(tree: &mut Tree, from: usize, to: &str) {
    let put = |at: &mut At| at.path.replace_range(..from.min(at.path.len()), to);
    put(&mut tree.at);
    match &mut tree.node {
        Node::Scalar { .. } | Node::Broken => {}
        Node::List(items) => items.iter_mut().for_each(|item| put_under(item, from, to)),
        Node::Map(entries) => entries.iter_mut().for_each(|(key, value)| {
            put(&mut key.at);
            put_under(value, from, to);
        }),
    }
}

fn count(tree: &Tree) -> usize {
    1 + match &tree.node {
        Node::Scalar { .. } | Node::Broken => 0,
        Node::List(items) => items.iter().map(count).sum(),
        Node::Map(entries) => entries.iter().map(|(_, value)| count(value)).sum(),
    }
}

fn at(span: Span, path: &str) -> At {
    // The scanner counts lines from 1 and columns from 0.
    At { line: span.start.line().max(1), column: span.start.col() + 1, path: path.to_owned() }
}

fn stop(span: Span, path: &str, message: &str) -> Stop {
    Stop { at: at(span, path), message: message.to_owned(), allowed: "" }
}
