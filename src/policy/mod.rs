//! Facts → verdict. Pure: what a statement is, who sends it and what the operator's rules say of that; no I/O, no clock.
//!
//! Rules are compiled once ([`RuleSet`]). Who sends a statement is compared with them once per session ([`Principal`]), what it
//! says once per shape and principal ([`Judgements`]): a statement that was judged before costs one look-up, however many
//! rules there are. This room must never let a rule override safety, nor a statement pass that it could not judge.

mod allow_list;
mod compile;
mod condition;
mod examples;
mod hints;
mod hits;
mod judgements;
mod moment;
mod principal;
mod reach;
pub mod rewrite;
mod rule_set;
mod verdict;

pub use allow_list::AllowListing;
pub use compile::{Compiled, compile};
pub use examples::Tested;
pub use hints::{Believed, believe};
pub use hits::{HitKind, Hits};
pub use judgements::Judgements;
pub use moment::{InTransaction, Moment, SearchPath, moves_names};
pub use principal::{Identity, Principal};
pub use rule_set::{Changed, RuleSet};
pub use verdict::{Denial, Lesson, Limit, Matched, On, RouteOrder, RoutePlace, Section, Verdict};
