//! The portable parser says the same as PostgreSQL's, or is stricter.

use super::{grammar, portable};
use crate::sql::{
    facts::{Act, Clause, Effect, Facts, Verb},
    functions::Functions,
};

/// Every text of the corpora.
fn corpus() -> Vec<String> {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut texts = Vec::new();
    for folder in ["classify", "firewall", "rewrite"] {
        for file in std::fs::read_dir(data.join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}")).flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            let lines = text.lines().filter_map(|line| line.split_once("  ⇒  ")).map(|(text, _)| text);
            let plain = lines.filter(|text| !text.starts_with('#') && !text.starts_with("[off]"));
            texts.extend(plain.map(|text| text.replace('␊', "\n").replace('␍', "\r")));
        }
    }
    // The conditions of its tables.
    let conditions = include_str!("grammar/truth/tests.rs")
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    texts.extend(conditions.map(|condition| format!("delete from t where {condition}")));
    texts
}

#[test]
fn the_portable_parser_is_never_laxer() {
    let functions = Functions::built_in().unwrap_or_else(|e| panic!("{e}"));
    let texts = corpus();
    let (mut proven, mut of, mut read, mut wrong) = (0, 0, 0, Vec::new());
    for text in &texts {
        let exact = grammar::facts(text.as_bytes(), &functions);
        let found = portable::facts(text.as_bytes(), &functions);
        if exact.error.is_some() {
            continue;
        }
        of += usize::from(exact.proven_read_only);
        proven += usize::from(found.proven_read_only);
        read += usize::from(found.error.is_none());
        wrong.extend(
            laxer(&exact, &found).map(|what| format!("{what}: {text}\n  {:?}\n  {:?}", exact.acts, found.acts)),
        );
    }
    println!("{} texts, {read} read, {proven} of {of} reads proven", texts.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(texts.len() > 900 && proven * 2 > of, "{proven} of {of} reads proven, {} texts", texts.len());
}

/// What the one says less than the other.
fn laxer(exact: &Facts, found: &Facts) -> Option<&'static str> {
    let opaque = found.effects.contains(&Effect::OpaqueCode);
    let unknown = found.acts.iter().any(|act| act.verb == Verb::Unknown);
    if found.proven_read_only && !exact.proven_read_only {
        return Some("says read");
    }
    let shown = |facts: &Facts| (facts.reads.clone(), facts.kind, facts.verb, facts.statements);
    if found.proven_read_only && shown(found) != shown(exact) {
        return Some("reads something else");
    }
    if !opaque && found.tx != exact.tx {
        return Some("controls transactions otherwise");
    }
    if !opaque && exact.effects.iter().any(|effect| !found.effects.contains(effect)) {
        return Some("leaves out an effect");
    }
    if exact.notations.iter().any(|name| !found.notations.contains(name)) {
        return Some("leaves out what may be a function");
    }
    if !opaque && found.statements != exact.statements {
        return Some("counts otherwise");
    }
    if !unknown && exact.acts.iter().any(|act| !found.acts.iter().any(|other| covers(other, act))) {
        return Some("leaves out an act");
    }
    None
}

fn covers(found: &Act, exact: &Act) -> bool {
    let clause = |found: Clause, exact: Clause| found == exact || found == Clause::Missing;
    found.verb == exact.verb
        && clause(found.filter, exact.filter)
        && (clause(found.limit, exact.limit) || exact.limit == Clause::NotApplicable)
        && found.marks.contains(exact.marks)
        && (found.parameters.contains(&"*".into())
            || exact.parameters.iter().all(|name| found.parameters.contains(name)))
}
