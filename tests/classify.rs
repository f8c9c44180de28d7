//! Every line of tests/data/classify/*.txt: a text, and what is to be known about it.
//!
//! `UPDATE_EXPECT=1 cargo test --test classify` writes what the code says into the files.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{fmt::Write, sync::Arc};

use pgsluice::sql::{
    Caps, Classifier, Facts, Functions, HintTarget, Hints, Misroutes, ShapeKey, StringRules,
    facts::{Effect, Name, TxOptions, TxVerb},
};

mod lines;

#[test]
fn classify() {
    lines::check("classify", 250, |_, input| judge(input));
}

/// `␊` and `␍` stand for the ends of lines; `[off]` in front for standard_conforming_strings = off.
fn judge(input: &str) -> String {
    let (text, conform) = match input.strip_prefix("[off] ") {
        Some(rest) => (rest, false),
        None => (input, true),
    };
    let text = text.replace('␊', "\n").replace('␍', "\r");
    let functions = Arc::new(Functions::built_in().unwrap());
    let memory = Arc::new(Misroutes::new(10));
    let caps = Caps { parse: 1 << 20, entries: 100 };
    let mut classifier = Classifier::new(ShapeKey::random(), functions, memory, caps);
    let rules = StringRules { standard_conforming_strings: conform, ..StringRules::default() };
    let first = classifier.classify(text.as_bytes(), rules);
    let second = classifier.classify(text.as_bytes(), rules);
    assert_eq!(first.known, second.known, "{input}: a hit and a miss differ");
    summary(&first.known.facts, first.hints)
}

fn summary(facts: &Facts, hints: Hints) -> String {
    let mut parts = vec![format!("{} {}", facts.verb.as_str(), facts.kind.as_str())];
    if facts.statements > 1 {
        parts.push(format!("{} statements", facts.statements));
    }
    for (what, names) in [("reads", &facts.reads), ("writes", &facts.writes), ("calls", &facts.functions)] {
        if !names.is_empty() {
            parts.push(format!("{what} {}", names.iter().map(spelled).collect::<Vec<_>>().join(", ")));
        }
    }
    if !facts.tx.is_empty() {
        parts.push(facts.tx.iter().map(transaction).collect::<Vec<_>>().join(", "));
    }
    if !facts.effects.is_empty() {
        parts.push(facts.effects.iter().map(effect).collect::<Vec<_>>().join(", "));
    }
    if !facts.inside.is_empty() {
        parts.push(format!("inside {}", facts.inside.iter().map(effect).collect::<Vec<_>>().join(", ")));
    }
    if facts.needs_literals {
        parts.push("by literals".to_owned());
    }
    match hints.target {
        Some(HintTarget::Primary) => parts.push("hint primary".to_owned()),
        Some(HintTarget::Replica) => parts.push("hint replica".to_owned()),
        None => {}
    }
    assert_eq!(facts.proven_read_only, facts.primary.is_none());
    match facts.primary {
        Some(reason) => format!("{} · {} → primary", parts.join(" · "), reason.as_str()),
        None => format!("{} → replica", parts.join(" · ")),
    }
}

fn spelled(name: &Name) -> String {
    match &name.schema {
        Some(schema) => format!("{schema}.{}", name.name),
        None => name.name.to_string(),
    }
}

fn transaction(verb: &TxVerb) -> String {
    match verb {
        TxVerb::Begin { options, start } => format!("{}{}", if *start { "start" } else { "begin" }, said(options)),
        TxVerb::SetTransaction(options) => format!("set-transaction{}", said(options)),
        TxVerb::Commit { chain } => if *chain { "commit-chain" } else { "commit" }.to_owned(),
        TxVerb::Rollback { chain } => if *chain { "rollback-chain" } else { "rollback" }.to_owned(),
        TxVerb::Savepoint => "savepoint".to_owned(),
        TxVerb::Release => "release".to_owned(),
        TxVerb::RollbackTo => "rollback-to".to_owned(),
        TxVerb::PrepareTransaction => "prepare-transaction".to_owned(),
        TxVerb::CommitPrepared => "commit-prepared".to_owned(),
        TxVerb::RollbackPrepared => "rollback-prepared".to_owned(),
        TxVerb::SetSnapshot => "set-snapshot".to_owned(),
    }
}

fn said(options: &TxOptions) -> String {
    let mut text = String::new();
    match options.read_only {
        Some(true) => text += " read-only",
        Some(false) => text += " read-write",
        None => {}
    }
    if let Some(isolation) = options.isolation {
        write!(text, " {isolation:?}").unwrap();
    }
    match options.deferrable {
        Some(true) => text += " deferrable",
        Some(false) => text += " not-deferrable",
        None => {}
    }
    text
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::SetParameter { name, local: false } => format!("set {name}"),
        Effect::SetParameter { name, local: true } => format!("set local {name}"),
        Effect::SetUnknownParameter => "set ?".to_owned(),
        Effect::ResetParameter(name) => format!("reset {name}"),
        Effect::ResetAll => "reset-all".to_owned(),
        Effect::DiscardAll => "discard-all".to_owned(),
        Effect::DiscardTemp => "discard-temp".to_owned(),
        Effect::DiscardOther => "discard-other".to_owned(),
        Effect::Listen => "listen".to_owned(),
        Effect::Unlisten => "unlisten".to_owned(),
        Effect::UnlistenAll => "unlisten-all".to_owned(),
        Effect::TempObject => "temp".to_owned(),
        Effect::TempForTransaction => "temp-for-transaction".to_owned(),
        Effect::AdvisoryLock => "advisory-lock".to_owned(),
        Effect::AdvisoryUnlock => "advisory-unlock".to_owned(),
        Effect::AdvisoryUnlockAll => "advisory-unlock-all".to_owned(),
        Effect::Prepare(name) => format!("prepare {name}"),
        Effect::Execute(name) => format!("execute {name}"),
        Effect::Deallocate(name) => format!("deallocate {name}"),
        Effect::DeallocateAll => "deallocate-all".to_owned(),
        Effect::Declare { hold: false, .. } => "declare".to_owned(),
        Effect::Declare { hold: true, .. } => "declare-hold".to_owned(),
        Effect::Fetch(name) => format!("fetch {name}"),
        Effect::CloseCursor(_) => "close".to_owned(),
        Effect::CloseAllCursors => "close-all".to_owned(),
        Effect::Load => "load".to_owned(),
        Effect::ExportSnapshot => "export-snapshot".to_owned(),
        Effect::SessionValue => "session-value".to_owned(),
        Effect::OpaqueCode => "opaque".to_owned(),
    }
}
