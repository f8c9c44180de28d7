//! The rules of one generation, compiled.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    allow_list::{AllowList, AllowListing, Listed, print_of, shown, tables_of},
    condition::{Condition, Doubt, Text, Words},
    hits::{HitKind, Hits},
    moment::{InTransaction, Moment, SearchPath},
    principal::{Identity, Principal},
    rewrite::{CannotRewrite, Rewriting},
    verdict::{Denial, Lesson, Limit, Matched, On, RouteOrder, Section, Verdict},
};
use crate::{
    base::SqlState,
    config::rules::{After, FirewallMode, Function, RouteTo, Run},
    sql::{
        Declared, Facts, PositionMap,
        facts::{Kind, Name, Verb},
    },
};

/// The firewall's own words for why it refuses, in the place of a rule's name.
pub(super) const OWN_NAMES: [&str; 5] = [UNPARSABLE, ALLOW_LIST, FUNCTION_CALL, UNSEEN, REWRITE];
/// A text that rules would change, if it could be changed safely.
const REWRITE: &str = "rewrite";
/// A text that cannot be read.
const UNPARSABLE: &str = "unparsable";
/// A statement that the allow list does not know.
const ALLOW_LIST: &str = "allow-list";
/// A function called by a number that nobody knows.
const FUNCTION_CALL: &str = "function-call";
/// A prepared statement that is run by its name, and that nobody has seen prepared.
const UNSEEN: &str = "unseen-statement";

/// All rules of one generation.
#[derive(Debug, Default)]
pub struct RuleSet {
    pub(super) firewall: Vec<Ruling<Guarding>>,
    pub(super) routing: Vec<Ruling<Steering>>,
    pub(super) rewrite: Vec<Ruling<Changing>>,
    pub(super) functions: Vec<Function>,
    /// What becomes of what cannot be read.
    pub(super) unreadable: Option<FirewallMode>,
    pub(super) allow_list: AllowList,
    pub(super) uses: Uses,
    pub(super) hits: HashMap<(Section, Arc<str>), Arc<Hits>>,
}

/// What the answers hang on besides text and rules.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    pub(super) path: bool,
    pub(super) transaction: bool,
    pub(super) protocol: bool,
}

/// A rule that is not off.
#[derive(Debug)]
pub(super) struct Ruling<A> {
    pub(super) name: Arc<str>,
    pub(super) condition: Condition,
    pub(super) after: After,
    pub(super) hits: Arc<Hits>,
    /// What it does with what it matches.
    pub(super) action: A,
}

/// What a rule of the firewall does.
#[derive(Debug)]
pub(super) struct Guarding {
    pub(super) outcome: Outcome,
    pub(super) mode: Watch,
}

/// What a rule of the firewall asks for.
#[derive(Debug)]
pub(super) enum Outcome {
    Deny { sqlstate: SqlState, message: Arc<str> },
    Limit { rows: Option<u64>, bytes: Option<u64> },
}

/// Whether a rule acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    Act,
    Detect,
    DryRun,
}

/// What a routing rule does.
#[derive(Debug)]
pub(super) struct Steering {
    pub(super) route: Option<RouteOrder>,
    pub(super) timeout: Option<Duration>,
    pub(super) run: Run,
}

impl Steering {
    /// One that sends to a replica needs to be sure.
    fn doubt(&self) -> Doubt {
        match self.route.as_ref().map(|route| route.to) {
            Some(RouteTo::Replica) => Doubt::Fails,
            Some(RouteTo::Primary) | None => Doubt::Holds,
        }
    }
}

/// What a rewrite rule does.
#[derive(Debug)]
pub(super) struct Changing {
    pub(super) rewriting: Rewriting,
    pub(super) run: Run,
}

/// A text that rules have changed.
#[derive(Debug)]
pub struct Changed {
    /// What it is now.
    pub text: Box<str>,
    /// From positions in what a rule made to positions in what it had, the last rule first.
    maps: Vec<PositionMap>,
}

impl Changed {
    /// The position in the client's text of a position in the changed one, counted in characters from 1.
    pub fn original(&self, position: usize) -> usize {
        self.maps.iter().fold(position, |position, map| map.original(position))
    }
}

impl RuleSet {
    /// Nothing is ever said to any statement, so nobody need ask.
    pub fn is_silent(&self) -> bool {
        self.firewall.is_empty()
            && self.routing.is_empty()
            && self.rewrite.is_empty()
            && matches!(self.unreadable, None | Some(FirewallMode::Off))
            && self.allow_list.is_off()
    }

    /// How many rules.
    pub fn len(&self) -> usize {
        self.firewall.len() + self.routing.len() + self.rewrite.len()
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the operator says of functions.
    pub fn declared(&self) -> Vec<(Name, Declared)> {
        let name = |text: &str| match text.split_once('.') {
            Some((schema, name)) => Name { schema: Some(schema.into()), name: name.into() },
            None => Name { schema: None, name: text.into() },
        };
        let declared = self.functions.iter().map(|function| {
            let writes: Box<[Name]> = function.writes.iter().map(|relation| name(relation)).collect();
            let said = if writes.is_empty() { Declared::ReadOnly } else { Declared::Writes(writes) };
            (name(&function.name.value), said)
        });
        declared.collect()
    }

    /// Counters by rule.
    pub fn hits(&self) -> impl Iterator<Item = (Section, &Arc<str>, &Arc<Hits>)> {
        self.hits.iter().map(|((section, name), hits)| (*section, name, hits))
    }

    /// A function is called by a number that nobody knows: refused where what cannot be read is.
    pub fn judge_unknown_call(&self, principal: &Principal) -> Verdict {
        let mut verdict = Verdict::default();
        let message = "function call refused by the SQL firewall: the function is not known";
        self.unknown(self.unreadable_for(principal), FUNCTION_CALL, message, None, &mut verdict);
        verdict
    }

    /// A statement is run by its name that no PREPARE has made where rules could see it: there is none, or code has made it. Where what cannot
    /// be read is refused, there is none, so that whoever only has to prepare it again does so.
    pub fn judge_unseen_statement(&self, principal: &Principal, name: &str) -> Verdict {
        let mut verdict = Verdict::default();
        let message = format!("prepared statement \"{name}\" does not exist");
        let why = "no PREPARE of this name has passed the firewall";
        self.unknown(self.unreadable_for(principal), UNSEEN, &message, Some(why), &mut verdict);
        if let Some(denial) = &mut verdict.denial {
            denial.sqlstate = SqlState::UNDEFINED_STATEMENT;
        }
        verdict
    }

    /// What becomes of what cannot be read. It may be what a rule refuses, so whoever is subject to one that acts is protected from it.
    fn unreadable_for(&self, principal: &Principal) -> Option<FirewallMode> {
        let mut rules = principal.firewall.iter().filter_map(|index| self.firewall.get(*index as usize));
        let acts = rules.any(|rule| rule.action.mode == Watch::Act);
        if acts { Some(FirewallMode::Protect) } else { self.unreadable }
    }

    /// Changes a text by the rules that matched it; `None`: they leave it as it is.
    ///
    /// # Errors
    /// It cannot be changed safely, so it must not run.
    pub fn change(
        &self,
        principal: &Principal,
        verdict: &Verdict,
        facts: &Facts,
        moment: Moment,
        text: &[u8],
    ) -> Result<Option<Changed>, Denial> {
        let path: Vec<&str> = principal.path.iter().map(|schema| &**schema).collect();
        let mut changed: Option<Changed> = None;
        for rule in verdict.rewrites.iter().filter_map(|index| self.rewrite.get(*index as usize)) {
            let before = changed.as_ref().map_or(text, |changed| changed.text.as_bytes());
            let rewritten = match moment.search_path {
                SearchPath::Unknown if rule.action.rewriting.hangs_on_path(facts) => {
                    Err(CannotRewrite::new("what its names mean is not known, since search_path may have been changed"))
                }
                SearchPath::Known | SearchPath::Unknown => rule.action.rewriting.rewrite(before, &path),
            };
            match rewritten {
                Ok(None) => {}
                Ok(Some(rewritten)) => {
                    let mut maps = vec![rewritten.map];
                    maps.extend(changed.map(|changed| changed.maps).unwrap_or_default());
                    changed = Some(Changed { text: rewritten.text, maps });
                }
                Err(why) => {
                    let message = format!("statement refused, since it can not be rewritten safely: {why}");
                    let sqlstate = SqlState::INSUFFICIENT_PRIVILEGE;
                    let (rule, message) = (Arc::clone(&rule.name), message.into());
                    return Err(Denial { rule, sqlstate, message, why: None });
                }
            }
        }
        Ok(changed)
    }

    /// Are there rules that change texts?
    pub fn changes_texts(&self) -> bool {
        !self.rewrite.is_empty()
    }

    pub(super) fn rewrite_for(&self, identity: &Identity<'_>) -> Box<[u32]> {
        fitting(&self.rewrite, identity)
    }

    pub(super) fn asks_for_path(&self) -> bool {
        self.uses.path
    }

    /// As much of a moment as any rule asks for.
    pub(super) fn relevant(&self, moment: Moment) -> Moment {
        Moment {
            in_transaction: if self.uses.transaction { moment.in_transaction } else { InTransaction::No },
            prepared: moment.prepared && self.uses.protocol,
            search_path: if self.uses.path { moment.search_path } else { SearchPath::Known },
        }
    }

    pub(super) fn firewall_for(&self, identity: &Identity<'_>) -> Box<[u32]> {
        fitting(&self.firewall, identity)
    }

    pub(super) fn routing_for(&self, identity: &Identity<'_>) -> Box<[u32]> {
        fitting(&self.routing, identity)
    }

    pub(super) fn listing_for(&self, identity: &Identity<'_>) -> AllowListing {
        self.allow_list.listing(identity)
    }

    /// What the firewall says to something that is no text: a function call, or the parameters of a login.
    pub fn judge_facts(&self, principal: &Principal, facts: &Facts, moment: Moment) -> Verdict {
        let mut verdict = Verdict::default();
        self.ask_firewall(principal, Words::of(facts), facts, &Text::new(b""), moment, &mut verdict);
        verdict
    }

    /// What the rules say.
    pub(super) fn judge(&self, principal: &Principal, facts: &Facts, text: &Text<'_>, moment: Moment) -> Verdict {
        let mut verdict = Verdict::default();
        let words = Words::of(facts);
        self.ask_firewall(principal, words, facts, text, moment, &mut verdict);
        if verdict.denial.is_none() {
            self.ask_allow_list(principal, facts, text, &mut verdict);
        }
        self.ask_routing(principal, words, facts, text, moment, &mut verdict);
        self.ask_rewrite(principal, words, facts, text, moment, &mut verdict);
        verdict
    }

    fn ask_rewrite(
        &self,
        principal: &Principal,
        words: Words,
        facts: &Facts,
        text: &Text<'_>,
        moment: Moment,
        verdict: &mut Verdict,
    ) {
        if principal.rewrite.is_empty() {
            return;
        }
        if facts.error.is_some() {
            // Nobody knows what would have to be changed in it.
            let message = "statement refused, since it can not be parsed and so not be rewritten";
            if verdict.denial.is_none() {
                let why = facts.error.as_deref();
                self.unknown(Some(FirewallMode::Protect), REWRITE, message, why, verdict);
            }
            return;
        }
        let mut rewrites = Vec::new();
        for index in &principal.rewrite {
            let Some(rule) = self.rewrite.get(*index as usize) else { continue };
            if !rule.condition.holds(words, facts, text, &principal.path, Some(moment), Doubt::Holds) {
                continue;
            }
            let kind = if rule.action.run == Run::Dry { HitKind::DryRun } else { HitKind::Follow };
            verdict.note(Section::Rewrite, &rule.name, "rewrite", kind, &rule.hits);
            if rule.action.run == Run::Dry {
                continue;
            }
            rewrites.push(*index);
            if rule.after == After::Stop {
                break;
            }
        }
        verdict.rewrites = rewrites.into();
    }

    fn ask_firewall(
        &self,
        principal: &Principal,
        words: Words,
        facts: &Facts,
        text: &Text<'_>,
        moment: Moment,
        verdict: &mut Verdict,
    ) {
        for rule in principal.firewall.iter().filter_map(|index| self.firewall.get(*index as usize)) {
            if !rule.condition.holds(words, facts, text, &principal.path, Some(moment), Doubt::Holds) {
                continue;
            }
            let (action, kind) = rule.action.outcome.words(rule.action.mode);
            verdict.note(Section::Firewall, &rule.name, action, kind, &rule.hits);
            if let Outcome::Limit { rows, bytes } = rule.action.outcome {
                let kind = rule.action.mode.kind();
                let limit = Limit { rule: Arc::clone(&rule.name), rows, bytes, kind, hits: Arc::clone(&rule.hits) };
                verdict.limits = std::mem::take(&mut verdict.limits).into_iter().chain([limit]).collect();
            }
            match (rule.action.mode, &rule.action.outcome) {
                // It decides nothing, so another rule may.
                (Watch::DryRun, _) | (Watch::Detect, Outcome::Limit { .. }) => continue,
                (Watch::Detect, Outcome::Deny { .. }) => {
                    verdict.detected.get_or_insert_with(|| Arc::clone(&rule.name));
                    continue;
                }
                (Watch::Act, Outcome::Deny { sqlstate, message }) => {
                    let name = || Arc::clone(&rule.name);
                    let denial =
                        || Denial { rule: name(), sqlstate: *sqlstate, message: Arc::clone(message), why: None };
                    verdict.denial.get_or_insert_with(denial);
                }
                // It lets pass what it matched. Of several statements that may be one, and another rule may refuse the next.
                (Watch::Act, Outcome::Limit { .. }) if facts.acts.len() != 1 => continue,
                (Watch::Act, Outcome::Limit { .. }) => {}
            }
            if rule.after == After::Stop {
                break;
            }
        }
        if verdict.denial.is_none() && (facts.error.is_some() || facts.verb == Verb::Unknown) {
            let message = "statement refused by the SQL firewall: it can not be parsed";
            self.unknown(self.unreadable_for(principal), UNPARSABLE, message, facts.error.as_deref(), verdict);
        }
    }

    /// Something that is not known is refused, or told of.
    fn unknown(
        &self,
        mode: Option<FirewallMode>,
        name: &'static str,
        message: &str,
        why: Option<&str>,
        verdict: &mut Verdict,
    ) {
        let Some((name, hits)) = self.own(name) else { return };
        match mode {
            Some(FirewallMode::Protect) => {
                verdict.note(Section::Firewall, name, "deny", HitKind::Deny, hits);
                let sqlstate = SqlState::INSUFFICIENT_PRIVILEGE;
                let (rule, message, why) = (Arc::clone(name), message.into(), why.map(Into::into));
                verdict.denial = Some(Denial { rule, sqlstate, message, why });
            }
            Some(FirewallMode::Detect) => {
                verdict.note(Section::Firewall, name, "deny", HitKind::Detect, hits);
                verdict.detected.get_or_insert_with(|| Arc::clone(name));
            }
            Some(FirewallMode::Off) | None => {}
        }
    }

    /// What is to be remembered of a statement; `None`: it cannot be read.
    fn lesson(&self, principal: &Principal, facts: &Facts, text: &Text<'_>, on: On) -> Option<Lesson> {
        Some(Lesson {
            listed_for: Arc::clone(self.allow_list.listed_for(principal.listing)?),
            fingerprint: print_of(facts, text)?,
            text: shown(facts, text)?.into(),
            kind: facts.kind.as_str(),
            tables: tables_of(facts),
            on,
        })
    }

    fn own(&self, name: &'static str) -> Option<(&Arc<str>, &Arc<Hits>)> {
        self.hits.get_key_value(&(Section::Firewall, Arc::from(name))).map(|((_, name), hits)| (name, hits))
    }

    fn ask_allow_list(&self, principal: &Principal, facts: &Facts, text: &Text<'_>, verdict: &mut Verdict) {
        // What only ends or begins a transaction, or says nothing, cannot do any harm by itself.
        if principal.listing.is_off() || matches!(facts.kind, Kind::Transaction | Kind::Empty) {
            return;
        }
        let mode = match self.allow_list.look_up(principal.listing, || print_of(facts, text)) {
            Listed::Known => return,
            Listed::Learn => {
                verdict.lesson = self.lesson(principal, facts, text, On::TheList);
                return;
            }
            Listed::Unknown(mode) => mode,
        };
        verdict.lesson = self.lesson(principal, facts, text, On::Trial);
        let message = "statement refused by the SQL firewall: it is not on the allow list";
        self.unknown(Some(mode), ALLOW_LIST, message, None, verdict);
    }

    fn ask_routing(
        &self,
        principal: &Principal,
        words: Words,
        facts: &Facts,
        text: &Text<'_>,
        moment: Moment,
        verdict: &mut Verdict,
    ) {
        for rule in principal.routing.iter().filter_map(|index| self.routing.get(*index as usize)) {
            if !rule.condition.holds(words, facts, text, &principal.path, Some(moment), rule.action.doubt()) {
                continue;
            }
            let action = match rule.action.route.as_ref().map(|route| route.to) {
                Some(RouteTo::Primary) => "primary",
                Some(RouteTo::Replica) => "replica",
                None => "timeout",
            };
            let kind = if rule.action.run == Run::Dry { HitKind::DryRun } else { HitKind::Follow };
            verdict.note(Section::Routing, &rule.name, action, kind, &rule.hits);
            if rule.action.run == Run::Dry {
                continue;
            }
            if verdict.route.is_none() {
                verdict.route.clone_from(&rule.action.route);
            }
            verdict.timeout = verdict.timeout.into_iter().chain(rule.action.timeout).min();
            if rule.after == After::Stop {
                break;
            }
        }
    }
}

/// The rules whose part about the session holds.
fn fitting<A>(rules: &[Ruling<A>], identity: &Identity<'_>) -> Box<[u32]> {
    (0..).zip(rules).filter(|(_, rule)| rule.condition.who.fits(identity)).map(|(index, _)| index).collect()
}

impl Outcome {
    fn words(&self, mode: Watch) -> (&'static str, HitKind) {
        match self {
            Self::Deny { .. } => ("deny", mode.kind()),
            // That it matched refuses nothing yet.
            Self::Limit { .. } => ("limit", HitKind::Follow),
        }
    }
}

impl Watch {
    /// What comes of what a rule refuses.
    fn kind(self) -> HitKind {
        match self {
            Self::Act => HitKind::Deny,
            Self::Detect => HitKind::Detect,
            Self::DryRun => HitKind::DryRun,
        }
    }
}

impl Verdict {
    fn note(&mut self, section: Section, name: &Arc<str>, action: &'static str, kind: HitKind, hits: &Arc<Hits>) {
        let mut matched = std::mem::take(&mut self.matched).into_vec();
        matched.push(Matched { section, name: Arc::clone(name), action, kind, hits: Arc::clone(hits) });
        self.matched = matched.into();
    }
}
