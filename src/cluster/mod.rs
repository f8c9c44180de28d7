//! Control plane: asks every node what it is and where it stands, and publishes one [`ClusterView`] per database.
//!
//! Runs on the control thread's runtime only; workers read the views and may say "look again", nothing else. It must
//! never call a node down because one connection ended, never trust an old answer, and never wait without a deadline.

mod carrier;
mod catalog;
mod elect;
mod lag;
mod link;
mod probe;
mod state;
mod track;
mod watch;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch as signal},
};

use crate::{
    base::{Clock, NodeId},
    config::Config,
    route::ClusterView,
    sql::{Functions, catalog::Published},
};

use catalog::Catalogs;
pub use catalog::{CatalogTally, read_catalog};
use state::State;

/// Doubts waiting to be looked at; more than that say nothing new.
const DOUBTS: usize = 256;

/// The control plane's handle. Cloning is cheap; every clone means the same cluster.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    doubts: mpsc::Sender<NodeId>,
}

/// What the tasks of the control thread share.
struct Shared {
    clock: Clock,
    state: Mutex<State>,
    published: signal::Sender<u64>,
    probed: signal::Sender<bool>,
    /// Clock until which somebody waits for a replica.
    haste: signal::Sender<Duration>,
    catalogs: Catalogs,
    /// The control thread's; tasks are started from workers, too.
    runtime: Handle,
}

impl Cluster {
    /// Starts probing. Call inside the control thread's tokio runtime.
    pub fn start(config: Arc<Config>, clock: Clock, functions: Arc<Functions>) -> Self {
        let (doubts, inbox) = mpsc::channel(DOUBTS);
        let shared = Arc::new(Shared {
            clock,
            state: Mutex::new(State::new(config.workers)),
            published: signal::Sender::new(0),
            probed: signal::Sender::new(false),
            haste: signal::Sender::new(Duration::ZERO),
            catalogs: Catalogs::new(functions),
            runtime: Handle::current(),
        });
        let cluster = Self { shared, doubts };
        cluster.reload(config);
        tokio::spawn(watch::listen_to_doubts(Arc::clone(&cluster.shared), inbox));
        cluster
    }

    /// The view of the database at this index of the current configuration. The handle stays good over reloads that
    /// keep the database's name.
    pub fn view(&self, database: usize) -> Option<Arc<ArcSwap<ClusterView>>> {
        self.shared.state.lock().view(database)
    }

    /// All views with their databases' names, in configuration order.
    pub fn views(&self) -> Vec<(Arc<str>, Arc<ClusterView>)> {
        self.shared.state.lock().views()
    }

    /// What is known of the catalog of a configured database that is called `dbname` on the servers; read from now on. Callable from any
    /// thread.
    pub fn catalog(&self, database: &str, dbname: &str) -> Arc<Published> {
        self.shared.catalogs.find(&self.shared, database, dbname)
    }

    /// Reads the catalogs of all databases that have one name on the servers, before anybody needs them.
    pub fn read_catalogs(&self, config: &Config) {
        for database in config.databases.iter().filter(|database| database.name != "*" || database.dbname.is_some()) {
            self.catalog(&database.name, database.dbname.as_deref().unwrap_or(&database.name));
        }
    }

    /// Resolves when every catalog that was asked for was looked at since then, and since the last reload.
    pub async fn catalogs_read(&self) {
        self.shared.catalogs.looked_at().await;
    }

    /// What became of the looks at the catalogs of each database.
    pub fn catalog_tallies(&self) -> BTreeMap<Box<str>, CatalogTally> {
        self.shared.catalogs.tallies(self.shared.clock.now())
    }

    /// A worker saw a dial fail or a connection break: the node is probed at once. Never blocks; callable from any thread.
    pub fn suspect(&self, node: NodeId) {
        // A full queue means that probes are due anyway.
        let _ = self.doubts.try_send(node);
    }

    /// A read waits for a fresh replica until this clock: nodes are asked every few milliseconds meanwhile. Never blocks;
    /// callable from any thread. Wait on [`Cluster::published`].
    pub fn hasten(&self, until: Duration) {
        self.shared.haste.send_if_modified(|known| {
            let later = until > *known;
            *known = until.max(*known);
            later
        });
    }

    /// Takes over a new configuration: nodes that stay keep all that is known of them. Call on the control runtime.
    pub fn reload(&self, config: Arc<Config>) {
        let now = self.shared.clock.now();
        let (changes, summary) = {
            let mut state = self.shared.state.lock();
            let changes = state.reload(Arc::clone(&config), now);
            (changes, state.summary())
        };
        for (host, login, wake) in changes.started {
            let task = tokio::spawn(watch::watch(Arc::clone(&self.shared), host.clone(), login, wake));
            self.shared.state.lock().attach(&host, task.abort_handle());
        }
        self.shared.announce(summary);
        self.shared.catalogs.reload(&config);
    }

    /// Resolves when every node has been probed once, whatever came out.
    pub async fn ready(&self) {
        // The sender lives in `shared`, so waiting can only end with the value.
        let _ = self.shared.probed.subscribe().wait_for(|probed| *probed).await;
    }

    /// Changes whenever a view is published; for reads that wait for a replica.
    pub fn published(&self) -> signal::Receiver<u64> {
        self.shared.published.subscribe()
    }

    /// Stops probing and closes the probes' connections.
    pub fn shutdown(&self) {
        self.shared.state.lock().stop();
        self.shared.catalogs.stop();
    }
}

impl Shared {
    fn announce(&self, summary: state::Summary) {
        self.published.send_modify(|count| *count = count.wrapping_add(1));
        if summary == state::Summary::AllProbed {
            self.probed.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests;
