//! A rule file's text → rules. Every fault is told, not only the first.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::{
    After, CacheAction, Examples, FirewallAction, FirewallVerdict, Function, Placed, RewriteAction, RouteAction,
    RouteTo, RoutingAction, Rule, RuleFile, Run, Safety, When,
    raw::{self, RawRule, plain},
};
use crate::config::{
    fault::{At, Findings, breaks_line},
    section::Section,
    tree::{self, Node, Tree},
    value::{Named, OneOrMany, Spanned, Value},
};

/// The JSON Schema of rule files.
pub(in crate::config) fn schema() -> Json {
    raw::RawRuleFile::schema()
}

/// Reads a file's text. What is faulty is left out of the result and put among the findings. `None`: it is no YAML at all.
pub(in crate::config) fn read(name: &str, text: &str, findings: &mut Findings) -> Option<RuleFile> {
    // Rules are data: the environment has no part in them.
    let tree = tree::read_verbatim(text, findings)?;
    if tree.is_null() {
        return Some(RuleFile { name: name.to_owned(), ..RuleFile::default() });
    }
    if is_list_of_functions(&tree) {
        findings.warn(&tree.at, "this is the list of built-in functions, which is compiled in; it holds no rules");
        return Some(RuleFile { name: name.to_owned(), ..RuleFile::default() });
    }
    let raw = raw::RawRuleFile::read(&tree, findings)?;
    let names =
        |section: &str, names: Vec<&Spanned<String>>, findings: &mut Findings| unique(section, &names, findings);
    names("firewall", raw.firewall.value.iter().map(|rule| &rule.name).collect(), findings);
    names("routing", raw.routing.value.iter().map(|rule| &rule.name).collect(), findings);
    names("functions", raw.functions.value.iter().map(|rule| &rule.name).collect(), findings);
    names("cache", raw.cache.value.iter().map(|rule| &rule.name).collect(), findings);
    names("rewrite", raw.rewrite.value.iter().map(|rule| &rule.name).collect(), findings);
    Some(RuleFile {
        name: name.to_owned(),
        lines: tree::without_mark(text).lines().map(str::to_owned).collect(),
        firewall: raw.firewall.value.iter().filter_map(|rule| firewall(rule, findings)).collect(),
        routing: raw.routing.value.iter().filter_map(|rule| routing(rule, findings)).collect(),
        functions: raw.functions.value.iter().filter_map(|rule| function(rule, findings)).collect(),
        cache: raw.cache.value.iter().filter_map(|rule| cache(rule, findings)).collect(),
        rewrite: raw.rewrite.value.iter().filter_map(|rule| rewrite(rule, findings)).collect(),
    })
}

/// `rules/functions.yaml` lies where a glob for all rule files finds it.
fn is_list_of_functions(tree: &Tree) -> bool {
    matches!(&tree.node, Node::Map(entries) if entries.iter().any(|(key, _)| key.text == "session_value"))
}

/// One file knows a name of a section once; two files are compared by who has them all.
fn unique(section: &str, names: &[&Spanned<String>], findings: &mut Findings) {
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for name in names.iter().filter(|name| name.is_given()) {
        if name.value.is_empty() || name.value.len() > 200 || name.value.contains(breaks_line) {
            findings.fault(&name.at, "this can not be the name of a rule", "1 to 200 bytes of printable text");
        }
        if let Some(line) = lines.insert(&name.value, name.at.line) {
            let message = format!("{section} rule `{}` stands here again, first on line {line}", name.value);
            findings.fault(&name.at, message, "each name once in a section");
        }
    }
}

fn firewall(raw: &raw::RawFirewallRule, findings: &mut Findings) -> Option<Rule<FirewallAction>> {
    const ALLOWED: &str = "deny: { message: …, sqlstate: … }, or limit: { rows: …, bytes: … }";
    let verdict = match (&raw.deny.value, &raw.limit.value) {
        (Some(deny), None) => {
            let code = deny.sqlstate.value.as_bytes();
            let fits = code.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()) && code != b"00000";
            let sqlstate = <[u8; 5]>::try_from(code).ok().filter(|_| fits);
            if sqlstate.is_none() {
                let message = format!("`{}` is no SQLSTATE of an error", deny.sqlstate.value);
                findings.fault(&deny.sqlstate.at, message, "five digits and capital letters such as 42501");
            }
            if deny.message.value.is_empty() {
                findings.fault(&deny.message.at, "an error must say something", "a text");
            }
            if deny.message.value.contains('\0') {
                findings.fault(&deny.message.at, "a zero byte can not be sent in an error", "a text");
            }
            FirewallVerdict::Deny { message: deny.message.value.clone(), sqlstate: sqlstate? }
        }
        (None, Some(limit)) => {
            let rows = limit.rows.value.map(|rows| u64::from(rows.0));
            let bytes = limit.bytes.value.map(|bytes| bytes.0);
            if rows.is_none() && bytes.is_none() {
                findings.fault(&raw.limit.at, "this limits nothing", "rows, bytes");
            }
            FirewallVerdict::Limit { rows, bytes }
        }
        (Some(_), Some(_)) => {
            findings.fault(&raw.limit.at, "`limit` beside `deny`: what is refused has no result", ALLOWED);
            return None;
        }
        (None, None) => {
            // A faulty one was told of already.
            if !faulty(&raw.deny) && !faulty(&raw.limit) {
                findings.fault(&raw.name.at, format!("rule `{}` does nothing", raw.name.value), ALLOWED);
            }
            return None;
        }
    };
    rule(raw, FirewallAction { verdict, mode: raw.mode.value })
}

fn faulty<T>(value: &Spanned<T>) -> bool {
    value.origin == crate::config::value::Origin::Fault
}

fn routing(raw: &raw::RawRoutingRule, findings: &mut Findings) -> Option<Rule<RoutingAction>> {
    let route = raw.route.value.as_ref().map(|route| {
        let replica = route.to.value == RouteTo::Replica;
        for (given, at, key) in [
            (route.tags.is_given(), &route.tags.at, "tags"),
            (route.max_lag.is_given(), &route.max_lag.at, "max_lag"),
            (route.r#unsafe.value, &route.r#unsafe.at, "unsafe"),
        ] {
            if given && !replica && route.to.is_given() {
                findings.fault(at, format!("`{key}` is about replicas"), "to: replica");
            }
        }
        RouteAction {
            to: route.to.value,
            tags: route.tags.value.0.iter().map(|tag| tag.value.clone()).collect(),
            max_lag: route.max_lag.value,
            safety: if route.r#unsafe.value { Safety::Unsafe } else { Safety::Proven },
        }
    });
    if route.is_none() && raw.timeout.value.is_none() {
        if !faulty(&raw.route) && !faulty(&raw.timeout) {
            let message = format!("rule `{}` does nothing", raw.name.value);
            findings.fault(&raw.name.at, message, "route: { to: primary }, timeout: 5s");
        }
        return None;
    }
    if raw.timeout.value.is_some_and(|timeout| timeout.is_zero()) {
        findings.fault(&raw.timeout.at, "no statement ends in no time at all", "a duration from 1ms");
    }
    rule(raw, RoutingAction { route, timeout: raw.timeout.value })
}

fn function(raw: &raw::RawFunction, findings: &mut Findings) -> Option<Function> {
    let writes: Vec<String> = raw.writes.value.0.iter().map(|name| name.value.clone()).collect();
    if raw.read_only.value != writes.is_empty()
        && raw.name.is_given()
        && !faulty(&raw.read_only)
        && !faulty(&raw.writes)
    {
        let message = format!("function `{}` must either only read or write something", raw.name.value);
        findings.fault(&raw.name.at, message, "read_only: true, or writes: [relation, …]");
    }
    Some(Function { name: placed(&raw.name)?, writes })
}

fn cache(raw: &raw::RawCacheRule, findings: &mut Findings) -> Option<Rule<CacheAction>> {
    let caching = raw.cache.value.as_ref()?;
    if caching.ttl.is_given() && caching.ttl.value.is_zero() {
        findings.fault(&caching.ttl.at, "nothing is remembered for no time at all", "a duration from 1ms");
    }
    let action = CacheAction {
        ttl: caching.ttl.value,
        max_rows: caching.max_rows.value.map(|rows| u64::from(rows.0)),
        max_result: caching.max_result.value.map(|bytes| bytes.0),
        stale: caching.stale.value,
        share: caching.share.value,
    };
    rule(raw, action)
}

fn rewrite(raw: &raw::RawRewriteRule, findings: &mut Findings) -> Option<Rule<RewriteAction>> {
    let action = &raw.rewrite.value;
    let action = RewriteAction {
        rename_table: pairs(&action.rename_table),
        rename_column: pairs(&action.rename_column),
        add_where: pairs(&action.add_where),
        qualify_schema: action
            .qualify_schema
            .value
            .as_ref()
            .map(|schema| Placed { at: action.qualify_schema.at.clone(), value: schema.clone() }),
    };
    let nothing = action.rename_table.is_empty()
        && action.rename_column.is_empty()
        && action.add_where.is_empty()
        && action.qualify_schema.is_none();
    if nothing {
        if raw.rewrite.is_given() {
            let allowed = "rename_table, rename_column, add_where, qualify_schema";
            findings.fault(&raw.name.at, format!("rule `{}` changes nothing", raw.name.value), allowed);
        }
        return None;
    }
    rule(raw, action)
}

fn placed(name: &Spanned<String>) -> Option<Placed<String>> {
    name.is_given().then(|| Placed { at: name.at.clone(), value: name.value.clone() })
}

/// What all rules have, around what one does.
fn rule<R: RawRule<Examples: Into<Examples> + Clone>, A>(raw: &R, action: A) -> Option<Rule<A>> {
    let common = raw.common();
    Some(Rule {
        name: placed(common.name)?,
        when: when(common.when, &common.name.at)?,
        action,
        after: if common.continues { After::Continue } else { After::Stop },
        run: if common.dry_run { Run::Dry } else { Run::Real },
        examples: common.examples.clone().into(),
    })
}

fn pairs(named: &Spanned<Named<String>>) -> Vec<(Placed<String>, String)> {
    let pair = |(key, value): &(Spanned<String>, String)| {
        (Placed { at: key.at.clone(), value: key.value.clone() }, value.clone())
    };
    named.value.0.iter().map(pair).collect()
}

fn list(given: &Spanned<OneOrMany<String>>) -> Vec<Placed<String>> {
    given.value.0.iter().map(|text| Placed { at: text.at.clone(), value: text.value.clone() }).collect()
}

impl From<raw::RawExamples> for Examples {
    fn from(raw: raw::RawExamples) -> Self {
        Self { matches: list(&raw.r#match), nomatches: list(&raw.nomatch), rewrites: Vec::new() }
    }
}

impl From<raw::RawRewriteExamples> for Examples {
    fn from(raw: raw::RawRewriteExamples) -> Self {
        Self { matches: list(&raw.r#match), nomatches: list(&raw.nomatch), rewrites: pairs(&raw.rewrite) }
    }
}

/// `None`: something in it is a fault, so nothing may be drawn from it.
fn when(given: &Spanned<raw::RawWhen>, name: &At) -> Option<When> {
    let raw = &given.value;
    if faulty(given) || raw.is_faulty() {
        return None;
    }
    Some(When {
        at: if given.is_given() { given.at.clone() } else { name.clone() },
        user: plain(&raw.user),
        database: plain(&raw.database),
        application: plain(&raw.application),
        client: plain(&raw.client),
        statement: plain(&raw.statement).map(|words| words.into_iter().map(|word| word.0).collect()),
        object: plain(&raw.object).map(|globs| globs.into_iter().map(|glob| glob.0).collect()),
        kind: plain(&raw.kind).map(|words| words.into_iter().map(|word| word.0).collect()),
        reads: plain(&raw.reads),
        writes: plain(&raw.writes),
        tables: plain(&raw.tables),
        functions: plain(&raw.functions).map(|globs| globs.into_iter().map(|glob| glob.0).collect()),
        parameters: plain(&raw.parameters).map(|globs| globs.into_iter().map(|glob| glob.0).collect()),
        filter: raw.r#where.value,
        limit: raw.limit.value,
        statements: raw.statements.value,
        in_transaction: raw.in_transaction.value,
        prepared: raw.prepared.value,
        shape: plain(&raw.shape).map(|words| words.into_iter().map(|word| word.0).collect()),
        text: raw.text.value.as_ref().map(|expression| expression.0.clone()),
        tautology: raw.tautology.value,
        star: raw.star.value,
        cross_join: raw.cross_join.value,
        union_catalog: raw.union_catalog.value,
        catalog: raw.catalog.value,
        security_definer: raw.security_definer.value,
        copy: plain(&raw.copy),
    })
}
