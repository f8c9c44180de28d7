//! A database's catalog as the control plane keeps it up to date and the workers read it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwapOption;

use super::Catalog;

/// May the snapshot be believed in all it says?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It was read after the last change of the schema that anybody has seen.
    Fresh,
    /// The schema has changed since or is being changed, and that is still to be read.
    Stale,
}

/// The present snapshot of one database, or none, and how it stands. Asking whether anything is new costs one load.
pub struct Published {
    id: u64,
    catalog: ArcSwapOption<Catalog>,
    /// Changes of the schema that were seen.
    changes: AtomicU64,
    /// Statements under way that change it.
    pending: AtomicU64,
    /// How many of them the snapshot has.
    read: AtomicU64,
    /// How many snapshots there have been.
    snapshots: AtomicU64,
    /// Goes up with each of these.
    stamp: AtomicU64,
    missed: AtomicBool,
    /// Goes up when sessions begin with other settings than before (ALTER ROLE and ALTER DATABASE with SET or RESET).
    defaults: AtomicU64,
    doubted: AtomicBool,
    /// Looks that were begun, and the last of them that came to its end.
    begun: AtomicU64,
    looked: AtomicU64,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Published {
    /// Nothing yet. `wake` is called when the catalog should be read again; it must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            catalog: ArcSwapOption::empty(),
            changes: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            read: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
            stamp: AtomicU64::new(1),
            missed: AtomicBool::new(false),
            // Beyond those of whatever stood in its place before.
            defaults: AtomicU64::new(id << 32),
            doubted: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            wake: Box::new(wake),
        }
    }

    /// A snapshot that nobody reads again.
    pub fn fixed(catalog: Catalog) -> Self {
        let published = Self::new(|| {});
        published.publish(catalog, 0);
        published
    }

    /// Tells it from every other one; never 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The number of the present snapshot.
    pub fn snapshot(&self) -> u64 {
        self.snapshots.load(Ordering::Acquire)
    }

    /// While it is the same, names mean the same.
    #[inline]
    pub fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    /// The snapshot. `None`: none was read yet.
    pub fn present(&self) -> Option<(Arc<Catalog>, Freshness)> {
        let catalog = self.catalog.load_full()?;
        Some((catalog, if self.is_fresh() { Freshness::Fresh } else { Freshness::Stale }))
    }

    /// A statement that changes the schema is about to be sent: its client may hear of its end before we do.
    pub fn changing(self: &Arc<Self>) -> Changing {
        self.pending.fetch_add(1, Ordering::AcqRel);
        self.stamp.fetch_add(1, Ordering::AcqRel);
        Changing(Arc::clone(self))
    }

    /// The schema has changed, or may have. Never blocks.
    pub fn change(&self) {
        self.expire();
        (self.wake)();
    }

    /// What a new session begins with has changed, or may have.
    pub fn change_defaults(&self) {
        self.defaults.fetch_add(1, Ordering::AcqRel);
    }

    /// While it is the same, new sessions begin as before.
    pub fn defaults(&self) -> u64 {
        self.defaults.load(Ordering::Acquire)
    }

    /// The snapshot is too old to be believed.
    pub fn expire(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.stamp.fetch_add(1, Ordering::AcqRel);
    }

    /// Somebody uses a name that is not in the snapshot. Never blocks; asking again before it was looked after costs one load.
    pub fn miss(&self) {
        if !self.missed.load(Ordering::Relaxed) && !self.missed.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
    }

    /// Somebody has run code that may have changed the schema, and does not believe the snapshot until a look that begins from now on. Never
    /// blocks.
    pub fn doubt(&self) -> Doubt {
        let doubt = Doubt(self.begun.load(Ordering::Acquire));
        if !self.doubted.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
        doubt
    }

    /// Was it looked at since?
    pub fn settles(&self, doubt: Doubt) -> bool {
        self.looked.load(Ordering::Acquire) > doubt.0
    }

    /// Is anybody in doubt who waits for a look?
    pub fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Acquire)
    }

    /// The catalog is about to be looked at; gives the look's number.
    pub fn begin(&self) -> u64 {
        self.doubted.store(false, Ordering::Release);
        self.begun.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// This look has come to its end, and what it found is published.
    pub fn end(&self, look: u64) {
        self.looked.fetch_max(look, Ordering::AcqRel);
    }

    /// Has anybody missed a name?
    pub fn is_missed(&self) -> bool {
        self.missed.load(Ordering::Acquire)
    }

    /// What was missed is about to be looked for.
    pub fn take_missed(&self) {
        self.missed.store(false, Ordering::Release);
    }

    /// Changes seen so far; to be asked before reading.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Is it known to have all changes that were seen?
    pub fn is_fresh(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0 && self.read.load(Ordering::Acquire) == self.changes()
    }

    /// A new snapshot, begun to be read after `changes`.
    pub fn publish(&self, catalog: Catalog, changes: u64) {
        self.catalog.store(Some(Arc::new(catalog)));
        self.snapshots.fetch_add(1, Ordering::AcqRel);
        self.confirm(changes);
        self.stamp.fetch_add(1, Ordering::AcqRel);
    }

    /// The snapshot was looked at after `changes`, and is still right.
    pub fn confirm(&self, changes: u64) {
        if self.read.swap(changes, Ordering::AcqRel) != changes {
            self.stamp.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Looks that began before something happened do not settle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt(u64);

/// While it lives, the schema is being changed.
#[derive(Debug)]
pub struct Changing(Arc<Published>);

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, Ordering::AcqRel);
        self.0.pending.fetch_sub(1, Ordering::AcqRel);
        self.0.stamp.fetch_add(1, Ordering::AcqRel);
        (self.0.wake)();
    }
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").field("stamp", &self.stamp()).finish_non_exhaustive()
    }
}
