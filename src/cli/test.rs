//! `pgsluice test`: the examples in rule files.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::args::TestArgs;
use crate::{
    app,
    config::{self, Config, Faults, Firewall},
    policy::{Tested, compile},
};

/// Checks rule files and runs their examples; exit status 1 if anything fails.
pub fn test(args: &TestArgs, out: &mut dyn Write) -> io::Result<ExitCode> {
    let (tested, faults) = match files(args).and_then(|files| Ok(run(&files, app::built_in()?))) {
        Ok(ran) => ran,
        Err(faults) => (Tested::default(), Some(faults)),
    };
    // A fault that is no example's keeps its rules from being tested, so it is a failure of its own.
    let failed = faults.as_ref().map_or(0, |faults| faults.0.len().max(tested.failed));
    if let Some(faults) = &faults {
        writeln!(out, "{faults}")?;
    }
    writeln!(out, "{} passed, {failed} failed", tested.passed)?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(files: &[PathBuf], functions: std::sync::Arc<crate::sql::Functions>) -> (Tested, Option<Faults>) {
    let mut tested = Tested::default();
    let made = config::load_rules(files, |rules| {
        let compiled = compile(rules, &Firewall::default(), functions, 1, None);
        tested = compiled.tested;
        compiled.finish()
    });
    (tested, made.err())
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
