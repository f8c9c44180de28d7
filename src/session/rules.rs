//! The rules, as they concern one session: every door asks here before anything of a message is carried out.

use std::{collections::HashMap, rc::Rc, sync::Arc, time::Duration};

use super::{guard::Standing, refusal::Refusal, state::Session, worker::Worker};
use crate::{
    base::{Generation, SqlState},
    policy::{
        Believed, Changed, Denial, HitKind, Identity, InTransaction, Moment, Principal, RuleSet, SearchPath, Section,
        Verdict, believe, moves_names,
    },
    pool::Params,
    sql::{
        Facts, Hints, Known,
        catalog::Freshness,
        facts::{Act, Effect, Kind, Name, TxVerb, Verb},
    },
    wire::backend::TxStatus,
};

/// What a session is judged by, until a reload or its own settings change that.
pub(super) struct Seat {
    generation: Generation,
    pub(super) rules: Arc<RuleSet>,
    pub(super) principal: Rc<Principal>,
    params: Params,
    /// What was known of the database's names, of which the default search_path is part.
    stamp: u64,
    silent: bool,
}

/// What rules and hints say of the request under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    /// Of the first statement with a routing rule.
    pub verdict: Option<Rc<Verdict>>,
    /// The shortest time of all.
    pub timeout: Option<Duration>,
    /// A text of it was changed; inside, which one, if there is only one.
    pub changed: Option<Option<Rc<Changed>>>,
}

impl Orders {
    fn add(&mut self, verdict: Option<&Rc<Verdict>>, hints: Hints) {
        let by_rule = verdict.and_then(|verdict| verdict.timeout);
        self.timeout = [self.timeout, by_rule, hints.timeout].into_iter().flatten().min();
        if let Some(verdict) = verdict.filter(|verdict| verdict.route.is_some())
            && self.verdict.is_none()
        {
            self.verdict = Some(Rc::clone(verdict));
        }
    }
}

/// By which protocol a statement comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Simple,
    Extended,
}

/// Statements that are told to the allow list at a time; those that are more come again.
const MOST_LESSONS: usize = 10_000;
/// The tap's place in [`crate::observe::Words::taps`].
const LEARN: usize = 0;

/// Parameters that drivers send by themselves: a rule against SET is not meant for them.
const USUAL: [&str; 8] = [
    "application_name",
    "client_encoding",
    "datestyle",
    "timezone",
    "intervalstyle",
    "extra_float_digits",
    "standard_conforming_strings",
    "client_min_messages",
];

/// Numbers of functions (pg_proc.dat): large objects by libpq's fast path, which drivers call so, and a few others that rules name.
const BY_NUMBER: [(u32, &str); 22] = [
    (715, "lo_create"),
    (764, "lo_import"),
    (765, "lo_export"),
    (767, "lo_import"),
    (952, "lo_open"),
    (953, "lo_close"),
    (954, "loread"),
    (955, "lowrite"),
    (956, "lo_lseek"),
    (957, "lo_creat"),
    (958, "lo_tell"),
    (964, "lo_unlink"),
    (1004, "lo_truncate"),
    (3170, "lo_lseek64"),
    (3171, "lo_tell64"),
    (3172, "lo_truncate64"),
    (3457, "lo_from_bytea"),
    (3458, "lo_get"),
    (3459, "lo_get"),
    (3460, "lo_put"),
    (2626, "pg_sleep"),
    (3036, "pg_notify"),
];

impl Session {
    /// Makes sure that the session is judged by today's rules, as who it is now. Costs three comparisons.
    pub(super) fn take_seat(&mut self) {
        let stamp = self.tenant.catalog.stamp();
        let current = |seat: &&Seat| {
            seat.generation == self.worker.shared.generation() && seat.stamp == stamp && seat.params == self.params
        };
        if self.seat.as_ref().filter(current).is_some() {
            return;
        }
        let snapshot = self.worker.shared.snapshot.load();
        let search_path = self.scope().search_path();
        let identity = Identity {
            user: &self.tenant.account.user.name,
            database: &self.database,
            application: self.params.value("application_name").unwrap_or_default(),
            client: self.client.stream.peer().ip(),
            role: self.role(),
            search_path: search_path.as_deref(),
        };
        let principal = self.worker.judgements.borrow_mut().principal(&snapshot.rules, &identity);
        self.seat = Some(Seat {
            generation: snapshot.generation,
            silent: snapshot.rules.is_silent(),
            rules: Arc::clone(&snapshot.rules),
            principal,
            params: self.params.clone(),
            stamp,
        });
    }

    /// What the rules say to a text. [`Session::take_seat`] comes first.
    pub(super) fn consult(&self, known: &Rc<Known>, text: &[u8], protocol: Protocol) -> Option<Rc<Verdict>> {
        let seat = self.seat.as_ref().filter(|seat| !seat.silent)?;
        let moment = self.moment(protocol);
        let mut judgements = self.worker.judgements.borrow_mut();
        Some(judgements.judge(&seat.rules, &seat.principal, known, text, moment))
    }

    /// Have the rules anything to say to anybody?
    pub(super) fn is_ruled(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| !seat.silent)
    }

    pub(super) fn moment(&self, protocol: Protocol) -> Moment {
        Moment {
            in_transaction: (self.status() != TxStatus::Idle || self.group_controls).into(),
            prepared: protocol == Protocol::Extended,
            search_path: (!self.group_moves_names && !self.deeds.moves_names && !self.deeds.opaque).into(),
        }
    }

    /// Whom its server takes it for.
    fn role(&self) -> &str {
        let set = |name| self.params.value(name).filter(|role| *role != "none");
        set("role").or_else(|| set("session_authorization")).unwrap_or(&self.tenant.login)
    }

    /// May names without a schema mean something else once this text has run, with the prepared statements that it names?
    pub(super) fn moves_names(&self, facts: &Facts) -> bool {
        moves_names(&facts.effects)
            || facts.effects.iter().any(|effect| match effect {
                Effect::Execute(name) => {
                    let by_sql = self.prepared_by_sql.named(name);
                    let by_protocol = self.names.find(name.as_bytes());
                    (by_sql.is_empty() && by_protocol.is_none())
                        || by_sql.iter().any(|prepared| moves_names(&prepared.known.facts.inside))
                        || by_protocol
                            .is_some_and(|statement| moves_names(&self.classified(statement).known.facts.effects))
                }
                _ => false,
            })
    }

    /// May a text run? Its verdict is that of the text; those of the prepared statements that it names by EXECUTE are asked for, too.
    /// `before`: names of what is prepared in front of it, in the same group.
    pub(super) fn police(
        &mut self,
        facts: &Facts,
        verdict: Option<&Rc<Verdict>>,
        standing: Standing,
        protocol: Protocol,
        before: &[Box<str>],
    ) -> Option<Refusal> {
        let verdict = verdict?;
        if standing == Standing::Failed && facts.statements <= 1 && facts.verb != Verb::Unknown {
            // The server says what it says to anything then.
            return None;
        }
        if let Some(refusal) = self.refusal_by(verdict) {
            return Some(refusal);
        }
        let by_name = facts.effects.iter().find_map(|effect| match effect {
            Effect::Execute(name) => self.police_prepared(name, protocol).or_else(|| {
                let here = facts.effects.iter().any(|effect| matches!(effect, Effect::Prepare(new) if new == name));
                if here || before.contains(name) { None } else { self.police_unseen(name) }
            }),
            Effect::Fetch(name) => self.police_cursor(name.as_bytes()),
            _ => None,
        });
        by_name.or_else(|| self.too_many_cursors(facts)).or_else(|| self.prepared_by_sql.too_many(facts))
    }

    /// May what goes by this name go on? It may have been opened under other rules.
    pub(super) fn police_cursor(&mut self, name: &[u8]) -> Option<Refusal> {
        let denied = self.verdicts_of_cursor(name).iter().find_map(|verdict| self.refusal_by(verdict));
        denied.or_else(|| self.changed_since(name))
    }

    /// The same for an Execute, beyond the statement that its portal is known to run.
    pub(super) fn police_portal(&mut self, name: &[u8]) -> Option<Refusal> {
        self.verdicts_besides_portal(name).iter().find_map(|verdict| self.refusal_by(verdict))
    }

    /// May the statement of this name run now? It may have been prepared under other rules.
    fn police_prepared(&mut self, name: &str, protocol: Protocol) -> Option<Refusal> {
        for prepared in self.prepared_by_sql.named(name) {
            let original = prepared.original.as_ref();
            if let Err(refusal) = self.still_stands(original, &prepared.known, &prepared.text, protocol) {
                return Some(refusal);
            }
        }
        if let Some(statement) = self.names.find(name.as_bytes()) {
            let known = self.classified(statement).known;
            if let Err(refusal) = self.still_stands(statement.original.as_ref(), &known, &statement.text, protocol) {
                return Some(refusal);
            }
        }
        self.verdicts_of(name, protocol).iter().find_map(|verdict| self.refusal_by(verdict))
    }

    /// What nobody has seen prepared was prepared by code, if at all, and is no rule's to judge.
    fn police_unseen(&mut self, name: &str) -> Option<Refusal> {
        if !self.prepared_by_sql.named(name).is_empty() || self.names.find(name.as_bytes()).is_some() {
            return None;
        }
        let seat = self.seat.as_ref().filter(|seat| !seat.silent)?;
        let verdict = Rc::new(seat.rules.judge_unseen_statement(&seat.principal, name));
        if verdict.denial.is_none() {
            self.count_matches(&verdict);
        }
        self.refusal_by(&verdict)
    }

    /// May a portal be bound to what PREPARE has made under this name? `now`: perhaps in the same group, so that nobody can tell what.
    /// Not if a rule limits what it gives, since Execute counts for statements of the protocol only.
    pub(super) fn police_bind(&mut self, name: &[u8], now: bool) -> Option<Refusal> {
        if name.is_empty() {
            return None;
        }
        // A name in another encoding is nobody's that was seen.
        let name = &*String::from_utf8_lossy(name);
        let denied = self.police_prepared(name, Protocol::Extended);
        let denied = denied.or_else(|| if now { None } else { self.police_unseen(name) });
        let limited = || now || self.verdicts_of(name, Protocol::Extended).iter().any(|v| !v.limits.is_empty());
        denied.or_else(|| {
            limited().then(|| {
                let message = "a rule may limit what this statement gives, and PREPARE has made it: run it by EXECUTE";
                Refusal::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            })
        })
    }

    /// What the rules say of the statements of this name: the one prepared by SQL, and the protocol's.
    pub(super) fn verdicts_of(&self, name: &str, protocol: Protocol) -> Vec<Rc<Verdict>> {
        let by_sql = self.prepared_by_sql.named(name).iter();
        let by_sql = by_sql.filter_map(|prepared| self.consult(&prepared.known, &prepared.text, protocol));
        let by_protocol = self.names.find(name.as_bytes());
        let by_protocol = by_protocol
            .and_then(|statement| self.consult(&self.classified(statement).known, &statement.text, protocol));
        by_sql.chain(by_protocol).collect()
    }

    /// What is said of statements that a text runs by EXECUTE or FETCH counts like what is said of the text.
    pub(super) fn follow_named(&mut self, facts: &Facts, protocol: Protocol) {
        for effect in &facts.effects {
            match effect {
                Effect::Execute(name) => self.follow_all(self.verdicts_of(name, protocol)),
                Effect::Fetch(name) => self.follow_cursor(name.as_bytes()),
                _ => {}
            }
        }
    }

    fn follow_cursor(&mut self, name: &[u8]) {
        self.follow_all(self.verdicts_of_cursor(name));
    }

    /// The same for an Execute, beyond the statement that its portal is known to run.
    pub(super) fn follow_portal(&mut self, name: &[u8]) {
        self.follow_all(self.verdicts_besides_portal(name));
    }

    fn follow_all(&mut self, verdicts: impl IntoIterator<Item = Rc<Verdict>>) {
        for verdict in verdicts {
            self.count_matches(&verdict);
            self.orders.timeout = [self.orders.timeout, verdict.timeout].into_iter().flatten().min();
        }
    }

    fn refusal_by(&mut self, verdict: &Rc<Verdict>) -> Option<Refusal> {
        let denial = verdict.denial.as_ref()?;
        self.count_matches(verdict);
        Some(denied(denial).by(Rc::clone(verdict)))
    }

    /// A statement runs, or is refused: the rules that matched it are counted, and the firewall's are told of.
    pub(super) fn count_matches(&self, verdict: &Rc<Verdict>) {
        if verdict.lesson.is_some() {
            self.worker.lessons.borrow_mut().note(verdict);
        }
        if verdict.matched.is_empty() {
            return;
        }
        verdict.count(self.worker.index);
        for matched in verdict
            .matched
            .iter()
            .filter(|matched| matched.section == Section::Firewall && matched.kind != HitKind::Follow)
        {
            let user = &self.tenant.account.user.name;
            self.worker.shared.firewall_matched(&matched.name, matched.kind.as_str(), user, &self.database);
        }
    }

    /// Another request begins: nothing was said of it yet.
    pub(super) fn clear_orders(&mut self) {
        self.orders = Orders::default();
        self.feed.moved = false;
    }

    /// What is said of a statement that will run counts for its request.
    pub(super) fn follow(&mut self, verdict: Option<&Rc<Verdict>>, hints: Hints) {
        if let Some(verdict) = verdict {
            self.count_matches(verdict);
        }
        let hints = self.believed(hints);
        self.orders.add(verdict, hints);
    }

    /// The hints of a text that this user may give.
    pub(super) fn believed(&self, hints: Hints) -> Hints {
        believe(hints, Believed(self.tenant.account.user.hints.as_deref()))
    }

    /// How long the request under way may take; zero: as long as it likes.
    pub(super) fn time_limit(&self) -> Duration {
        let limits = [self.orders.timeout.unwrap_or_default(), self.tenant.limits.query];
        limits.into_iter().filter(|limit| !limit.is_zero()).min().unwrap_or_default()
    }

    /// A function called by its number is judged like the SELECT that calls it.
    pub(super) fn police_call(&mut self, function: u32) -> Result<Option<Rc<Verdict>>, Refusal> {
        self.take_seat();
        let Some(seat) = self.seat.as_ref().filter(|seat| !seat.silent) else { return Ok(None) };
        if self.standing() == Standing::Failed {
            return Ok(None);
        }
        let verdict = match self.function_numbered(function) {
            Some(name) => {
                let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
                let schema = name.schema.as_deref().map(|schema| format!("{}.", quoted(schema))).unwrap_or_default();
                let text = format!("select {schema}{}()", quoted(&name.name));
                self.consult(&self.classify(text.as_bytes()).known, text.as_bytes(), Protocol::Simple)
            }
            None => Some(Rc::new(seat.rules.judge_unknown_call(&seat.principal))),
        };
        let refusal = verdict.as_ref().and_then(|verdict| self.refusal_by(verdict));
        refusal.map_or(Ok(verdict), Err)
    }

    /// What a number stands for. Without a catalog that is up to date a few of PostgreSQL's own are known.
    fn function_numbered(&self, number: u32) -> Option<Name> {
        let known = self.tenant.catalog.present().filter(|(_, freshness)| *freshness == Freshness::Fresh);
        let own = || BY_NUMBER.iter().find(|(oid, _)| *oid == number);
        let own = || own().map(|(_, name)| Name { schema: Some("pg_catalog".into()), name: (*name).into() });
        known.and_then(|(catalog, _)| catalog.function_numbered(number).cloned()).or_else(own)
    }
}

/// What the allow list is to hear of: each statement once, with how often it came since the last time.
#[derive(Default)]
pub(super) struct Lessons(HashMap<*const Verdict, (Rc<Verdict>, u64)>);

impl Lessons {
    fn note(&mut self, verdict: &Rc<Verdict>) {
        if let Some((_, count)) = self.0.get_mut(&Rc::as_ptr(verdict)) {
            *count += 1;
        } else if self.0.len() < MOST_LESSONS {
            self.0.insert(Rc::as_ptr(verdict), (Rc::clone(verdict), 1));
        }
    }
}

impl Worker {
    /// Tells the allow list what it is to learn. Never waits.
    pub(super) fn tell_lessons(&self) {
        let lessons = std::mem::take(&mut *self.lessons.borrow_mut());
        for (verdict, count) in lessons.0.into_values() {
            let Some(lesson) = &verdict.lesson else { continue };
            if !(self.shared.learn)(lesson, count) {
                self.metrics.tap_dropped(LEARN);
            }
        }
    }

    /// May a client begin with these parameters? They are set like any others.
    pub(super) fn police_login(
        &self,
        identity: &Identity<'_>,
        names: impl Iterator<Item = Box<str>>,
    ) -> Result<(), (SqlState, String)> {
        let parameters: Box<[Box<str>]> = names.filter(|name| !USUAL.contains(&&**name)).collect();
        let snapshot = self.shared.snapshot.load();
        if parameters.is_empty() || snapshot.rules.is_silent() {
            return Ok(());
        }
        let facts = Facts {
            statements: 1,
            verb: Verb::Set,
            kind: Kind::Session,
            acts: Box::new([Act { parameters, ..Act::of(Verb::Set) }]),
            ..Facts::empty()
        };
        let principal = self.judgements.borrow_mut().principal(&snapshot.rules, identity);
        let moment = Moment { in_transaction: InTransaction::No, prepared: false, search_path: SearchPath::Known };
        let verdict = snapshot.rules.judge_facts(&principal, &facts, moment);
        verdict.count(self.index);
        match &verdict.denial {
            Some(denial) => Err((denial.sqlstate, format!("{} (rule \"{}\")", denial.message, denial.rule))),
            None => Ok(()),
        }
    }
}

pub(super) fn denied(denial: &Denial) -> Refusal {
    let why = denial.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    Refusal::new(denial.sqlstate, denial.message.to_string())
        .detail(format!("It matches the rule \"{}\"{why}.", denial.rule))
}

/// Does a text begin a transaction?
pub(super) fn begins(facts: &Facts) -> bool {
    facts.tx.iter().any(|verb| matches!(verb, TxVerb::Begin { .. }))
}
