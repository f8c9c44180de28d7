//! Configuration and rules from their files: what is served, checked, tested and explained is read by the same words.

use std::{path::Path, sync::Arc};

use crate::{
    config::{At, Config, Fault, Faults, Warning},
    policy::{RuleSet, compile},
    sql::Functions,
};

/// Reads the configuration and compiles the rules that it names. Rules that keep their names keep their counters of `old`.
///
/// # Errors
/// Every fault of all files.
pub fn load(path: &Path, old: Option<&RuleSet>) -> Result<(Config, RuleSet, Vec<Warning>), Faults> {
    let functions = built_in()?;
    Config::load_with(path, |config, files| compile(files, &config.firewall, functions, config.workers, old).finish())
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
