//! What a client hears after it has logged in: the parameters a server would report to it, its own wishes included.
//!
//! The wishes of the startup packet are tried on a real server once and the answer is kept for a while, so that a client that
//! reconnects all the time costs no server anything.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{
    pool::Params,
    sql::{Encoding, StringRules},
    wire::backend,
};

/// How long an answer is believed. A default changed by ALTER ROLE or ALTER DATABASE is seen after that.
const FRESH: Duration = Duration::from_secs(10);
/// Most answers kept per worker.
const MOST: usize = 1024;

/// Who asked for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub user: Box<str>,
    pub database: Box<str>,
    pub wishes: Box<[(Box<str>, Box<str>)]>,
}

/// The answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// ParameterStatus messages.
    pub statuses: std::rc::Rc<[u8]>,
    /// The wishes, as the server understood them.
    pub params: Params,
    /// How its texts are read until it says otherwise.
    pub strings: StringRules,
    asked: Instant,
}

impl Answer {
    /// From what a server reported.
    pub(super) fn new(reported: &[(Box<str>, Box<str>)], params: Params) -> Self {
        let mut statuses = Vec::with_capacity(512);
        let mut strings = StringRules::default();
        for (name, value) in reported {
            // What a client sees is the whole: something that takes writes, whoever answered just now.
            let value: &str = if &**name == "in_hot_standby" { "off" } else { value };
            match &**name {
                "standard_conforming_strings" => strings.standard_conforming_strings = value == "on",
                "client_encoding" => strings.encoding = Encoding::of(value),
                _ => {}
            }
            backend::parameter_status(&mut statuses, name.as_bytes(), value.as_bytes());
        }
        Self { statuses: statuses.into(), params, strings, asked: Instant::now() }
    }
}

/// Answers kept by one worker.
#[derive(Debug, Default)]
pub(super) struct Welcomes {
    kept: HashMap<Asked, Answer>,
}

impl Welcomes {
    /// A fresh answer.
    pub(super) fn find(&self, asked: &Asked) -> Option<Answer> {
        self.kept.get(asked).filter(|answer| answer.asked.elapsed() < FRESH).cloned()
    }

    /// Keeps one.
    pub(super) fn keep(&mut self, asked: Asked, answer: Answer) {
        if self.kept.len() >= MOST {
            self.kept.retain(|_, answer| answer.asked.elapsed() < FRESH);
            if self.kept.len() >= MOST {
                self.kept.clear();
            }
        }
        self.kept.insert(asked, answer);
    }
}
