//! `pgsluice check`: every fault of the configuration and its rule files.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use crate::app;

/// Prints what is wrong with the file at `path`, or that it is fine. Exit status 1 if anything is wrong.
pub fn check(path: &Path, out: &mut dyn Write) -> io::Result<ExitCode> {
    let (config, rules, warnings) = match app::load(path, None) {
        Ok(loaded) => loaded,
        Err(faults) => {
            writeln!(out, "{faults}\n{}", count(faults.0.len(), "fault", "faults"))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let mut ids: Vec<_> = config.databases.iter().flat_map(|database| &database.nodes).map(|node| node.id).collect();
    ids.sort();
    ids.dedup();
    writeln!(
        out,
        "{}: ok: {}, {}, {}, {}{}",
        path.display(),
        count(config.listen.len(), "listener", "listeners"),
        count(config.databases.len(), "database", "databases"),
        count(ids.len(), "node", "nodes"),
        count(config.users.len(), "user", "users"),
        if rules.is_empty() { String::new() } else { format!(", {}", count(rules.len(), "rule", "rules")) },
    )?;
    Ok(ExitCode::SUCCESS)
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
