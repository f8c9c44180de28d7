//! `pgsluice firewall`: the store of the allow list, for people.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use super::args::FirewallCommand;
use crate::{
    config::{
        Config,
        rules::{Learned, LearnedList, Store},
    },
    taps::{save, utc},
};

/// Runs one of the commands; exit status 1 if the configuration names no store, or nothing fits.
pub fn firewall(command: &FirewallCommand, out: &mut dyn Write) -> io::Result<ExitCode> {
    let (store, path) = match open(command.config()) {
        Ok(opened) => opened,
        Err(error) => {
            writeln!(out, "{error}")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    match command {
        FirewallCommand::Export { all, .. } => export(store, *all, out),
        FirewallCommand::Review { unseen_days, .. } => review(&store, *unseen_days, out),
        FirewallCommand::Promote { fingerprints, all, .. } => promote(store, &path, fingerprints, *all, out),
    }
}

fn open(config: &Path) -> Result<(Store, PathBuf), String> {
    let (read, _) = Config::load(config).map_err(|faults| faults.to_string())?;
    let list = read.firewall.allow_list;
    let store = list.store.ok_or("firewall.allow_list.store is not set, so there is no store")?;
    let path = config.parent().map_or_else(|| store.clone(), |base| base.join(&store));
    Ok(((*list.learned).clone(), path))
}

/// What is on the list, or all that was seen, as a store.
fn export(mut store: Store, all: bool, out: &mut dyn Write) -> io::Result<ExitCode> {
    for list in &mut store.principals {
        list.statements.retain(|statement| all || statement.allowed);
    }
    store.principals.retain(|list| !list.statements.is_empty());
    out.write_all(store.to_yaml().map_err(io::Error::other)?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// One line for each statement, those that wait for somebody's word first.
fn review(store: &Store, unseen_days: Option<u32>, out: &mut dyn Write) -> io::Result<ExitCode> {
    let since =
        unseen_days.and_then(|days| SystemTime::now().checked_sub(Duration::from_secs(86_400 * u64::from(days))));
    let since = since.map(utc);
    let mut shown = (0, 0);
    for list in &store.principals {
        let old = |statement: &&Learned| since.as_ref().is_none_or(|since| statement.last_seen < *since);
        let mut statements: Vec<&Learned> = list.statements.iter().filter(old).collect();
        if statements.is_empty() {
            continue;
        }
        writeln!(out, "{}:", list.listed_for)?;
        statements.sort_by_key(|statement| (statement.allowed, std::cmp::Reverse(statement.count)));
        for Learned { fingerprint, allowed, text, kind, tables, last_seen, count, .. } in statements {
            let word = if *allowed { "allowed" } else { "waiting" };
            if *allowed {
                shown.0 += 1
            } else {
                shown.1 += 1
            }
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(out, "  {word} {fingerprint} {count:>8}x {last_seen} {kind} [{}] {line}", tables.join(" "))?;
        }
    }
    writeln!(out, "{} allowed, {} waiting", shown.0, shown.1)?;
    Ok(ExitCode::SUCCESS)
}

/// Puts what was only seen on the list.
fn promote(mut store: Store, path: &Path, wanted: &[String], all: bool, out: &mut dyn Write) -> io::Result<ExitCode> {
    let mut promoted = 0;
    let fits = |statement: &Learned| all || wanted.contains(&statement.fingerprint);
    for LearnedList { listed_for, statements } in &mut store.principals {
        for statement in statements.iter_mut().filter(|statement| !statement.allowed && fits(statement)) {
            statement.allowed = true;
            promoted += 1;
            writeln!(out, "{} for {listed_for}", statement.fingerprint)?;
        }
    }
    let known = |print: &String| {
        store.principals.iter().flat_map(|list| &list.statements).any(|statement| statement.fingerprint == *print)
    };
    let mut status = ExitCode::SUCCESS;
    for print in wanted.iter().filter(|print| !known(print)) {
        writeln!(out, "{print} was never seen")?;
        status = ExitCode::FAILURE;
    }
    if promoted > 0 {
        save(path, &store).map_err(io::Error::other)?;
    }
    writeln!(out, "{promoted} promoted; a reload takes them over")?;
    Ok(status)
}
