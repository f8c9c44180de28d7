//! What one random client says: messages in writes, and how it leaves. Printed, it is a case for `tests/data/wire`.

use std::fmt;

use crate::frontend::{self, Values};

/// One message. Texts hold [`Names`]' places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Query(String),
    Parse { name: String, sql: String },
    Bind { portal: String, statement: String, values: Vec<Option<String>>, binary: bool },
    Describe(u8, String),
    Close(u8, String),
    Execute(String, i32),
    Sync,
    Flush,
    Data(String),
    Done,
    Fail,
    Call(u32),
}

/// Messages of one write, after which the client reads what there is to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub messages: Vec<Message>,
    /// Cut into two writes here, in thousandths of the bytes.
    pub cut: Option<usize>,
    /// The statement is cancelled while it runs.
    pub cancel: bool,
}

/// How the client leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Terminate, in the same write as these.
    Terminate(Vec<Message>),
    /// Closes without a word.
    Vanish,
    /// Writes so many thousandths of these, reads nothing and closes.
    Break(Vec<Message>, usize),
}

/// One client's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub seed: u64,
    pub login: Vec<(String, String)>,
    pub steps: Vec<Step>,
    pub end: End,
}

impl Script {
    /// The same with a Sync in front of every Query and function call behind extended messages. Without it PostgreSQL 18 loses what they did, as its
    /// Sync then commits nothing; a proxy that commits it is right, and no oracle.
    pub fn with_syncs(mut self) -> Self {
        let mut is_open = false;
        let mut apart = |messages: &mut Vec<Message>| {
            let mut out = Vec::new();
            for message in messages.drain(..) {
                match message {
                    Message::Query(_) | Message::Call(_) if is_open => {
                        out.push(Message::Sync);
                        is_open = false;
                    }
                    Message::Sync => is_open = false,
                    Message::Query(_) | Message::Call(_) | Message::Data(_) | Message::Done | Message::Fail => {}
                    _ => is_open = true,
                }
                out.push(message);
            }
            *messages = out;
        };
        self.steps.iter_mut().for_each(|step| apart(&mut step.messages));
        match &mut self.end {
            End::Terminate(messages) | End::Break(messages, _) => apart(messages),
            End::Vanish => {}
        }
        self
    }
}

/// What texts name that only one run may have: its own table (`@t`) and its own number (`@k`). All runs' names are equally long, so
/// that positions in errors are the same.
#[derive(Clone, Debug)]
pub struct Names {
    pub table: String,
    pub key: String,
}

impl Names {
    pub fn new(run: char, number: usize) -> Self {
        Self { table: format!("rt{run}{number:05}"), key: format!("{}{number:05}", run as u32) }
    }

    pub fn fill(&self, text: &str) -> String {
        text.replace("@t", &self.table).replace("@k", &self.key)
    }

    /// What came back, in words that do not depend on the run.
    pub fn hide(&self, text: &str) -> String {
        text.replace(&self.table, "@t").replace(&self.key, "@k")
    }
}

impl Message {
    pub fn bytes(&self, names: &Names) -> Vec<u8> {
        match self {
            Self::Query(sql) => frontend::query(&names.fill(sql)),
            Self::Parse { name, sql } => frontend::parse(name, &names.fill(sql), &[]),
            Self::Bind { portal, statement, values, binary } => {
                let params = values.iter().map(|v| v.as_ref().map(|v| v.clone().into_bytes())).collect();
                let results = if *binary { vec![1] } else { Vec::new() };
                frontend::bind(portal, statement, &Values { formats: Vec::new(), params, results })
            }
            Self::Describe(kind, name) => frontend::describe(*kind, name),
            Self::Close(kind, name) => frontend::close(*kind, name),
            Self::Execute(portal, rows) => frontend::execute(portal, *rows),
            Self::Sync => frontend::sync(),
            Self::Flush => frontend::flush(),
            Self::Data(text) => frontend::copy_data(text.as_bytes()),
            Self::Done => frontend::copy_done(),
            Self::Fail => frontend::copy_fail("changed my mind"),
            Self::Call(oid) => frontend::function_call(*oid, &[]),
        }
    }
}

pub fn bytes(messages: &[Message], names: &Names) -> Vec<u8> {
    messages.iter().flat_map(|message| message.bytes(names)).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t"))
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(sql) => write!(f, "Q {}", quoted(sql)),
            Self::Parse { name, sql } => write!(f, "P {} {}", quoted(name), quoted(sql)),
            Self::Bind { portal, statement, values, binary } => {
                let values = values.iter().map(|v| v.as_deref().map_or("null".to_owned(), quoted));
                let values = values.collect::<Vec<_>>().join(",");
                write!(f, "B {} {} [{values}]{}", quoted(portal), quoted(statement), if *binary { " r=1" } else { "" })
            }
            Self::Describe(kind, name) => write!(f, "D {} {}", char::from(*kind), quoted(name)),
            Self::Close(kind, name) => write!(f, "C {} {}", char::from(*kind), quoted(name)),
            Self::Execute(portal, rows) => write!(f, "E {} {rows}", quoted(portal)),
            Self::Sync => f.write_str("S"),
            Self::Flush => f.write_str("H"),
            Self::Data(text) => write!(f, "d {}", quoted(text)),
            Self::Done => f.write_str("c"),
            Self::Fail => f.write_str("f \"changed my mind\""),
            Self::Call(oid) => write!(f, "F {oid} []"),
        }
    }
}

fn line(f: &mut fmt::Formatter<'_>, messages: &[Message]) -> fmt::Result {
    for message in messages {
        write!(f, "{message} ")?;
    }
    Ok(())
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# random, seed {}", self.seed)?;
        if !self.login.is_empty() {
            f.write_str("login")?;
            self.login.iter().try_for_each(|(name, value)| write!(f, " {name} {}", quoted(value)))?;
            writeln!(f)?;
        }
        for step in &self.steps {
            line(f, &step.messages)?;
            if let Some(cut) = step.cut {
                write!(f, " // in two writes, cut after {cut} thousandths")?;
            }
            writeln!(f, "{}", if step.cancel { " // cancelled while it runs" } else { "" })?;
        }
        match &self.end {
            End::Terminate(last) => {
                line(f, last)?;
                writeln!(f, "X")
            }
            End::Vanish => writeln!(f, "vanish"),
            End::Break(last, part) => {
                line(f, last)?;
                writeln!(f, " // {part} thousandths of it, and vanish")
            }
        }
    }
}
