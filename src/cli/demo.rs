//! `pgsluice demo`: a private primary with replicas, served for as long as the command runs.
//!
//! Everything lives below one temporary directory and is gone afterwards, whatever ends the command.
//! The tests use the same throw-away [`cluster`]; nothing here may touch a PostgreSQL it did not start.

pub mod binaries;
pub mod cluster;
pub mod guard;
pub mod node;

pub use cluster::{Cluster, ClusterError, HostAuth, Options};
pub use guard::Tethered;
pub use node::{Node, Stop};
