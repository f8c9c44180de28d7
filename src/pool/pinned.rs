//! How many sessions keep a connection of a pool for themselves.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::Pool;

/// The count, as the pool holds it.
pub(super) type Count = AtomicUsize;

/// A session that keeps, or is about to keep, a connection of this pool. Dropping it ends that.
#[derive(Debug)]
pub struct Pinned(Arc<Pool>);

impl Pinned {
    /// Counts one more, unless that would be more than `most`.
    pub fn new(pool: &Arc<Pool>, most: Option<usize>) -> Option<Self> {
        let most = most.unwrap_or(usize::MAX);
        let counted = pool.pinned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < most).then(|| n + 1));
        counted.ok().map(|_| Self(Arc::clone(pool)))
    }

    /// Is it one of this pool?
    pub fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.0, pool)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.0.pinned.fetch_sub(1, Ordering::Relaxed);
    }
}
