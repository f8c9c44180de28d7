//! Rule files → [`RuleSet`]. Everything that is wrong with the rules is told at once; a rule that does not hold makes none.

use std::{collections::HashMap, sync::Arc};

use super::{
    allow_list::AllowList,
    condition::Condition,
    examples::{Bench, Tested},
    hits::Hits,
    reach,
    rewrite::{Rewriting, Wanted},
    rule_set::{Changing, Guarding, OWN_NAMES, Outcome, RuleSet, Ruling, Steering, Uses, Watch},
    verdict::{RouteOrder, Section},
};
use crate::{
    base::SqlState,
    config::{
        Fault, Faults, Firewall, Warning,
        rules::{
            After, FirewallAction, FirewallMode, FirewallVerdict, Placed, RewriteAction, RoutingAction, Rule, RuleFile,
            Run, When,
        },
    },
    sql::Functions,
};

/// What was made of rule files.
#[derive(Debug)]
pub struct Compiled {
    rules: RuleSet,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
    /// What came of the examples.
    pub tested: Tested,
}

impl Compiled {
    /// The rules, if nothing is wrong with any.
    ///
    /// # Errors
    /// All faults.
    pub fn finish(self) -> Result<(RuleSet, Vec<Warning>), Faults> {
        if self.faults.is_empty() { Ok((self.rules, self.warnings)) } else { Err(Faults(self.faults)) }
    }
}

/// Compiles rule files for `workers` workers. Rules that keep their names keep their counters of `old`.
pub fn compile(
    files: &[RuleFile],
    firewall: &Firewall,
    functions: Arc<Functions>,
    workers: usize,
    old: Option<&RuleSet>,
) -> Compiled {
    let declared = files.iter().flat_map(|file| file.functions.iter().cloned());
    let rules = RuleSet { functions: declared.collect(), ..RuleSet::default() };
    // Examples are read as sessions will read texts.
    let functions = Arc::new(functions.with_declared(rules.declared()));
    let mut maker = Maker { faults: Vec::new(), warnings: Vec::new(), bench: Bench::new(functions), rules };
    let default = firewall.mode.unwrap_or(FirewallMode::Protect);
    let some = files.iter().any(|file| !file.firewall.is_empty());
    maker.rules.unreadable = firewall.mode.or_else(|| some.then_some(FirewallMode::Protect));
    maker.rules.allow_list = AllowList::new(&firewall.allow_list);
    let counters = |section, name: &Arc<str>| {
        let kept = old.and_then(|old| old.hits.get(&(section, Arc::clone(name))));
        kept.cloned().unwrap_or_else(|| Arc::new(Hits::new(workers)))
    };
    for name in OWN_NAMES.map(Arc::from) {
        let hits = counters(Section::Firewall, &name);
        maker.rules.hits.insert((Section::Firewall, name), hits);
    }
    let hits = |rules: &mut RuleSet, section, name: &str| {
        let name: Arc<str> = name.into();
        let hits = counters(section, &name);
        rules.hits.insert((section, Arc::clone(&name)), Arc::clone(&hits));
        (name, hits)
    };
    let decides = move |rule: &Rule<FirewallAction>| {
        let acts = rule.action.mode.unwrap_or(default) == FirewallMode::Protect;
        // Of a text of several statements it lets another rule refuse one.
        let refuses = matches!(rule.action.verdict, FirewallVerdict::Deny { .. });
        acts && refuses && rule.after == After::Stop && rule.run == Run::Real
    };
    for (file, rule) in maker.look_at(files, Section::Firewall, |file| &file.firewall, decides) {
        let Some(condition) = maker.condition(file, rule, Section::Firewall) else { continue };
        let mode = match (rule.action.mode.unwrap_or(default), rule.run) {
            (FirewallMode::Off, _) => continue,
            (_, Run::Dry) => Watch::DryRun,
            (FirewallMode::Detect, Run::Real) => Watch::Detect,
            (FirewallMode::Protect, Run::Real) => Watch::Act,
        };
        let (name, hits) = hits(&mut maker.rules, Section::Firewall, &rule.name.value);
        let outcome = match &rule.action.verdict {
            FirewallVerdict::Deny { message, sqlstate } => Outcome::Deny {
                sqlstate: SqlState::from_bytes(sqlstate).unwrap_or(SqlState::INSUFFICIENT_PRIVILEGE),
                message: message.as_str().into(),
            },
            FirewallVerdict::Limit { rows, bytes } => Outcome::Limit { rows: *rows, bytes: *bytes },
        };
        let action = Guarding { outcome, mode };
        maker.rules.firewall.push(Ruling { name, condition, after: rule.after, hits, action });
    }
    for (file, rule) in maker.look_at(files, Section::Routing, |file| &file.routing, routes) {
        let Some(condition) = maker.condition(file, rule, Section::Routing) else { continue };
        let (name, hits) = hits(&mut maker.rules, Section::Routing, &rule.name.value);
        let route = rule.action.route.as_ref().map(|route| RouteOrder {
            rule: Arc::clone(&name),
            to: route.to,
            tags: route.tags.as_slice().into(),
            max_lag: route.max_lag,
            safety: route.safety,
        });
        let action = Steering { route, timeout: rule.action.timeout, run: rule.run };
        maker.rules.routing.push(Ruling { name, condition, after: rule.after, hits, action });
    }
    for (file, rule) in maker.look_at(files, Section::Cache, |file| &file.cache, |_| false) {
        maker.condition(file, rule, Section::Cache);
        maker.warnings.push(file.warning(&rule.name.at, "cache rules have no effect in this version"));
    }
    for (file, rule) in maker.look_at(files, Section::Rewrite, |file| &file.rewrite, rewrites) {
        let Some(condition) = maker.condition(file, rule, Section::Rewrite) else { continue };
        let Some(rewriting) = maker.rewriting(file, rule) else { continue };
        let (name, hits) = hits(&mut maker.rules, Section::Rewrite, &rule.name.value);
        maker.rules.uses.path = true;
        let action = Changing { rewriting, run: rule.run };
        maker.rules.rewrite.push(Ruling { name, condition, after: rule.after, hits, action });
    }
    Compiled { rules: maker.rules, faults: maker.faults, warnings: maker.warnings, tested: maker.bench.tested }
}

/// Does a routing rule end its section for what it matches?
fn routes(rule: &Rule<RoutingAction>) -> bool {
    rule.after == After::Stop && rule.run == Run::Real
}

/// Does a rewrite rule?
fn rewrites(rule: &Rule<RewriteAction>) -> bool {
    rule.after == After::Stop && rule.run == Run::Real
}

struct Maker {
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
    bench: Bench,
    rules: RuleSet,
}

impl Maker {
    /// The rules of one section in order, those that could never match or have a name that is taken told as faults.
    fn look_at<'f, A>(
        &mut self,
        files: &'f [RuleFile],
        section: Section,
        of: fn(&RuleFile) -> &Vec<Rule<A>>,
        decides: impl Fn(&Rule<A>) -> bool,
    ) -> Vec<(&'f RuleFile, &'f Rule<A>)> {
        let rules: Vec<(&RuleFile, &Rule<A>)> =
            files.iter().flat_map(|file| of(file).iter().map(move |rule| (file, rule))).collect();
        let mut seen: HashMap<&str, (&RuleFile, &Rule<A>)> = HashMap::new();
        for (file, rule) in &rules {
            let name = rule.name.value.as_str();
            if section == Section::Firewall && OWN_NAMES.contains(&name) {
                let message = format!("`{name}` is what the firewall calls its own reasons");
                self.faults.push(file.fault(&rule.name.at, message, "another name"));
            }
            // Of one file the reader has told already.
            if let Some((other, first)) = seen.insert(name, (file, rule)).filter(|(other, _)| other.name != file.name) {
                let message = format!(
                    "{} rule `{name}` stands here again, first in {}:{}",
                    section.as_str(),
                    other.name,
                    first.name.at.line
                );
                self.faults.push(file.fault(&rule.name.at, message, "each name once in a section"));
            }
        }
        let whens: Vec<(&When, bool)> = rules.iter().map(|(_, rule)| (&rule.when, decides(rule))).collect();
        for (index, why) in reach::unreachable(&whens) {
            let Some((file, rule)) = rules.get(index) else { continue };
            let why = match why {
                reach::Why::Contradiction(why) => why,
                reach::Why::Covered(by) => {
                    let by = rules.get(by).map_or("", |(_, rule)| rule.name.value.as_str());
                    format!("rule `{by}` before it matches all that it does")
                }
            };
            let message = format!("rule `{}` can never match: {why}", rule.name.value);
            self.faults.push(file.fault(
                &rule.when.at,
                message,
                "a condition that can hold, or `continue: true` before it",
            ));
        }
        rules
    }

    /// What a rewrite rule does, its examples run.
    fn rewriting(&mut self, file: &RuleFile, rule: &Rule<RewriteAction>) -> Option<Rewriting> {
        let action = &rule.action;
        let pairs = |pairs: &[(Placed<String>, String)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| (key.value.clone(), value.clone())).collect()
        };
        let wanted = Wanted {
            rename_table: pairs(&action.rename_table),
            rename_column: pairs(&action.rename_column),
            add_where: pairs(&action.add_where),
            qualify_schema: action.qualify_schema.as_ref().map(|schema| schema.value.clone()),
        };
        let rewriting = match Rewriting::compile(&wanted) {
            Ok(rewriting) => rewriting,
            Err(bad) => {
                let keys = action.rename_table.iter().chain(&action.rename_column).chain(&action.add_where);
                let keys: Vec<&Placed<String>> = keys.map(|(key, _)| key).chain(&action.qualify_schema).collect();
                for bad in bad {
                    let at = keys.iter().find(|key| *key.value == *bad.key).map_or(&rule.name.at, |key| &key.at);
                    self.faults.push(file.fault(at, format!("{}: {}", bad.action, bad.why), ""));
                }
                return None;
            }
        };
        let faults = self.bench.rewrite(file, &rule.name.value, &rule.examples, &rewriting);
        let holds = faults.is_empty();
        self.faults.extend(faults);
        holds.then_some(rewriting)
    }

    /// The condition of a rule, its examples run.
    fn condition<A>(&mut self, file: &RuleFile, rule: &Rule<A>, section: Section) -> Option<Condition> {
        let condition = Condition::new(&rule.when, section);
        let Uses { path, transaction, protocol } = &mut self.rules.uses;
        *path |= condition.asks_for_path();
        *transaction |= condition.asks_for_transaction();
        *protocol |= condition.asks_for_protocol();
        let faults = self.bench.run(file, &rule.name.value, &rule.examples, &condition);
        let holds = faults.is_empty();
        self.faults.extend(faults);
        holds.then_some(condition)
    }
}

#[cfg(test)]
mod tests;
