//! Configuration and rules from their files: what is served, checked, tested and explained is read by the same words.

use std::{path::Path, sync::Arc};

use crate::{
    config::{At, Config, Fault, Faults, Warning, rules::RuleFile},
    policy::{RuleSet, compile},
    sql::Functions,
};

/// Reads the configuration and compiles the rules that it names. Rules that keep their names keep their counters of `old`.
///
/// # Errors
/// Every fault of all files.
pub fn load(path: &Path, old: Option<&RuleSet>) -> Result<(Config, RuleSet, Vec<Warning>), Faults> {
    let functions = built_in()?;
    Config::load_with(path, |config, files| {
        let compiled = compile(files, &config.firewall, functions, config.workers, old);
        let (rules, mut warnings) = compiled.finish()?;
        warnings.extend(tags_of_no_node(config, files));
        Ok((rules, warnings))
    })
}

/// A rule that sends to replicas with a tag that no node has sends nothing anywhere.
fn tags_of_no_node<'a>(config: &'a Config, files: &'a [RuleFile]) -> impl Iterator<Item = Warning> + 'a {
    let has = |tag: &String| config.databases.iter().flat_map(|database| &database.nodes).any(|n| n.tags.contains(tag));
    let rules = files.iter().flat_map(|file| file.routing.iter().map(move |rule| (file, rule)));
    let tags = rules.flat_map(|(file, rule)| {
        let tags = rule.action.route.iter().flat_map(|route| &route.tags);
        tags.map(move |tag| (file, rule, tag))
    });
    tags.filter(move |(.., tag)| !has(tag)).map(|(file, rule, tag)| {
        file.warning(&rule.name.at, format!("rule `{}`: no node has the tag `{tag}`", rule.name.value))
    })
}

/// What is known of built-in functions.
///
/// # Errors
/// Never, as a test of the list shows; it is told like any other fault of a file.
pub fn built_in() -> Result<Arc<Functions>, Faults> {
    Functions::built_in().map(Arc::new).map_err(|error| {
        let (file, message) = ("rules/functions.yaml".to_owned(), error.to_string());
        Faults(vec![Fault { file, at: At::default(), message, allowed: String::new(), excerpt: String::new() }])
    })
}
