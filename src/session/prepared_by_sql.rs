//! What PREPARE has stored under a name, for the day EXECUTE runs it.

use std::{collections::HashMap, rc::Rc};

use super::{refusal::Refusal, rewriting::Original};
use crate::{
    base::SqlState,
    sql::{Facts, Known, facts::Effect},
};

/// Most statements that are remembered, and bytes of their texts.
const MOST: usize = 4096;
const MOST_TEXT: usize = 16 * 1024 * 1024;

/// A statement that PREPARE has stored: what is known of it, and its text.
pub(super) struct Prepared {
    pub known: Rc<Known>,
    pub text: Rc<[u8]>,
    /// What the client had sent, if that is another.
    pub original: Option<Original>,
}

/// A session's statements by name. Where it is not known which of several PREPAREs the server has taken, all of them stand for the name.
#[derive(Default)]
pub(super) struct PreparedBySql {
    known: HashMap<Box<str>, Vec<Prepared>>,
    /// Names of the request under way.
    now: Vec<Box<str>>,
    count: usize,
    bytes: usize,
}

impl PreparedBySql {
    /// What a name may stand for.
    pub(super) fn named(&self, name: &str) -> &[Prepared] {
        self.known.get(name).map_or(&[], Vec::as_slice)
    }

    /// Remembers what a text that runs now stores.
    pub(super) fn remember(&mut self, known: &Rc<Known>, text: &[u8], original: Option<&Original>) {
        for effect in &known.facts.effects {
            let Effect::Prepare(name) = effect else { continue };
            if self.is_full() {
                continue;
            }
            self.count += 1;
            self.bytes += text.len();
            let prepared = Prepared { known: Rc::clone(known), text: text.into(), original: original.cloned() };
            self.known.entry(name.clone()).or_default().push(prepared);
            self.now.push(name.clone());
        }
    }

    /// One that is not remembered could not be judged when it runs.
    pub(super) fn too_many(&self, facts: &Facts) -> Option<Refusal> {
        let prepares = facts.effects.iter().any(|effect| matches!(effect, Effect::Prepare(_)));
        (prepares && self.is_full()).then(|| {
            let message =
                format!("this session has prepared too many statements by PREPARE ({MOST}, or 16 MiB, are possible)");
            Refusal::new(SqlState::LIMIT_EXCEEDED, message)
        })
    }

    /// All replies of the request are in. If none is an error, its names were free.
    pub(super) fn settle(&mut self, failed: bool) {
        if self.now.is_empty() {
            return;
        }
        for name in std::mem::take(&mut self.now) {
            if let Some(prepared) = self.known.get_mut(&name).filter(|_| !failed) {
                prepared.drain(..prepared.len().saturating_sub(1));
            }
        }
        self.weigh();
    }

    /// DEALLOCATE. What the request under way prepares may come behind it, so that stays.
    pub(super) fn remove(&mut self, name: &str) {
        self.keep_now(name);
        self.weigh();
    }

    /// DEALLOCATE ALL, likewise.
    pub(super) fn clear(&mut self) {
        for name in self.known.keys().cloned().collect::<Vec<_>>() {
            self.keep_now(&name);
        }
        self.weigh();
    }

    fn keep_now(&mut self, name: &str) {
        let new = self.now.iter().filter(|now| ***now == *name).count();
        if new == 0 {
            self.known.remove(name);
        } else if let Some(prepared) = self.known.get_mut(name) {
            prepared.drain(..prepared.len().saturating_sub(new));
        }
    }

    fn is_full(&self) -> bool {
        self.count >= MOST || self.bytes > MOST_TEXT
    }

    fn weigh(&mut self) {
        let all = || self.known.values().flatten();
        (self.count, self.bytes) = (all().count(), all().map(|prepared| prepared.text.len()).sum());
    }
}
