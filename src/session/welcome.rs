//! What a client hears after it has logged in: the parameters a server would report to it, its own wishes included.
//!
//! The wishes of the startup packet are tried on a real server once and the answer is kept for a while, so that a client that
//! reconnects all the time costs no server anything. While no server is free, what each wish alone came to is put together.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::wishes;
use crate::{
    pool::Params,
    sql::{Encoding, StringRules},
    wire::{
        HEAD_BYTES,
        backend::{self, ParameterStatus},
        next_head,
    },
};

/// How long an answer is believed: what servers make of a wish may hang on their configuration, too.
const FRESH: Duration = Duration::from_secs(10);
/// Most answers kept per worker.
const MOST: usize = 1024;

/// Who asked for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub user: Box<str>,
    pub database: Box<str>,
    /// With which defaults (see `Published::defaults`).
    pub defaults: u64,
    pub wishes: Box<[(Box<str>, Box<str>)]>,
}

impl Asked {
    fn single(&self, name: &str, value: &str) -> Single {
        ([self.user.clone(), self.database.clone(), name.into(), value.into()], self.defaults)
    }
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

    /// What a server would answer, from what another client without wishes was told and what becomes of each wish. `None`: not known
    /// of all of them.
    pub(super) fn without_server(
        reported: &[(Box<str>, Box<str>)],
        wishes: &[(Box<str>, Box<str>)],
        known: impl Fn(&str, &str) -> Option<Box<str>>,
    ) -> Option<Self> {
        let mut reported = reported.to_vec();
        let mut params = Vec::with_capacity(wishes.len());
        for (name, value) in wishes {
            let shown = match known(name, value) {
                Some(shown) => shown,
                None => wishes::shown(name, value, &reported)?.into(),
            };
            if let Some((_, status)) = reported.iter_mut().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
                *status = shown.clone();
            }
            params.push((&**name, shown));
        }
        let params = Params::default().with(params.iter().map(|(name, shown)| (*name, Some(&**shown))));
        Some(Self::new(&reported, params))
    }

    /// Which of the wishes the client was told of, and how.
    pub(super) fn told(&self) -> Vec<(Box<str>, Box<str>)> {
        let mut told = Vec::new();
        if self.params.is_empty() {
            return told;
        }
        let mut rest = &*self.statuses;
        while let Ok(Some(head)) = next_head(rest, u32::MAX) {
            let Some((status, after)) = rest.split_at_checked(head.total()) else { break };
            if let Ok(status) = ParameterStatus::parse(&status[HEAD_BYTES..]) {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let (name, value) = (text(status.name), text(status.value));
                if self.params.value(&name.to_ascii_lowercase()).is_some() {
                    told.push((name.into(), value.into()));
                }
            }
            rest = after;
        }
        told
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

/// User, database, name and value, with the number of the defaults.
type Single = ([Box<str>; 4], u64);

/// What a server made of one wish. So none need be asked about each combination, nor by each worker.
#[derive(Debug, Default)]
pub struct Singles(Mutex<HashMap<Single, Box<str>>>);

/// Parameters that say who somebody is, so what they come to is nobody else's, and what else is allowed hangs on them.
const IDENTITY: [&str; 2] = ["role", "session_authorization"];

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

impl Singles {
    /// Notes what a server has made of these wishes.
    pub(super) fn keep(&self, asked: &Asked, params: &Params) {
        if asked.wishes.iter().any(|(name, _)| IDENTITY.contains(&&**name)) {
            return;
        }
        let mut singles = self.0.lock();
        for (name, value) in &asked.wishes {
            if singles.len() >= MOST {
                singles.clear();
            }
            if let Some(shown) = params.value(name) {
                singles.insert(asked.single(name, value), shown.into());
            }
        }
    }

    /// What is known of each wish alone, if that is enough.
    pub(super) fn compose(&self, asked: &Asked, reported: &[(Box<str>, Box<str>)]) -> Option<Answer> {
        let singles = self.0.lock();
        let known = |name: &str, value: &str| singles.get(&asked.single(name, value)).cloned();
        Answer::without_server(reported, &asked.wishes, known)
    }
}
