//! `pgsluice test`: the examples in rule files.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::args::TestArgs;
use crate::config::{self, Config, Faults};

/// Checks rule files and runs their examples; exit status 1 if anything fails. This version knows no rules, so there
/// are no examples to run, and a file with rules is a fault.
pub fn test(args: &TestArgs, out: &mut dyn Write) -> io::Result<ExitCode> {
    let files = match files(args) {
        Ok(files) => files,
        Err(faults) => {
            writeln!(out, "{faults}")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let faults: Vec<_> = files.iter().filter_map(|file| config::check_rule_file(file).err()).collect();
    for faults in &faults {
        writeln!(out, "{faults}")?;
    }
    writeln!(out, "0 passed, {} failed", faults.len())?;
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn files(args: &TestArgs) -> Result<Vec<PathBuf>, Faults> {
    if args.rules.is_empty() {
        let (config, _) = Config::load(&args.config)?;
        return config::rule_files(&args.config, &config.rules);
    }
    // A plain name is taken as a file even if there is none, so that a misspelt one is a fault.
    let (globs, mut files): (Vec<_>, Vec<_>) =
        args.rules.iter().cloned().partition(|name| name.contains(['*', '?', '[']) || Path::new(name).is_dir());
    let globs: Vec<_> = globs
        .into_iter()
        .map(|glob| if Path::new(&glob).is_dir() { format!("{}/**/*.yaml", glob.trim_end_matches('/')) } else { glob })
        .collect();
    let mut found = config::rule_files(Path::new(""), &globs)?;
    found.extend(files.drain(..).map(PathBuf::from));
    Ok(found)
}
