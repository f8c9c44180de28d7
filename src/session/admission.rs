//! How many are let in, of everybody and of each name.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use super::shared::Shared;
use crate::config::{Config, Database, User};

/// Counts clients against the limits. Those who have not proved who they are count for nothing but themselves: see
/// `half_open`.
#[derive(Debug, Default)]
pub struct Admission {
    connected: AtomicUsize,
    members: AtomicUsize,
    by_name: Mutex<HashMap<(Axis, Box<str>), usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Axis {
    User,
    Database,
}

/// A client that was let in; dropping it makes room.
#[derive(Debug)]
pub struct Admitted {
    shared: Arc<Shared>,
    names: [(Axis, Box<str>); 2],
}

/// A connection that is counted until dropped.
#[derive(Debug)]
pub struct Connected(Arc<Shared>);

/// Too many, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// `limits.clients`.
    All,
    /// `limits.per_user` or the user's `max_clients`.
    User,
    /// `limits.per_database`.
    Database,
}

impl Shared {
    /// Counts a connection, whoever it is.
    pub fn connect(self: &Arc<Self>) -> Connected {
        self.admission.connected.fetch_add(1, Ordering::Relaxed);
        Connected(Arc::clone(self))
    }

    /// Connections of clients.
    pub fn clients(&self) -> usize {
        self.admission.connected.load(Ordering::Relaxed)
    }

    /// Nobody else would be let in now, so nobody need prove anything.
    pub(super) fn is_full(&self, config: &Config) -> bool {
        self.admission.members.load(Ordering::Relaxed) >= config.limits.clients
    }

    /// Lets a client in that has proved who it is, so that nobody can fill another's places without its password.
    pub(super) fn admit(self: &Arc<Self>, user: &User, database: &Database, config: &Config) -> Result<Admitted, Full> {
        let names = [(Axis::User, user.name.as_str().into()), (Axis::Database, database.name.as_str().into())];
        let caps = [user.max_clients.or(config.limits.per_user), config.limits.per_database];
        let mut counts = self.admission.by_name.lock();
        for ((name, cap), full) in names.iter().zip(caps).zip([Full::User, Full::Database]) {
            if cap.is_some_and(|cap| counts.get(name).copied().unwrap_or(0) >= cap) {
                return Err(full);
            }
        }
        // Under the lock, so nobody comes in between.
        if self.is_full(config) {
            return Err(Full::All);
        }
        self.admission.members.fetch_add(1, Ordering::Relaxed);
        for name in &names {
            *counts.entry(name.clone()).or_default() += 1;
        }
        drop(counts);
        Ok(Admitted { shared: Arc::clone(self), names })
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.admission.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.admission.members.fetch_sub(1, Ordering::Relaxed);
        let mut counts = self.shared.admission.by_name.lock();
        for name in &self.names {
            if let Some(n) = counts.get_mut(name) {
                *n -= 1;
                if *n == 0 {
                    counts.remove(name);
                }
            }
        }
    }
}
