//! What operators see: the log and the numbers. Names are interface.md's.
//!
//! Counters are per worker and written by that worker only; a scrape sums them. This room must never make a statement
//! wait, never take SQL text or another client's data as a label, and never offer a number that nobody sets.

mod labels;
mod logging;
mod metrics;
mod repeats;
mod scrape;
mod worker;

pub use labels::{ClassifyPath, ClientState, LimitHit, LoginEnd, LookupEnd, Sent};
pub use logging::{LogControl, LogError, install};
pub use metrics::{CatalogFacts, Metrics, NodeFacts, RuleFacts, Sources, Words};
pub use repeats::{QUIET, Repeated, Repeats};
pub use worker::WorkerMetrics;
