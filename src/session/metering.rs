//! Rules that limit what a statement gives: which of them hold for a request, and what comes of too long a result.

use std::rc::Rc;

use super::{rules::Protocol, state::Session};
use crate::{
    base::SqlState,
    policy::{HitKind, Limit, Verdict},
    relay::{Amount, Bound, Meter},
    sql::{Facts, facts::Effect},
    wire::backend::{self, ErrorText, Severity},
};

/// The limits of one result, and the cursors whose pieces it gives.
#[derive(Debug)]
pub(super) struct Metered {
    limits: Vec<Limit>,
    cursors: Vec<Box<[u8]>>,
    outcome: Outcome,
}

/// Whether it can be known that a statement changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing comes of it but its result.
    Harmless,
    /// It may have done something.
    Unsaid,
}

impl Session {
    /// The limits of a statement that is about to run, and of what it runs by name.
    pub(super) fn metered(
        &self,
        facts: Option<&Facts>,
        verdict: Option<&Rc<Verdict>>,
        portal: Option<&[u8]>,
        protocol: Protocol,
    ) -> Option<Metered> {
        if !self.is_ruled() {
            return None;
        }
        let mut limits = verdict.map_or_else(Vec::new, |verdict| verdict.limits.to_vec());
        let mut cursors: Vec<Box<[u8]>> = portal.map(Into::into).into_iter().collect();
        let mut add = |verdict: &Verdict| {
            for limit in &verdict.limits {
                if !limits.iter().any(|known| std::sync::Arc::ptr_eq(&known.hits, &limit.hits)) {
                    limits.push(limit.clone());
                }
            }
        };
        for effect in facts.into_iter().flat_map(|facts| &facts.effects) {
            match effect {
                Effect::Execute(name) => self.verdicts_of(name, protocol).iter().for_each(|verdict| add(verdict)),
                Effect::Fetch(name) => cursors.push(name.as_bytes().into()),
                _ => {}
            }
        }
        for name in &cursors {
            self.verdicts_of_cursor(name).iter().for_each(|verdict| add(verdict));
        }
        let harmless = facts.is_some_and(|facts| facts.proven_read_only);
        let outcome = if harmless { Outcome::Harmless } else { Outcome::Unsaid };
        (!limits.is_empty()).then_some(Metered { limits, cursors, outcome })
    }

    /// Has the relay count what is about to be sent.
    pub(super) fn set_meter(&mut self, metered: &Metered) {
        let bounds = metered.limits.iter().filter(|limit| limit.kind == HitKind::Deny);
        let bounds = bounds.flat_map(|limit| bounds_of(limit, metered.outcome)).collect();
        let meter = match metered.cursors.as_slice() {
            [] => Meter::new(bounds),
            names => {
                let given = names.iter().map(|name| self.given_of(name)).fold(Amount::default(), Amount::max);
                Meter::going_on(bounds, given)
            }
        };
        self.feed.meter = Some(Box::new(meter));
    }

    /// The result is in. What its client is still to be told, since the server has carried it out to its end.
    pub(super) fn settle_meter(&mut self, metered: &Metered) -> Option<Box<[u8]>> {
        let meter = self.feed.meter.take().unwrap_or_default();
        for name in &metered.cursors {
            self.note_given(name, meter.given());
        }
        for limit in metered.limits.iter().filter(|limit| is_over(limit, meter.peak())) {
            limit.hits.count(self.worker.index, limit.kind);
            let user = &self.tenant.account.user.name;
            self.worker.shared.firewall_matched(&limit.rule, limit.kind.as_str(), user, &self.database);
        }
        meter.owes()
    }
}

fn is_over(limit: &Limit, amount: Amount) -> bool {
    limit.rows.is_some_and(|most| amount.rows > most) || limit.bytes.is_some_and(|most| amount.bytes > most)
}

/// What a limit says, as the relay has it.
fn bounds_of(limit: &Limit, outcome: Outcome) -> impl Iterator<Item = Bound> {
    let unlimited = Amount { rows: u64::MAX, bytes: u64::MAX };
    let rows = limit.rows.map(|rows| (Amount { rows, ..unlimited }, rows, "rows"));
    let bytes = limit.bytes.map(|bytes| (Amount { bytes, ..unlimited }, bytes, "bytes"));
    let rule = std::sync::Arc::clone(&limit.rule);
    rows.into_iter().chain(bytes).map(move |(most, number, what)| {
        let message = format!("result refused by the SQL firewall: it has more than {number} {what}");
        let detail = format!("It matches the rule \"{rule}\".");
        let late = match outcome {
            Outcome::Harmless => detail.clone(),
            Outcome::Unsaid => format!("{detail} The statement itself was carried out."),
        };
        let error = |detail: &str| {
            let mut out = Vec::new();
            let text = ErrorText::new(Severity::Error, SqlState::INSUFFICIENT_PRIVILEGE, &message);
            backend::error_response(&mut out, &ErrorText { detail: Some(detail), ..text });
            out.into_boxed_slice()
        };
        Bound { most, error: error(&detail), late: error(&late) }
    })
}
