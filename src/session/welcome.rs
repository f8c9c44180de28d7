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
    wire::{HEAD_BYTES, backend, next_head},
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

/// An answer that was kept.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// To be believed.
    Fresh(Answer),
    /// Better than waiting in line for a server.
    Stale(Answer),
}

impl Answer {
    /// The same for a client that also gave an application name, which the server takes as it is.
    pub(super) fn with_application_name(&self, name: &str) -> Self {
        let mut statuses = Vec::with_capacity(self.statuses.len() + name.len());
        // A name of nobody's wish may stand there: that of ALTER ROLE.
        let mut rest = &*self.statuses;
        while let Ok(Some(head)) = next_head(rest, u32::MAX) {
            let Some((status, after)) = rest.split_at_checked(head.total()) else { break };
            if !status.get(HEAD_BYTES..).is_some_and(|body| body.starts_with(b"application_name\0")) {
                statuses.extend_from_slice(status);
            }
            rest = after;
        }
        backend::parameter_status(&mut statuses, b"application_name", name.as_bytes());
        Self {
            statuses: statuses.into(),
            params: self.params.with([("application_name", Some(name))]),
            strings: self.strings,
            asked: self.asked,
        }
    }

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
    /// What is known of these wishes.
    pub(super) fn find(&self, asked: &Asked) -> Option<Known> {
        let answer = self.kept.get(asked)?.clone();
        Some(if answer.asked.elapsed() < FRESH { Known::Fresh(answer) } else { Known::Stale(answer) })
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
