//! Explanations as JSON, one object per line, and as text for people.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::{Explanation, Shown};
use crate::{
    cli::args::Format,
    policy::{Matched, Verdict},
    sql::facts::Name,
};

/// Prints one explanation.
pub(super) fn print(explanation: &Explanation, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Json => {
            serde_json::to_writer(&mut *out, &Line::new(explanation))?;
            out.write_all(b"\n")
        }
        Format::Text => text(explanation, out),
    }
}

/// The keys of interface.md, in its order; always all of them.
#[derive(Serialize)]
struct Line<'a> {
    statement: &'static str,
    kind: &'static str,
    proven_read_only: bool,
    reads: Names<'a>,
    writes: Names<'a>,
    functions: Names<'a>,
    shape: String,
    fingerprint: Option<String>,
    rules: Vec<Rule<'a>>,
    rewritten: Option<&'a str>,
    firewall: Firewall<'a>,
    route: Route,
    cache: Cache,
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Rule<'a> {
    section: &'static str,
    name: &'a str,
    action: &'static str,
}

#[derive(Serialize)]
struct Firewall<'a> {
    verdict: &'static str,
    rule: Option<&'a str>,
    sqlstate: Option<&'a str>,
    message: Option<&'a str>,
}

impl<'a> Firewall<'a> {
    fn new(verdict: &'a Verdict) -> Self {
        match (&verdict.denial, &verdict.detected) {
            (Some(denial), _) => Self {
                verdict: "deny",
                rule: Some(&denial.rule),
                sqlstate: Some(denial.sqlstate.as_str()),
                message: Some(&denial.message),
            },
            (None, Some(rule)) => Self { verdict: "detect", rule: Some(rule), sqlstate: None, message: None },
            (None, None) => Self { verdict: "allow", rule: None, sqlstate: None, message: None },
        }
    }
}

#[derive(Serialize)]
struct Route {
    to: &'static str,
    reason: &'static str,
}

#[derive(Serialize)]
struct Cache {
    verdict: &'static str,
    reason: &'static str,
    ttl_ms: Option<u64>,
}

impl<'a> Rule<'a> {
    fn new(matched: &'a Matched) -> Self {
        Self { section: matched.section.as_str(), name: &matched.name, action: matched.action }
    }
}

struct Names<'a>(&'a [Name]);

impl Serialize for Names<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|name| Shown(name).to_string()))
    }
}

impl<'a> Line<'a> {
    fn new(explanation: &'a Explanation) -> Self {
        let known = &explanation.classified.known;
        let facts = &known.facts;
        Self {
            statement: facts.verb.as_str(),
            kind: facts.kind.as_str(),
            proven_read_only: facts.proven_read_only,
            reads: Names(&facts.reads),
            writes: Names(&facts.writes),
            functions: Names(&facts.functions),
            shape: format!("{:032x}", known.shape.0),
            fingerprint: explanation.fingerprint.map(|print| print.to_string()),
            rules: explanation.verdict.matched.iter().map(Rule::new).collect(),
            rewritten: explanation.rewritten.as_deref(),
            firewall: Firewall::new(&explanation.verdict),
            route: Route { to: explanation.route.to, reason: explanation.route.reason },
            // No cache in this version.
            cache: Cache { verdict: "skip", reason: "off", ttl_ms: None },
            error: facts.error.as_deref(),
        }
    }
}

fn text(explanation: &Explanation, out: &mut dyn Write) -> io::Result<()> {
    let facts = &explanation.classified.known.facts;
    let proof = if facts.proven_read_only { "proven read-only" } else { "not proven read-only" };
    let mut line = |label: &str, value: &str| writeln!(out, "{label:<12} {value}");
    line("route", &format!("{} ({})", explanation.route.to, explanation.route.reason))?;
    line("statement", &format!("{}, {}, {proof}", facts.verb.as_str(), facts.kind.as_str()))?;
    for (label, names) in [("reads", &facts.reads), ("writes", &facts.writes), ("functions", &facts.functions)] {
        let names: Vec<_> = names.iter().map(|name| Shown(name).to_string()).collect();
        if !names.is_empty() {
            line(label, &names.join(", "))?;
        }
    }
    if let Some(rewritten) = &explanation.rewritten {
        line("rewritten", rewritten)?;
    }
    if let Some(denial) = &explanation.verdict.denial {
        line("refused", &format!("{} ({})", denial.message, denial.sqlstate))?;
    }
    for matched in &explanation.verdict.matched {
        line(
            "rule",
            &format!("{} {}: {}, {}", matched.section.as_str(), matched.name, matched.action, matched.kind.as_str()),
        )?;
    }
    if let Some(fingerprint) = explanation.fingerprint {
        line("fingerprint", &fingerprint.to_string())?;
    }
    if let Some(error) = facts.error.as_deref() {
        line("error", error)?;
    }
    Ok(())
}
