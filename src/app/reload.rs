//! All or nothing: a bad file changes nothing and says why.

use std::{path::PathBuf, sync::Arc};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;

use super::{load::load, run::home};
use crate::{
    base::Generation,
    cluster::Cluster,
    net::Address,
    observe::LogControl,
    policy::RuleSet,
    session::{Shared, Snapshot},
    taps::Home,
};

/// Re-reads the configuration; calls come one after the other.
pub(super) struct Reloader {
    path: PathBuf,
    shared: Arc<Shared>,
    cluster: Cluster,
    /// The rules whose counters are shown.
    counted: Arc<ArcSwap<RuleSet>>,
    /// Where the allow list keeps what it has learned.
    store: Arc<ArcSwapOption<Home>>,
    log: LogControl,
    turn: Mutex<()>,
}

impl Reloader {
    /// For the file the process was started with.
    pub(super) fn new(
        path: PathBuf,
        shared: Arc<Shared>,
        cluster: Cluster,
        counted: Arc<ArcSwap<RuleSet>>,
        store: Arc<ArcSwapOption<Home>>,
        log: LogControl,
    ) -> Self {
        Self { path, shared, cluster, counted, store, log, turn: Mutex::new(()) }
    }

    /// Reads the file anew. The faults, as text, if it does not hold.
    pub(super) fn reload(&self) -> Result<(), String> {
        let _turn = self.turn.lock();
        let old = self.shared.snapshot.load_full();
        let (config, rules, warnings) = load(&self.path, Some(&old.rules)).map_err(|faults| {
            let text = faults.to_string();
            tracing::error!(faults = %text, "the configuration was not reloaded");
            text
        })?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        for key in old.config.needs_restart(&config) {
            tracing::warn!(key, "this change takes effect at the next start only");
        }
        if let Err(error) = self.log.set_level(&config.log.level) {
            tracing::warn!(%error, "the log level was not changed");
        }
        let config = Arc::new(config);
        self.cluster.reload(Arc::clone(&config));
        let views = (0..config.databases.len()).filter_map(|i| self.cluster.view(i)).collect();
        let generation = Generation(old.generation.0 + 1);
        let rules = Arc::new(rules);
        self.counted.store(Arc::clone(&rules));
        self.store.store(home(&config, &self.path).map(Arc::new));
        let snapshot = Snapshot::new(generation, Arc::clone(&config), rules, views, Some(&old));
        self.shared.publish(snapshot);
        self.shared.pools.retain(|key| {
            config.databases.iter().any(|database| {
                database.nodes.iter().any(|n| n.id == key.node && Address::new(&n.host, n.port) == key.address)
            })
        });
        self.shared.pools.reach_by(&config.tls.server);
        tracing::info!(generation = generation.0, "configuration reloaded");
        Ok(())
    }
}
