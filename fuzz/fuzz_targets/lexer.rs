//! Any bytes as SQL: a text judged from the table is judged as the same text read anew (invariant 6).
#![no_main]

use std::{
    cell::RefCell,
    sync::{Arc, LazyLock},
};

use libfuzzer_sys::fuzz_target;
use pgsluice::sql::{Caps, Classifier, Functions, Misroutes, ShapeKey, StringRules};

static FUNCTIONS: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::built_in().unwrap()));
static KEY: LazyLock<ShapeKey> = LazyLock::new(ShapeKey::random);

fn classifier(entries: usize) -> Classifier {
    let caps = Caps { parse: 64 * 1024, entries };
    Classifier::new(KEY.clone(), Arc::clone(&FUNCTIONS), Arc::new(Misroutes::new(8)), caps)
}

thread_local! {
    static SEASONED: RefCell<Classifier> = RefCell::new(classifier(1024));
}

fuzz_target!(|text: &[u8]| {
    for standard_conforming_strings in [true, false] {
        let rules = StringRules { standard_conforming_strings, ..StringRules::default() };
        let fresh = classifier(8).classify(text, rules);
        let seasoned = SEASONED.with_borrow_mut(|seasoned| seasoned.classify(text, rules));
        assert_eq!(fresh.known, seasoned.known);
        assert_eq!(fresh.hints, seasoned.hints);
        let facts = &fresh.known.facts;
        assert!(!facts.proven_read_only || facts.primary.is_none());
    }
});
