//! After the answer: what the transaction did to its server's session is read back from the server itself, so that settings follow
//! the client from there on, and the server goes back to the pool as clean as it came.

use std::collections::BTreeMap;

use super::{
    end::End,
    state::{Deeds, Last, PIN_REASONS, Pins, Session},
};
use crate::{
    base::SqlState,
    config::PoolMode,
    pool::{Params, quote_literal},
    route::{Floor, Outcome as NodeOutcome, Role},
    sql::{Facts, facts::Effect, facts::Kind, facts::TxVerb},
    wire::backend::{DataRow, TxStatus},
};

/// What lives on in a server's session beyond a transaction, in the order of [`Pins`].
const LIVING: &str = "EXISTS(SELECT FROM pg_catalog.pg_listening_channels()),\
    EXISTS(SELECT FROM pg_catalog.pg_class WHERE relnamespace=pg_catalog.pg_my_temp_schema()),\
    EXISTS(SELECT FROM pg_catalog.pg_locks WHERE locktype='advisory' AND pid=pg_catalog.pg_backend_pid()),\
    EXISTS(SELECT FROM pg_catalog.pg_cursors WHERE is_holdable),\
    EXISTS(SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql)";
const LIVING_COLUMNS: usize = 5;

/// Every parameter that differs from its default because somebody has set it in this session. The identity is not in the
/// view; what belongs to one transaction, or cannot be read, is not of the session.
const SETTINGS: &str = "SELECT 'role',pg_catalog.current_setting('role') UNION ALL \
    SELECT 'session_authorization',pg_catalog.current_setting('session_authorization') UNION ALL \
    SELECT name,pg_catalog.current_setting(name) FROM pg_catalog.pg_settings WHERE source='session' \
    AND name NOT IN ('transaction_isolation','transaction_read_only','transaction_deferrable','seed')";

/// Everything a statement can leave in a session except prepared statements, which are ours; DISCARD ALL would drop those, too.
const RESET: &[u8] = b"SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;\
    SELECT pg_catalog.pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP";

/// May the data be another afterwards? What only touches the session cannot do that, but EXECUTE runs what was prepared, and a
/// cursor, whenever it is fetched from, what it was declared for.
fn may_write(facts: &Facts) -> bool {
    let runs_another = facts.effects.iter().any(|effect| matches!(effect, Effect::Execute(_) | Effect::Declare { .. }));
    let ends_prepared = facts.tx.iter().any(|verb| matches!(verb, TxVerb::CommitPrepared | TxVerb::PrepareTransaction));
    let harmless = matches!(facts.kind, Kind::Transaction | Kind::Session | Kind::Empty);
    !facts.proven_read_only && (!harmless || runs_another || ends_prepared)
}

/// May the transaction's commit not wait for its flush?
fn may_commit_lazily(effect: &Effect) -> bool {
    match effect {
        Effect::SetParameter { name, .. } => **name == *"synchronous_commit",
        Effect::SetUnknownParameter => true,
        _ => false,
    }
}

impl Deeds {
    /// A new request begins: what the last one would have done to the transaction is known by now.
    pub(super) fn next(&mut self) {
        (self.ending, self.leaves_open) = (false, None);
    }

    /// Notes what a statement that is about to be sent may do.
    pub(super) fn note(&mut self, facts: &Facts) {
        self.wrote |= may_write(facts);
        if facts
            .tx
            .iter()
            .any(|verb| matches!(verb, TxVerb::Commit { .. } | TxVerb::PrepareTransaction | TxVerb::CommitPrepared))
        {
            self.ending = true;
        }
        self.controlled |= !facts.tx.is_empty();
        for verb in &facts.tx {
            match verb {
                TxVerb::Begin { .. } => self.leaves_open = Some(true),
                TxVerb::Commit { chain } | TxVerb::Rollback { chain } => self.leaves_open = Some(*chain),
                TxVerb::PrepareTransaction => self.leaves_open = Some(false),
                TxVerb::Savepoint
                | TxVerb::Release
                | TxVerb::RollbackTo
                | TxVerb::CommitPrepared
                | TxVerb::RollbackPrepared
                | TxVerb::SetTransaction(_)
                | TxVerb::SetSnapshot => {}
            }
        }
        self.rolled_back |= facts.tx.iter().any(|verb| matches!(verb, TxVerb::Rollback { .. } | TxVerb::RollbackTo));
        self.ddl |= facts.kind == Kind::Ddl && !facts.effects.contains(&Effect::TempObject);
        self.lazy_commit |= facts.effects.iter().any(may_commit_lazily);
        for effect in &facts.effects {
            match effect {
                Effect::SetParameter { local: true, .. } | Effect::Declare { hold: false } | Effect::DiscardOther => {}
                Effect::SetParameter { name, local: false } => {
                    self.touched.insert(name.clone(), Last::Set);
                    // SET SESSION AUTHORIZATION takes the role back as well.
                    if **name == *"session_authorization" {
                        self.touched.insert("role".into(), Last::Set);
                    }
                }
                Effect::ResetParameter(name) => {
                    self.touched.insert(name.clone(), Last::Reset);
                    if **name == *"session_authorization" {
                        self.touched.insert("role".into(), Last::Reset);
                    }
                }
                Effect::SetUnknownParameter => self.unknown_parameter = true,
                Effect::ResetAll => self.note_reset_all(),
                Effect::DiscardAll => {
                    self.note_reset_all();
                    self.living = true;
                }
                Effect::Listen
                | Effect::Unlisten
                | Effect::UnlistenAll
                | Effect::TempObject
                | Effect::DiscardTemp
                | Effect::AdvisoryLock
                | Effect::AdvisoryUnlock
                | Effect::AdvisoryUnlockAll
                | Effect::Prepare(_)
                | Effect::Deallocate(_)
                | Effect::Declare { hold: true }
                | Effect::CloseCursor
                | Effect::CloseAllCursors => self.living = true,
                Effect::DeallocateAll => self.living = true,
                Effect::Load => self.load = true,
                Effect::Execute(_) => self.residue = true,
                Effect::ExportSnapshot | Effect::SessionValue => {}
                Effect::OpaqueCode => self.opaque = true,
            }
        }
    }

    fn note_reset_all(&mut self) {
        self.reset_all = true;
        for last in self.touched.values_mut() {
            *last = Last::Reset;
        }
    }

    /// Could the server's session differ from what the pool believes?
    pub(super) fn left_something(&self) -> bool {
        !self.touched.is_empty() || self.reset_all || self.living || self.opaque || self.unknown_parameter || self.load
    }
}

impl Session {
    /// The last reply is in. Outside a transaction the server goes back; inside one it stays.
    pub(super) async fn settle(&mut self) -> Result<(), End> {
        self.note_reported();
        if self.held.is_none() || self.group_open {
            return Ok(());
        }
        if self.feed.status != Some(TxStatus::Idle) {
            return Ok(());
        }
        self.portals.clear();
        let failed = self.feed.error.is_some();
        self.deeds.rolled_back |= failed;
        // A statement that failed on its own has changed nothing; in a transaction of several that is not known, and code that
        // we cannot see into may have committed before it failed (COMMIT in a procedure or a DO block).
        if self.deeds.wrote && (!failed || self.deeds.controlled || self.deeds.opaque) {
            self.dirty();
        }
        if failed && !self.deeds.controlled && !self.deeds.opaque {
            // Nor has it set anything. Not every value the server has can be set again (max_connections).
            self.deeds.touched.clear();
            self.deeds.reset_all = false;
        }
        if self.deeds.ddl {
            // Once more than when it ran: what was prepared in between may be of a schema that was rolled back.
            self.worker.shared.schema_changed();
        }
        (self.deeds.wrote, self.deeds.controlled, self.deeds.ddl, self.deeds.lazy_commit) =
            (false, false, false, false);
        if self.held.as_ref().is_some_and(|held| !held.lent_names.is_empty()) && !Box::pin(self.take_names_back()).await
        {
            self.held = None;
            return Ok(());
        }
        if self.deeds.left_something() {
            let theirs = self.deeds.living || !self.deeds.touched.is_empty();
            Box::pin(self.read_back()).await;
            self.tell_defaults();
            if theirs && self.held.is_none() {
                // What the client was told it has set is not known, so nothing can be run for it any more.
                let message = "the server connection was lost before the session's settings could be read back";
                return Err(End::Fatal(SqlState::CONNECTION_FAILURE, message.into()));
            }
        }
        self.deeds.rolled_back = false;
        if self.held.is_none() || self.pins.any() || self.tenant.database.pool.mode == PoolMode::Session {
            return Ok(());
        }
        if self.handle.is_cancel_under_way() {
            Box::pin(self.release()).await;
        } else {
            self.give_back();
        }
        Ok(())
    }

    /// From now on a replica must have what the primary has. A replica itself cannot have written.
    pub(super) fn dirty(&mut self) {
        if self.last.role == Some(Role::Replica) {
            return;
        }
        let since = self.marked();
        let lazy = self.deeds.lazy_commit || self.params.value("synchronous_commit") == Some("off");
        self.floor = if lazy { Floor::DirtyAsync { since } } else { Floor::Dirty { since } };
    }

    /// Gives the server back once no cancel can hit it late.
    pub(super) async fn release(&mut self) {
        if !self.handle.no_cancel_under_way().await {
            self.held = None;
            return;
        }
        self.give_back();
    }

    fn give_back(&mut self) {
        if let Some(held) = self.held.take() {
            self.account(&held, NodeOutcome::Answered);
            self.feed.status = None;
            self.deeds.residue = false;
            held.lease.give_back(self.mark);
        }
    }

    /// Tells the balance how the node did.
    pub(super) fn account(&self, held: &super::state::Held, outcome: NodeOutcome) {
        if let Some(load) = self.tenant.loads.get(held.node) {
            let took = self.mark.saturating_duration_since(held.since);
            load.finished(self.worker.index, self.marked(), took, outcome);
        }
    }

    /// All prepared statements of the held server are deallocated, or will be by what is about to be sent: they get new names from
    /// now on.
    pub(super) fn forget_statements(&mut self) {
        let Some(held) = &mut self.held else { return };
        held.lent_names.clear();
        if let Some(server) = held.lease.server() {
            server.prepared.clear();
        }
    }

    /// Asks the server what the transaction left behind.
    async fn read_back(&mut self) {
        let before = self.pins;
        let deeds = std::mem::take(&mut self.deeds);
        self.deeds.residue = deeds.opaque || deeds.residue;
        if deeds.load {
            self.pins.load = true;
        }
        if deeds.unknown_parameter {
            self.pins.set = true;
        }
        let mut names = deeds.touched;
        if deeds.reset_all {
            for (name, _) in self.params.iter() {
                names.entry(name.into()).or_insert(Last::Reset);
            }
        }
        let mut columns: Vec<String> = names.keys().map(|name| current_setting(name)).collect();
        let look = deeds.living || deeds.opaque;
        if look {
            columns.push(LIVING.to_owned());
        }
        if !columns.is_empty() {
            let mut sql = format!("SELECT {}", columns.join(","));
            // What was refused, or undone, was not set; the value alone does not tell.
            let listed = deeds.opaque || deeds.rolled_back;
            if listed {
                sql.push(';');
                sql.push_str(SETTINGS);
            }
            let answered = self.hidden(sql.as_bytes()).await;
            let row = self.feed.rows.first().cloned().filter(|_| answered);
            let Some(row) = row else {
                self.held = None;
                return;
            };
            self.learn(&row, &names, look, before, deeds.rolled_back);
            if listed {
                self.learn_settings();
            }
        }
        let keeps = self.pins.any() || self.tenant.database.pool.mode == PoolMode::Session;
        if self.deeds.residue && !keeps {
            if !self.hidden(RESET).await {
                self.held = None;
                return;
            }
            self.deeds.residue = false;
            if let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) {
                server.params = Params::default();
            }
        }
        self.feed.reset();
    }

    /// Takes over what the server says its parameters are, and what lives in its session.
    fn learn(&mut self, row: &[u8], names: &BTreeMap<Box<str>, Last>, look: bool, before: Pins, rolled_back: bool) {
        let Ok(row) = DataRow::parse(row) else {
            self.held = None;
            return;
        };
        let values: Vec<Option<&[u8]>> = row.columns().map(|v| v.ok().flatten()).collect();
        let login = self.held.as_ref().map(|held| held.lease.local().pool.login_user());
        let (mut on_server, mut on_client) = (Vec::new(), Vec::new());
        for ((name, last), value) in names.iter().zip(&values) {
            let value = value.map(|v| String::from_utf8_lossy(v).into_owned());
            let is_default = match &**name {
                "role" => value.as_deref() == Some("none"),
                "session_authorization" => value.as_deref() == login.as_deref(),
                // A reset that was not rolled back: the value is the server's default, whatever it is. Of one that may have been, the
                // list of what was set tells (see `learn_settings`), except for names with a dot; those are mostly empty by default.
                _ => *last == Last::Reset && (!rolled_back || value.as_deref().is_none_or(str::is_empty)),
            };
            let value = value.filter(|_| !is_default);
            // A client's default is what it asked for at login, which this server never heard of.
            let client = value.clone().or_else(|| self.startup.value(name).map(str::to_owned));
            on_server.push((&**name, value));
            on_client.push((&**name, client));
        }
        let changed = self.params.with(on_server.iter().map(|(n, v)| (*n, v.as_deref())));
        if let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) {
            server.params = changed;
        }
        self.params = self.params.with(on_client.iter().map(|(n, v)| (*n, v.as_deref())));
        if look && values.len() >= LIVING_COLUMNS {
            let living = &values[values.len() - LIVING_COLUMNS..];
            let lives = |i: usize| living.get(i).copied().flatten() == Some(b"t");
            self.pins = Pins {
                listen: lives(0),
                temp_table: lives(1),
                advisory_lock: lives(2),
                with_hold_cursor: lives(3),
                prepare: lives(4),
                ..self.pins
            };
        }
        if !before.any()
            && let Some(reason) = self.pins.reason()
        {
            let index = PIN_REASONS.iter().position(|r| *r == reason);
            self.worker.metrics.pinned(index.unwrap_or_default());
        }
    }
}

impl Session {
    /// Takes over all parameters the server has been given, whoever gave them. Those with a dot in their names it does not list.
    fn learn_settings(&mut self) {
        let login = self.held.as_ref().map(|held| held.lease.local().pool.login_user());
        let text = |value: Option<&[u8]>| value.map(|v| String::from_utf8_lossy(v).into_owned());
        let settings: BTreeMap<String, String> = (self.feed.rows.iter().skip(1))
            .filter_map(|row| {
                let row = DataRow::parse(row).ok()?;
                let mut columns = row.columns().map(|v| text(v.ok().flatten()));
                // The view has TimeZone where everybody else says timezone.
                Some((columns.next()??.to_ascii_lowercase(), columns.next()??))
            })
            .filter(|(name, value)| match name.as_str() {
                "role" => value != "none",
                "session_authorization" => Some(value.as_str()) != login.as_deref(),
                _ => true,
            })
            .collect();
        let gone = self
            .params
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !name.contains('.') && !settings.contains_key(*name));
        let on_server: Vec<(&str, Option<&str>)> =
            gone.map(|name| (name, None)).chain(settings.iter().map(|(n, v)| (n.as_str(), Some(v.as_str())))).collect();
        let on_server = self.params.with(on_server);
        // A client's default is what it asked for at login.
        let missing: Vec<(&str, Option<&str>)> =
            self.startup.iter().filter(|(n, _)| on_server.value(n).is_none()).map(|(n, v)| (n, Some(v))).collect();
        self.params = on_server.with(missing);
        if let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) {
            server.params = on_server;
        }
    }
}

fn current_setting(name: &str) -> String {
    let mut sql = String::from("pg_catalog.current_setting(");
    quote_literal(&mut sql, name);
    sql.push_str(",true)");
    sql
}

#[cfg(test)]
mod tests;
