//! One connection to one node, and the question asked on it.

use std::{str::FromStr, time::Duration};

use tokio::time::timeout;

use super::{
    link::{DEADLINE, Link, LinkError},
    state::{Host, Login},
};
use crate::base::{Clock, Lsn};

/// Asked once per connection. These functions are open to everybody unless an administrator revoked it; then what they tell stays
/// unknown, and nothing is written to the server's log.
const ONCE: &str = "SELECT pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'execute') AS system, \
    pg_catalog.has_function_privilege('pg_catalog.pg_control_checkpoint()', 'execute') \
    AND pg_catalog.has_function_privilege('pg_catalog.pg_control_recovery()', 'execute') AS kept";
const SYSTEM: &str = "SELECT system_identifier FROM pg_catalog.pg_control_system()";

/// Asked every time. Functions that a standby (or a primary) refuses stand behind CASE; they are volatile, so the
/// planner does not call them early.
const ASK: &str = "SELECT r AS in_recovery, \
    CASE WHEN NOT r THEN pg_catalog.pg_current_wal_flush_lsn() END AS flush, \
    CASE WHEN NOT r THEN pg_catalog.pg_current_wal_insert_lsn() END AS insert, \
    CASE WHEN r THEN pg_catalog.pg_last_wal_replay_lsn() END AS replay, \
    CASE WHEN NOT r THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END AS walfile, \
    (SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver LIMIT 1) AS received_tli, \
    $kept_tli AS kept_tli, \
    pg_catalog.pg_postmaster_start_time() AS started, \
    pg_catalog.current_setting('synchronous_commit') AS synchronous_commit, \
    pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size')) AS wal_segment \
    FROM (SELECT pg_catalog.pg_is_in_recovery() AS r OFFSET 0) AS s";

/// The timeline whose WAL a replica has kept. `received_tli` is for members of `pg_read_all_stats` alone; this is everybody's, and the
/// timeline that was replayed when pages or a restartpoint were written last: one behind for some minutes after a replica has
/// changed over, never one ahead.
const KEPT: &str = "CASE WHEN r THEN (SELECT GREATEST(c.timeline_id, k.min_recovery_end_timeline) \
    FROM pg_catalog.pg_control_checkpoint() AS c, pg_catalog.pg_control_recovery() AS k) END";

/// What a node said about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// `pg_is_in_recovery()`.
    pub(super) in_recovery: bool,
    /// Flushed (primary; inserted if commits do not wait for the flush) or replayed (replica).
    pub(super) lsn: Option<Lsn>,
    /// Inserted (primary); the same as `lsn` on a replica.
    pub(super) insert: Option<Lsn>,
    /// Timeline it writes (primary), or receives or at least has received (replica), if we may see it.
    pub(super) timeline: Option<u32>,
    /// `pg_postmaster_start_time()` as text: only compared.
    pub(super) started: String,
    /// `wal_segment_size` in bytes, 0 if unknown.
    pub(super) wal_segment: u64,
    /// `system_identifier`, if we may see it.
    pub(super) system: Option<String>,
    /// Clock before the question was sent.
    pub(super) begun: Duration,
    /// Clock after the answer was read.
    pub(super) ended: Duration,
}

/// An open probe connection.
pub(super) struct Probe {
    link: Link,
    system: Option<String>,
    question: String,
}

impl Probe {
    /// Connects and asks what cannot change within a connection.
    pub(super) async fn connect(host: &Host, login: &Login) -> Result<Self, LinkError> {
        timeout(DEADLINE, Self::dial(host, login)).await.map_err(|_| LinkError::Deadline(DEADLINE))?
    }

    async fn dial(host: &Host, login: &Login) -> Result<Self, LinkError> {
        let link = Link::connect(host, login, "-c statement_timeout=2000").await?;
        let mut system = None;
        let may = link.row(ONCE).await?;
        if may.try_get("system")? == Some("t") {
            system = link.row(SYSTEM).await?.try_get(0)?.map(str::to_owned);
        }
        let kept = if may.try_get("kept")? == Some("t") { KEPT } else { "NULL::pg_catalog.int4" };
        Ok(Self { link, system, question: ASK.replace("$kept_tli", kept) })
    }

    /// Asks where the node stands.
    pub(super) async fn ask(&self, clock: &Clock) -> Result<Sample, LinkError> {
        let begun = clock.now();
        let row =
            timeout(DEADLINE, self.link.row(&self.question)).await.map_err(|_| LinkError::Deadline(DEADLINE))??;
        let text = |name: &'static str| row.try_get(name);
        let lsn = |name: &'static str| -> Result<Option<Lsn>, LinkError> {
            text(name)?.map(Lsn::from_str).transpose().map_err(|_| LinkError::Nonsense(name))
        };
        let in_recovery = text("in_recovery")? == Some("t");
        let (lsn, insert) = if in_recovery {
            (lsn("replay")?, lsn("replay")?)
        } else if text("synchronous_commit")? == Some("off") {
            (lsn("insert")?, lsn("insert")?)
        } else {
            (lsn("flush")?, lsn("insert")?)
        };
        let timeline = match text("walfile")? {
            Some(walfile) => walfile.get(..8).and_then(|hex| u32::from_str_radix(hex, 16).ok()),
            None => text("received_tli")?.or(text("kept_tli")?).and_then(|number| number.parse().ok()),
        };
        Ok(Sample {
            in_recovery,
            lsn,
            insert,
            timeline,
            started: text("started")?.ok_or(LinkError::Nonsense("started"))?.to_owned(),
            wal_segment: text("wal_segment")?.and_then(|bytes| bytes.parse().ok()).unwrap_or(0),
            system: self.system.clone(),
            begun,
            ended: clock.now(),
        })
    }
}
