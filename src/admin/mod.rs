//! The operators' HTTP: /metrics, /healthz, /readyz, /nodes, /reload, /version.
//!
//! Runs on the control thread. It must never touch the data path, never wait without a deadline, never open a socket
//! to a server on a request's behalf, and never show a secret.

mod access;
mod api;
mod listen;

use std::{pin::Pin, sync::Arc};

use crate::route::ClusterView;

pub use api::serve;

/// Every database's name and view.
pub type Views = Vec<(Arc<str>, Arc<ClusterView>)>;

/// A look that takes its time.
pub type Looking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the API shows and does, handed in by whoever wires the process.
#[derive(Clone)]
pub struct AdminState {
    /// All databases: [`crate::cluster::Cluster::views`].
    pub views: Arc<dyn Fn() -> Views + Send + Sync>,
    /// The text of /metrics, or why there is none: [`crate::observe::Metrics::render`].
    pub metrics: Arc<dyn Fn() -> Result<String, String> + Send + Sync>,
    /// Reads the configuration anew: all of it, or nothing and the faults as text. Calls come one after the other.
    pub reload: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Resolves when what a reload looks at anew, the catalogs of the databases, has been looked at.
    pub looked: Arc<dyn Fn() -> Looking + Send + Sync>,
    /// Bearer tokens for all but /metrics, /healthz, /readyz; empty: loopback peers only. Asked at each request, so
    /// a reload counts at once.
    pub tokens: Arc<dyn Fn() -> Arc<[String]> + Send + Sync>,
}

#[cfg(test)]
mod tests;
