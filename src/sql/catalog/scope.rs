//! What the names in a session's texts mean.

use std::{cell::RefCell, sync::Arc};

use super::{Catalog, Freshness, Published, judge::Memory, path::SearchPath};
use crate::sql::shape::Shape;

/// A database, and where in it a session looks for names. Shared by all sessions of a worker that look there.
#[derive(Debug)]
pub struct Scope {
    source: Arc<Published>,
    search_path: Option<Box<str>>,
    login: Box<str>,
    user: Box<str>,
    /// Shapes of one scope are not those of another.
    salt: u128,
    /// What the catalog says is out of date to whoever looks here.
    doubts: bool,
    memory: RefCell<Option<Remembered>>,
}

/// Judgements of one stamp.
#[derive(Debug)]
pub(in crate::sql) struct Remembered {
    stamp: u64,
    pub(in crate::sql) snapshot: u64,
    pub(in crate::sql) catalog: Arc<Catalog>,
    pub(in crate::sql) freshness: Freshness,
    pub(in crate::sql) memory: Memory,
}

impl Scope {
    /// `search_path` is the session's own setting, if it has one; `login` the role that it logged in as, `user` the one that it is now.
    pub fn new(source: Arc<Published>, search_path: Option<&str>, login: &str, user: &str) -> Self {
        Self {
            source,
            search_path: search_path.map(Into::into),
            login: login.into(),
            user: user.into(),
            salt: rand::random(),
            doubts: false,
            memory: RefCell::new(None),
        }
    }

    /// The same for a session that may have changed the schema since the catalog was looked at.
    #[must_use]
    pub fn in_doubt(self) -> Self {
        Self { doubts: true, ..self }
    }

    /// The catalog.
    pub fn source(&self) -> &Arc<Published> {
        &self.source
    }

    /// The session's own setting of `search_path`, else what servers give it as its default, as far as that is known.
    pub fn search_path(&self) -> Option<Box<str>> {
        let default = || self.source.present()?.0.default_path(&self.login).map(Into::into);
        self.search_path.clone().or_else(default)
    }

    /// Tells it from every other one.
    #[inline]
    pub fn id(&self) -> u128 {
        self.salt
    }

    /// The key of a shape in this scope.
    #[inline]
    pub(in crate::sql) fn key(&self, shape: Shape) -> Shape {
        Shape(shape.0 ^ self.salt)
    }

    /// Judges with the snapshot of this stamp, or one that has come since; `None`: there is no snapshot.
    pub(in crate::sql) fn judging<T>(&self, stamp: u64, judge: impl FnOnce(&mut Remembered) -> T) -> Option<T> {
        let mut memory = self.memory.borrow_mut();
        if memory.as_ref().is_none_or(|known| known.stamp != stamp) {
            let snapshot = self.source.snapshot();
            *memory = self.source.present().map(|(catalog, freshness)| {
                let value = self.search_path.as_deref().or_else(|| catalog.default_path(&self.login));
                let memory = Memory::new(SearchPath::new(value, &self.user));
                let freshness = if self.doubts { Freshness::Stale } else { freshness };
                Remembered { stamp, snapshot, catalog, freshness, memory }
            });
        }
        memory.as_mut().map(judge)
    }
}
