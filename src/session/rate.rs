//! `users[].rate`: how many statements a user may run in a time, over all its sessions. Whoever has used them up is refused, and waits for
//! nothing.

use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use super::{refusal::Refusal, state::Session, statements::Named};
use crate::{
    base::SqlState,
    config::Rate,
    observe::LimitHit,
    sql::{Facts, facts::Verb},
};

/// What is left of a user's rate. One atomic number, shared by all workers.
pub(super) struct Allowance {
    rate: Rate,
    left: DefaultDirectRateLimiter,
}

impl Allowance {
    /// All of it is there.
    pub(super) fn new(rate: Rate) -> Self {
        let every = rate.per / rate.statements.get();
        // Only a period of zero is no quota, and a rate is at most a million in a second.
        let quota = Quota::with_period(every).unwrap_or(Quota::per_second(rate.statements));
        Self { rate, left: RateLimiter::direct(quota.allow_burst(rate.statements)) }
    }

    /// Is it of this rate?
    pub(super) fn is_of(&self, rate: Rate) -> bool {
        self.rate == rate
    }

    /// Takes as much as so many statements need, or nothing. More than the whole rate is never there.
    fn take(&self, statements: NonZeroU32) -> bool {
        matches!(self.left.check_n(statements), Ok(Ok(())))
    }

    fn refusal(&self) -> Refusal {
        let per = match self.rate.per.as_secs() {
            1 => "a second",
            60 => "a minute",
            _ => "an hour",
        };
        let refusal = Refusal::new(SqlState::LIMIT_EXCEEDED, "too many statements of this user, try again later");
        refusal.detail(format!("Its rate is {} {per}.", self.rate.statements))
    }
}

impl Session {
    /// May a text run now, as far as its user's rate is concerned? What ends a transaction always may: refused, it would keep what it
    /// could free.
    pub(super) fn refused_by_rate(&self, facts: &Facts) -> Option<Refusal> {
        let allowance = self.tenant.account.allowance.as_deref()?;
        let ends = facts.statements == 1 && matches!(facts.verb, Verb::Commit | Verb::Rollback);
        if ends {
            return None;
        }
        self.take_allowance(allowance, facts.statements)
    }

    /// The same for an Execute; there may be no such portal.
    pub(super) fn execute_refused_by_rate(&self, statement: Option<&Named>) -> Option<Refusal> {
        let allowance = self.tenant.account.allowance.as_deref()?;
        match statement {
            Some(statement) => self.refused_by_rate(&self.classified(statement).known.facts),
            None => self.take_allowance(allowance, 1),
        }
    }

    /// The same for a FunctionCall.
    pub(super) fn call_refused_by_rate(&self) -> Option<Refusal> {
        self.take_allowance(self.tenant.account.allowance.as_deref()?, 1)
    }

    fn take_allowance(&self, allowance: &Allowance, statements: u32) -> Option<Refusal> {
        // An empty text costs a round trip like any other.
        if allowance.take(NonZeroU32::new(statements).unwrap_or(NonZeroU32::MIN)) {
            return None;
        }
        self.worker.metrics.limit(LimitHit::Rate);
        Some(allowance.refusal())
    }
}

impl std::fmt::Debug for Allowance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Allowance").field(&self.rate).finish()
    }
}
