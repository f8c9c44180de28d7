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
const BY_NUMBER: [(u32, &str, Kind); 22] = [
    (715, "lo_create", Kind::Write),
    (764, "lo_import", Kind::Write),
    (765, "lo_export", Kind::Write),
    (767, "lo_import", Kind::Write),
    (952, "lo_open", Kind::Write),
    (953, "lo_close", Kind::Read),
    (954, "loread", Kind::Read),
    (955, "lowrite", Kind::Write),
    (956, "lo_lseek", Kind::Read),
    (957, "lo_creat", Kind::Write),
    (958, "lo_tell", Kind::Read),
    (964, "lo_unlink", Kind::Write),
    (1004, "lo_truncate", Kind::Write),
    (3170, "lo_lseek64", Kind::Read),
    (3171, "lo_tell64", Kind::Read),
    (3172, "lo_truncate64", Kind::Write),
    (3457, "lo_from_bytea", Kind::Write),
    (3458, "lo_get", Kind::Read),
    (3459, "lo_get", Kind::Read),
    (3460, "lo_put", Kind::Write),
    (2626, "pg_sleep", Kind::Read),
    (3036, "pg_notify", Kind::Write),
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
                Effect::Execute(name) => match self.prepared_by_sql.get(name) {
                    Some(prepared) => moves_names(&prepared.known.facts.inside),
                    None => self
                        .names
                        .find(name.as_bytes())
                        .is_none_or(|statement| moves_names(&self.classified(statement).known.facts.effects)),
                },
                _ => false,
            })
    }

    /// May a text run? Its verdict is that of the text; those of the prepared statements that it names by EXECUTE are asked for, too.
    pub(super) fn police(
        &mut self,
        facts: &Facts,
        verdict: Option<&Rc<Verdict>>,
        standing: Standing,
        protocol: Protocol,
    ) -> Option<Refusal> {
        let verdict = verdict?;
        if standing == Standing::Failed && facts.statements <= 1 && facts.verb != Verb::Unknown {
            // The server says what it says to anything then.
            return None;
        }
        if let Some(refusal) = self.refusal_by(verdict) {
            return Some(refusal);
        }
        facts.effects.iter().find_map(|effect| match effect {
            Effect::Execute(name) => self.police_prepared(name, protocol),
            _ => None,
        })
    }

    /// May the statement of this name run now? It may have been prepared under other rules.
    fn police_prepared(&mut self, name: &str, protocol: Protocol) -> Option<Refusal> {
        let by_sql = self.prepared_by_sql.get(name);
        if let Some(prepared) = by_sql
            && let Err(refusal) =
                self.still_stands(prepared.original.as_ref(), &prepared.known, &prepared.text, protocol)
        {
            return Some(refusal);
        }
        let verdicts: Vec<Rc<Verdict>> = self.verdicts_of(name, protocol).collect();
        verdicts.iter().find_map(|verdict| self.refusal_by(verdict))
    }

    /// What the rules say of the statements of this name: the one prepared by SQL, and the protocol's.
    fn verdicts_of(&self, name: &str, protocol: Protocol) -> impl Iterator<Item = Rc<Verdict>> + use<> {
        let by_sql = self.prepared_by_sql.get(name);
        let by_sql = by_sql.and_then(|prepared| self.consult(&prepared.known, &prepared.text, protocol));
        let by_protocol = self.names.find(name.as_bytes());
        let by_protocol = by_protocol
            .and_then(|statement| self.consult(&self.classified(statement).known, &statement.text, protocol));
        [by_sql, by_protocol].into_iter().flatten()
    }

    /// What is said of statements that a text runs by EXECUTE counts like what is said of the text.
    pub(super) fn follow_prepared(&mut self, facts: &Facts, protocol: Protocol) {
        for effect in &facts.effects {
            let Effect::Execute(name) = effect else { continue };
            for verdict in self.verdicts_of(name, protocol) {
                self.count_matches(&verdict);
                self.orders.timeout = [self.orders.timeout, verdict.timeout].into_iter().flatten().min();
            }
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

    /// A function called by its number.
    pub(super) fn police_call(&mut self, function: u32) -> Option<Refusal> {
        self.take_seat();
        let seat = self.seat.as_ref().filter(|seat| !seat.silent)?;
        if self.standing() == Standing::Failed {
            return None;
        }
        let known = BY_NUMBER.iter().find(|(oid, ..)| *oid == function);
        let verdict = match known {
            Some((_, name, kind)) => {
                let facts = Facts {
                    statements: 1,
                    verb: Verb::Select,
                    kind: *kind,
                    functions: Box::new([Name { schema: Some("pg_catalog".into()), name: (*name).into() }]),
                    acts: Box::new([Act::of(Verb::Select)]),
                    ..Facts::empty()
                };
                seat.rules.judge_facts(&seat.principal, &facts, self.moment(Protocol::Simple))
            }
            None => seat.rules.judge_unknown_call(&seat.principal),
        };
        let verdict = Rc::new(verdict);
        let refusal = self.refusal_by(&verdict);
        if refusal.is_none() {
            self.count_matches(&verdict);
        }
        refusal
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
