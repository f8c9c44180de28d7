//! The examples of rules, run when the rules are read.

use std::sync::Arc;

use super::{
    condition::{Condition, Doubt, Text, Words},
    rewrite::Rewriting,
};
use crate::{
    config::{
        Fault,
        rules::{Examples, RuleFile},
    },
    sql::{Caps, Classifier, Functions, Misroutes, ShapeKey, StringRules},
};

/// Longest example that is read, in bytes.
const LONGEST: usize = 1 << 20;
/// Shapes remembered while the examples run.
const SHAPES: usize = 1024;

/// How many examples held, and how many did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tested {
    /// Those that held.
    pub passed: usize,
    /// Those that did not.
    pub failed: usize,
}

/// Runs examples.
pub(super) struct Bench {
    classifier: Classifier,
    pub(super) tested: Tested,
}

/// Whether an example should be matched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Match,
    NoMatch,
}

impl Bench {
    pub(super) fn new(functions: Arc<Functions>) -> Self {
        let caps = Caps { parse: LONGEST, entries: SHAPES };
        let classifier = Classifier::new(ShapeKey::random(), functions, Arc::new(Misroutes::new(1)), caps);
        Self { classifier, tested: Tested::default() }
    }

    /// Runs the examples of one rule; those that do not hold are faults. What a condition says of the session is taken to hold.
    pub(super) fn run(
        &mut self,
        file: &RuleFile,
        name: &str,
        examples: &Examples,
        condition: &Condition,
    ) -> Vec<Fault> {
        let matches = examples.matches.iter().map(|text| (text, Wanted::Match));
        let nomatches = examples.nomatches.iter().map(|text| (text, Wanted::NoMatch));
        let mut faults = Vec::new();
        for (text, wanted) in matches.chain(nomatches) {
            let classified = self.classifier.classify(text.value.as_bytes(), StringRules::default());
            let facts = &classified.known.facts;
            let public: [Box<str>; 2] = ["pg_catalog".into(), "public".into()];
            let text_of = Text::new(text.value.as_bytes());
            let holds = condition.holds(Words::of(facts), facts, &text_of, &public, None, Doubt::Holds);
            let read = facts.error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
            if !read.is_empty() && wanted == Wanted::NoMatch {
                self.tested.failed += 1;
                let message = format!("this shows nothing, for it can not be parsed{read}");
                faults.push(file.fault(&text.at, message, "a statement that it does not match"));
                continue;
            }
            if holds == (wanted == Wanted::Match) {
                self.tested.passed += 1;
                continue;
            }
            self.tested.failed += 1;
            let (message, allowed) = match wanted {
                Wanted::Match => (format!("rule `{name}` does not match this{read}"), "a statement that it matches"),
                Wanted::NoMatch => (format!("rule `{name}` matches this{read}"), "a statement that it does not match"),
            };
            faults.push(file.fault(&text.at, message, allowed));
        }
        faults
    }

    /// Runs the examples of what a rule makes of statements.
    pub(super) fn rewrite(
        &mut self,
        file: &RuleFile,
        name: &str,
        examples: &Examples,
        rewriting: &Rewriting,
    ) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (from, to) in &examples.rewrites {
            let made = match rewriting.rewrite(from.value.as_bytes(), &["pg_catalog", "public"]) {
                Ok(Some(rewritten)) => rewritten.text.into_string(),
                Ok(None) => from.value.clone(),
                Err(why) => format!("a refusal: {why}"),
            };
            if made == *to {
                self.tested.passed += 1;
                continue;
            }
            self.tested.failed += 1;
            faults.push(file.fault(&from.at, format!("rule `{name}` makes of this: {made}"), to.clone()));
        }
        faults
    }
}
