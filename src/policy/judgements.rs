//! What a worker remembers of its judgements: a statement is compared with the rules once per shape and principal.

use std::{rc::Rc, sync::Arc};

use super::{
    condition::Text,
    moment::Moment,
    principal::{Identity, Principal, Principals},
    rule_set::RuleSet,
    verdict::Verdict,
};
use crate::sql::{Known, Shape, Table};

/// One worker's memory. Bounded; a hit allocates nothing.
pub struct Judgements {
    rules: Arc<RuleSet>,
    principals: Principals,
    table: Table<Judged>,
}

/// The statement is kept with its verdict: its place in memory, which is the key, is nobody else's meanwhile.
struct Judged {
    known: Rc<Known>,
    verdict: Rc<Verdict>,
}

impl Judgements {
    /// Room for so many.
    pub fn new(capacity: usize) -> Self {
        Self { rules: Arc::default(), principals: Principals::default(), table: Table::new(capacity) }
    }

    /// The principal that a session is, by these rules. What was judged by others is forgotten.
    pub fn principal(&mut self, rules: &Arc<RuleSet>, identity: &Identity<'_>) -> Rc<Principal> {
        self.follow(rules);
        self.principals.find(rules, identity)
    }

    /// The verdict on a statement. Facts that hang on literals are those of one text, so that is what is judged then.
    pub fn judge(
        &mut self,
        rules: &Arc<RuleSet>,
        principal: &Principal,
        known: &Rc<Known>,
        text: &[u8],
        moment: Moment,
    ) -> Rc<Verdict> {
        self.follow(rules);
        let moment = rules.relevant(moment.within(&known.facts));
        let key = key(known, principal, moment);
        if let Some(judged) = self.table.find(key) {
            debug_assert!(Rc::ptr_eq(&judged.known, known), "a place in memory is one statement's");
            return Rc::clone(&judged.verdict);
        }
        let verdict = Rc::new(rules.judge(principal, &known.facts, &Text::new(text), moment));
        self.table.insert(key, Judged { known: Rc::clone(known), verdict: Rc::clone(&verdict) });
        verdict
    }

    fn follow(&mut self, rules: &Arc<RuleSet>) {
        if !Arc::ptr_eq(&self.rules, rules) {
            self.rules = Arc::clone(rules);
            self.principals.clear();
            self.table.clear();
        }
    }
}

/// Unlike for any other statement, principal and moment, and spread evenly.
fn key(known: &Rc<Known>, principal: &Principal, moment: Moment) -> Shape {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let place = Rc::as_ptr(known) as usize as u128;
    let Moment { in_transaction, prepared, search_path } = moment;
    let moment = in_transaction as u128 | u128::from(prepared) << 2 | (search_path as u128) << 3;
    // An odd factor maps no two values to the same one; the upper half, which hangs on all bits, goes to the front.
    Shape((place << 64 | u128::from(principal.id) << 4 | moment).wrapping_mul(ODD).rotate_left(64))
}

impl std::fmt::Debug for Judgements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Judgements").finish_non_exhaustive()
    }
}
