//! What a transaction did to its server's session is read back from the server itself, so that settings follow the client from there on.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    deeds::{Deeds, Last},
    dotted,
    state::Session,
    unseen::{Stamp, Verdict},
};
use crate::{
    config::{Feature, GuardMode},
    pool::quote_literal,
    route::Role,
    sql::{Known, Shape},
    wire::backend::{DataRow, TxStatus},
};

/// Whether a server's session has a schema for temporary tables, and what lives on in it beyond a transaction, in the order of `LIVE`.
const LIVING: &str = "pg_catalog.pg_my_temp_schema() <> 0,\
    EXISTS(SELECT FROM pg_catalog.pg_listening_channels()),\
    EXISTS(SELECT FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.pg_my_temp_schema() \
      UNION ALL SELECT FROM pg_catalog.pg_proc WHERE pronamespace = pg_catalog.pg_my_temp_schema() \
      UNION ALL SELECT FROM pg_catalog.pg_type WHERE typnamespace = pg_catalog.pg_my_temp_schema() \
      UNION ALL SELECT FROM pg_catalog.pg_collation WHERE collnamespace = pg_catalog.pg_my_temp_schema() \
      UNION ALL SELECT FROM pg_catalog.pg_ts_dict WHERE dictnamespace = pg_catalog.pg_my_temp_schema()),\
    EXISTS(SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()),\
    EXISTS(SELECT FROM pg_catalog.pg_cursors WHERE is_holdable),\
    EXISTS(SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql)";
const LIVE: [Feature; 5] =
    [Feature::Listen, Feature::TempTable, Feature::AdvisoryLock, Feature::WithHoldCursor, Feature::Prepare];

/// Every parameter that differs from its default because somebody has set it in this session. The identity is not in the
/// view; what belongs to one transaction, or cannot be read, is not of the session.
const SETTINGS: &str = "SELECT 'listed','role',pg_catalog.current_setting('role') UNION ALL \
    SELECT 'listed','session_authorization',pg_catalog.current_setting('session_authorization') UNION ALL \
    SELECT 'listed',name,pg_catalog.current_setting(name) FROM pg_catalog.pg_settings WHERE source = 'session' \
    AND name <> ALL ('{transaction_isolation,transaction_read_only,transaction_deferrable,seed}')";

/// A question of ours, written with ` = ` and its like, that asks PostgreSQL's own operators whatever the search_path puts in front of them.
pub(super) fn of_the_system(question: &str) -> String {
    [" = ", " <> ", " >= ", " ~ ", " ~* ", " || "].into_iter().fold(question.to_owned(), |text, operator| {
        text.replace(operator, &format!(" OPERATOR(pg_catalog.{}) ", operator.trim()))
    })
}

impl Session {
    /// Judges the statements that have run and were not known; asks the server if need be. Those that may run unseen code for the first
    /// time are looked at closely. `failed`: not all of them have come to their end.
    pub(super) async fn meet_strangers(&mut self, failed: bool) {
        let now = self.worker.stamp();
        let strangers = std::mem::take(&mut self.deeds.strangers);
        if let Some(question) = self.question_about(&strangers, now) {
            if !self.hidden(question.as_bytes()).await {
                self.held = None;
                return;
            }
            self.tenant.unseen.borrow_mut().learn(&self.feed.rows, now);
        }
        for known in &strangers {
            let verdict = self.judge_stranger(known, now, failed);
            self.note_verdict(known.facts.proven_read_only, verdict);
        }
    }

    fn question_about(&self, strangers: &[Rc<Known>], now: Stamp) -> Option<String> {
        let mut unseen = self.tenant.unseen.borrow_mut();
        let unknown = strangers.iter().any(|known| unseen.judge(known, now).is_none());
        let stale = self.deeds.opaque && !unseen.is_of(now);
        let texts = strangers.iter().map(|known| &**known);
        if !(unknown || stale) || !unseen.may_ask(self.mark) {
            return None;
        }
        self.worker.metrics.catalog_question();
        Some(unseen.question(texts, &self.worker.words))
    }

    /// What the server of the request is asked before it runs, in the same write: mostly nothing. Only outside a transaction, which a
    /// failure would end.
    pub(super) fn question_in_front(&mut self) -> Option<String> {
        let flushes = self
            .held
            .as_ref()
            .and_then(|held| held.lease.peek())
            .is_some_and(|server| server.flushes.is_none() && server.params.value("synchronous_commit").is_none());
        let flushes = flushes && self.last.role == Some(Role::Primary);
        if (self.deeds.strangers.is_empty() && !flushes) || self.feed.status != Some(TxStatus::Idle) || self.group_open
        {
            return None;
        }
        let now = self.worker.stamp();
        let about = match &*self.deeds.strangers {
            [] => None,
            strangers => self.question_about(strangers, now),
        };
        let mut sql = about.unwrap_or_default();
        if flushes {
            sql.push_str(if sql.is_empty() { "" } else { ";" });
            sql.push_str("SELECT 'flushes',pg_catalog.current_setting('synchronous_commit')");
        }
        self.deeds.asked = (!sql.is_empty()).then_some(now);
        self.deeds.asked.map(|_| sql)
    }

    /// Takes over what was answered in front of the request.
    pub(super) fn learn_in_front(&mut self) {
        let Some(now) = self.deeds.asked.take() else { return };
        self.tenant.unseen.borrow_mut().learn(&self.feed.rows, now);
        let flushes = self.feed.rows.iter().find_map(|row| {
            let row = DataRow::parse(row).ok()?;
            let mut columns = row.columns().map(|column| column.ok().flatten());
            (columns.next()? == Some(b"flushes")).then(|| columns.next().flatten().map(|value| value != b"off"))?
        });
        if let Some(server) = self.held.as_mut().and_then(|held| held.lease.server())
            && flushes.is_some()
        {
            server.flushes = flushes;
        }
    }

    fn judge_stranger(&mut self, known: &Known, now: Stamp, failed: bool) -> Verdict {
        let mut unseen = self.tenant.unseen.borrow_mut();
        let verdict = unseen.judge(known, now);
        let unknown = verdict.is_none();
        let verdict = verdict.unwrap_or(Verdict::Unseen { reads: false });
        if failed || !matches!(verdict, Verdict::Unseen { .. }) {
            return verdict;
        }
        if unknown || unseen.is_first(known.shape, now) {
            self.deeds.looked_at.push(known.shape);
            self.deeds.opaque = true;
        }
        if unknown {
            return verdict;
        }
        if known.facts.proven_read_only && self.last.role == Some(Role::Replica) {
            unseen.keep(known.shape, now, Verdict::Unseen { reads: true });
            return Verdict::Unseen { reads: true };
        }
        verdict
    }

    /// Asks the server what the transaction left behind.
    pub(super) async fn read_back(&mut self) {
        let (pins, params) = (self.pins, self.params.clone());
        let deeds = std::mem::take(&mut self.deeds);
        self.deeds.residue = deeds.opaque || deeds.residue;
        self.note_lasting(&deeds);
        let mut names = deeds.touched.clone();
        if deeds.reset_all {
            for (name, _) in self.params.iter() {
                names.entry(name.into()).or_insert(Last::Reset);
            }
        }
        let mut columns: Vec<String> = names.keys().map(|name| current_setting(name)).collect();
        let look = deeds.living || deeds.opaque;
        if look {
            columns.push(of_the_system(LIVING));
        }
        if !columns.is_empty() {
            let mut sql = format!("SELECT {}", columns.join(","));
            // What was refused, or undone, was not set; the value alone does not tell.
            let listed = deeds.opaque || deeds.rolled_back;
            if listed {
                sql.push(';');
                sql.push_str(&of_the_system(SETTINGS));
            }
            if deeds.opaque {
                self.ask_for_dotted(&deeds.dotted, &names, &mut sql);
            }
            let answered = self.hidden(sql.as_bytes()).await;
            let row = self.feed.rows.first().cloned().filter(|_| answered);
            let Some(row) = row else {
                self.held = None;
                return;
            };
            self.learn(&row, &names, look, deeds.rolled_back);
            if listed {
                self.learn_settings();
            }
        }
        self.feed.reset();
        if !deeds.looked_at.is_empty() {
            let explained = |params: &crate::pool::Params| params.with(names.keys().map(|name| (&**name, None)));
            let lives = self.pins != pins && !deeds.living;
            if lives || explained(&params) != explained(&self.params) {
                self.note_leaving(&deeds.looked_at);
            }
        }
        self.note_pins(pins);
        if self.deeds.discard && !self.pins.any() {
            // Only the end of the connection undoes it.
            self.held = None;
        }
    }

    /// What no question tells.
    fn note_lasting(&mut self, deeds: &Deeds) {
        if deeds.reset_all && !deeds.rolled_back {
            self.pins.put(Feature::Set, false);
        }
        for feature in [(deeds.load, Feature::Load), (deeds.unknown_parameter, Feature::Set)]
            .into_iter()
            .filter_map(|(used, feature)| used.then_some(feature))
        {
            match self.guard_of(feature) {
                GuardMode::Pin | GuardMode::Warn => self.pins.put(feature, true),
                GuardMode::Allow | GuardMode::Block => {
                    self.deeds.residue = true;
                    self.deeds.discard |= feature == Feature::Load;
                }
            }
        }
    }

    /// These statements leave what they do not name: from now on the server is asked after each of them.
    fn note_leaving(&self, shapes: &[Shape]) {
        let now = self.worker.stamp();
        let mut unseen = self.tenant.unseen.borrow_mut();
        for shape in shapes {
            unseen.keep(*shape, now, Verdict::Leaves);
        }
    }

    /// Adds a question for parameters with a dot in their names that unseen code may have set.
    fn ask_for_dotted(&self, said: &[Box<str>], touched: &BTreeMap<Box<str>, Last>, sql: &mut String) {
        let mentioned = Rc::clone(&self.tenant.unseen.borrow().mentioned);
        let mut names: Vec<&str> = said.iter().chain(&*mentioned).map(|name| &**name).collect();
        names.extend(self.params.iter().map(|(name, _)| name).filter(|name| dotted::is_name(name.as_bytes())));
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !touched.contains_key(*name));
        if names.is_empty() {
            return;
        }
        sql.push_str(";SELECT 'dotted',n,pg_catalog.current_setting(n,true) FROM pg_catalog.unnest(ARRAY[");
        for (i, name) in names.iter().enumerate() {
            sql.push_str(if i == 0 { "" } else { "," });
            quote_literal(sql, name);
        }
        sql.push_str("]::pg_catalog.text[]) n");
    }

    /// Takes over what the server says its parameters are, and what lives in its session.
    fn learn(&mut self, row: &[u8], names: &BTreeMap<Box<str>, Last>, look: bool, rolled_back: bool) {
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
                // Empty is what the server makes of one that is reset; whether that was rolled back the value tells.
                name if rolled_back && name.contains('.') => value.as_deref().is_none_or(str::is_empty),
                // A reset that was not rolled back: the value is the server's default, whatever it is.
                _ => *last == Last::Reset && (!rolled_back || value.as_deref() != self.params.value(name)),
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
        if look && values.len() > LIVE.len() {
            let (before, living) = values.split_at(values.len() - LIVE.len());
            if let Some(server) = self.held.as_mut().and_then(|held| held.lease.server()) {
                server.temporary |= before.last() == Some(&Some(b"t"));
            }
            for (feature, lives) in LIVE.into_iter().zip(living) {
                self.learn_living(feature, *lives == Some(b"t"));
            }
        }
    }

    /// Something lives in the server's session, or no longer does.
    fn learn_living(&mut self, feature: Feature, lives: bool) {
        let mode = self.guard_of(feature);
        let pins = matches!(mode, GuardMode::Pin | GuardMode::Warn);
        self.pins.put(feature, lives && pins);
        if !lives || pins {
            return;
        }
        self.deeds.residue = true;
        self.deeds.residue_of_names |= feature == Feature::Prepare;
        if mode == GuardMode::Block {
            // Code that nobody could see into has done what is not allowed here.
            self.deeds.discard = true;
            tracing::warn!(user = %self.tenant.account.user.name, feature = feature.as_str(), "blocked state of a session was made by unseen code");
        }
    }

    /// Takes over all parameters the server has been given, whoever gave them. Those with a dot in their names it does not list;
    /// some of them were asked for.
    fn learn_settings(&mut self) {
        let login = self.held.as_ref().map(|held| held.lease.local().pool.login_user());
        let text = |value: Option<&[u8]>| value.map(|v| String::from_utf8_lossy(v).into_owned());
        let mut settings: BTreeMap<String, String> = BTreeMap::new();
        let mut asked: Vec<(String, Option<String>)> = Vec::new();
        for row in self.feed.rows.iter().skip(1) {
            let Ok(row) = DataRow::parse(row) else { continue };
            let mut columns = row.columns().map(|v| v.ok().flatten());
            let (kind, name, value) = (columns.next().flatten(), columns.next().flatten(), columns.next().flatten());
            match (kind, text(name), text(value)) {
                (Some(b"listed"), Some(name), Some(value)) => {
                    let default = match name.as_str() {
                        "role" => value == "none",
                        "session_authorization" => Some(value.as_str()) == login.as_deref(),
                        _ => false,
                    };
                    if !default {
                        // The view has TimeZone where everybody else says timezone.
                        settings.insert(name.to_ascii_lowercase(), value);
                    }
                }
                (Some(b"dotted"), Some(name), value) => asked.push((name, value)),
                _ => {}
            }
        }
        let gone = self
            .params
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !name.contains('.') && !settings.contains_key(*name))
            .map(|name| (name, None));
        // One that was never set has no value; once it was, its default is the empty text.
        let dotted = asked.iter().filter(|(name, value)| {
            self.params.value(name).is_some() || value.as_deref().is_some_and(|value| !value.is_empty())
        });
        let dotted = dotted.map(|(name, value)| (name.as_str(), value.as_deref()));
        let listed = settings.iter().map(|(n, v)| (n.as_str(), Some(v.as_str())));
        let on_server: Vec<(&str, Option<&str>)> = gone.chain(listed).chain(dotted).collect();
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
