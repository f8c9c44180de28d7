//! All workers' counters, and the names behind their slots.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};

use super::{scrape::Scrape, worker::WorkerMetrics};

/// Most database names, and most node names, that have counters of their own; all later ones share the last slot,
/// `other`. Slots are kept for the life of the process, so a reload never moves a counter.
pub(super) const SLOTS: usize = 64;

/// Label values of the rooms above.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// Route reasons.
    pub reasons: &'static [&'static str],
    /// Pin reasons.
    pub pins: &'static [&'static str],
    /// Taps.
    pub taps: &'static [&'static str],
}

/// A node as a scrape shows it.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The database it is listed under.
    pub database: Arc<str>,
    /// Its name.
    pub node: Arc<str>,
    /// primary, replica, unknown.
    pub role: &'static str,
    /// Does it answer?
    pub up: bool,
    /// Age of its data.
    pub lag: Option<Duration>,
    /// WAL bytes not replayed.
    pub lag_bytes: Option<u64>,
    /// Server connections on a shelf.
    pub idle: usize,
    /// Server connections on loan, or being dialled or ended.
    pub active: usize,
}

/// A rule as a scrape shows it.
#[derive(Clone, Debug)]
pub struct RuleFacts {
    /// The part of a rule file it stands in.
    pub section: &'static str,
    /// Its name.
    pub rule: Arc<str>,
    /// How often which verdict came of it.
    pub hits: Vec<(&'static str, u64)>,
}

/// The catalogs of a database as a scrape shows them.
#[derive(Clone, Debug)]
pub struct CatalogFacts {
    /// The database of the configuration.
    pub database: Box<str>,
    /// How often they were looked at, by what came out.
    pub looks: [(&'static str, u64); 3],
    /// How long that took in all.
    pub took: Duration,
    /// How old what is known may be.
    pub age: Option<Duration>,
    /// Whether it is believed in all it says.
    pub fresh: bool,
}

/// What is asked at each scrape.
pub struct Sources {
    /// Nodes.
    pub nodes: Box<dyn Fn() -> Vec<NodeFacts> + Send + Sync>,
    /// Rules.
    pub rules: Box<dyn Fn() -> Vec<RuleFacts> + Send + Sync>,
    /// Catalogs.
    pub catalogs: Box<dyn Fn() -> Vec<CatalogFacts> + Send + Sync>,
}

/// Registered once; handles are passed.
pub struct Metrics {
    workers: Vec<Arc<WorkerMetrics>>,
    names: Arc<Names>,
    registry: Registry,
}

/// Names behind slots.
#[derive(Debug, Default)]
pub(super) struct Names {
    databases: Mutex<Vec<Arc<str>>>,
}

impl Metrics {
    /// Counters for `workers` workers.
    pub fn new(workers: usize, words: Words, sources: Sources) -> Result<Self, prometheus::Error> {
        let workers: Vec<_> = (0..workers).map(|_| Arc::new(WorkerMetrics::new(&words))).collect();
        let names = Arc::new(Names::default());
        let registry = Registry::new();
        let scrape = Scrape::new(workers.clone(), Arc::clone(&names), words, sources)?;
        registry.register(Box::new(scrape))?;
        Ok(Self { workers, names, registry })
    }

    /// The counters of worker `index`; `None` beyond the number of workers.
    pub fn worker(&self, index: usize) -> Option<Arc<WorkerMetrics>> {
        self.workers.get(index).cloned()
    }

    /// The slot of a database name. Not for the hot path: once per database and configuration.
    pub fn database(&self, name: &str) -> usize {
        slot(&self.names.databases, name)
    }

    /// The text of `GET /metrics`.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

impl Names {
    pub(super) fn databases(&self) -> Vec<Arc<str>> {
        self.databases.lock().clone()
    }
}

fn slot(names: &Mutex<Vec<Arc<str>>>, name: &str) -> usize {
    let mut names = names.lock();
    match names.iter().position(|known| &**known == name) {
        Some(slot) => slot,
        None if names.len() < SLOTS - 1 => {
            names.push(name.into());
            names.len() - 1
        }
        None => {
            if names.len() < SLOTS {
                names.push("other".into());
            }
            SLOTS - 1
        }
    }
}

#[cfg(test)]
mod tests;
