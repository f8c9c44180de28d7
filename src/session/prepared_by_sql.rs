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
/// Most sessions have none.
#[derive(Default)]
pub(super) struct PreparedBySql(Option<Box<Kept>>);

#[derive(Default)]
struct Kept {
    known: HashMap<Box<str>, Vec<Prepared>>,
    /// Names of the request under way.
    now: Vec<Box<str>>,
    count: usize,
    bytes: usize,
}

impl PreparedBySql {
    /// What a name may stand for.
    pub(super) fn named(&self, name: &str) -> &[Prepared] {
        self.0.as_ref().and_then(|kept| kept.known.get(name)).map_or(&[], Vec::as_slice)
    }

    /// Remembers what a text that runs now stores.
    pub(super) fn remember(&mut self, known: &Rc<Known>, text: &[u8], original: Option<&Original>) {
        for effect in &known.facts.effects {
            if let Effect::Prepare(name) = effect {
                let prepared = Prepared { known: Rc::clone(known), text: text.into(), original: original.cloned() };
                self.0.get_or_insert_default().remember(name, prepared);
            }
        }
    }

    /// One that is not remembered could not be judged when it runs.
    pub(super) fn too_many(&self, facts: &Facts) -> Option<Refusal> {
        let is_full = self.0.as_ref().is_some_and(|kept| kept.is_full());
        let prepares = is_full && facts.effects.iter().any(|effect| matches!(effect, Effect::Prepare(_)));
        prepares.then(|| {
            let message =
                format!("this session has prepared too many statements by PREPARE ({MOST}, or 16 MiB, are possible)");
            Refusal::new(SqlState::LIMIT_EXCEEDED, message)
        })
    }

    /// All replies of the request are in. If none is an error, its names were free.
    pub(super) fn settle(&mut self, failed: bool) {
        if let Some(kept) = &mut self.0 {
            kept.settle(failed);
        }
    }

    /// DEALLOCATE. What the request under way prepares may come behind it, so that stays.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some(kept) = &mut self.0 {
            kept.keep_now(name);
            kept.weigh();
        }
    }

    /// DEALLOCATE ALL, likewise.
    pub(super) fn clear(&mut self) {
        let Some(kept) = &mut self.0 else { return };
        for name in kept.known.keys().cloned().collect::<Vec<_>>() {
            kept.keep_now(&name);
        }
        kept.weigh();
        if kept.count == 0 && kept.now.is_empty() {
            self.0 = None;
        }
    }
}

impl Kept {
    fn remember(&mut self, name: &str, prepared: Prepared) {
        if !self.is_full() {
            self.count += 1;
            self.bytes += prepared.text.len();
            self.known.entry(name.into()).or_default().push(prepared);
            self.now.push(name.into());
        }
    }

    fn settle(&mut self, failed: bool) {
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
