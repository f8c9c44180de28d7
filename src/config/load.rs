//! The only place of this room that touches files and the environment.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Config, Hba, Warning, check,
    encryption::Files,
    fault::{At, Fault, Faults, Findings},
    hba, raw,
    tree::{self, Env, Node},
    value::Value,
};

/// Longest file that is read (configuration, rules, certificates), in bytes.
const MAX_FILE: u64 = 8 << 20;

impl Config {
    /// Reads, checks and completes the file at `path` with the process's environment; the rule files it names are
    /// looked at too. Every fault is reported, not only the first.
    pub fn load(path: &Path) -> Result<(Self, Vec<Warning>), Faults> {
        let name = path.display().to_string();
        let text = read(path)?;
        let mut findings = Findings::new(&name);
        let base = check::base_directory(path);
        let files = |name: &str| bytes(&base.join(name));
        let mut config = parse(&text, &|name| std::env::var(name).ok(), &files, &mut findings);
        if let Some((raw, config)) = &mut config {
            if let Some(file) = &raw.auth.value.hba_file.value {
                let hba = hba_file(&base.join(file), &mut findings);
                if hba.asks_for_certificates() && !config.tls.client.as_ref().is_some_and(|tls| tls.asks()) {
                    let message = format!("`{file}` asks for certificates, and no client is asked for one");
                    findings.fault(&raw.auth.value.hba_file.at, message, "tls: { client: { ca: … } }");
                }
                config.auth.hba = Some(Arc::new(hba));
            }
            for glob in &raw.rules.value.0 {
                rules(&base, &glob.value, &glob.at, &mut findings);
            }
        }
        findings.close(config.map(|(_, config)| config))
    }

    /// Reads and checks a text without touching files or the environment: the file of `auth.hba_file` is not read, and nobody is let
    /// in by it; certificates are not read, and that is a fault. `file_name` is for messages.
    pub fn parse(
        text: &str,
        file_name: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(Self, Vec<Warning>), Faults> {
        let mut findings = Findings::new(file_name);
        let config = parse(text, env, &|_| Err("is not read here".to_owned()), &mut findings);
        findings.close(config.map(|(_, config)| config))
    }
}

fn parse(text: &str, env: Env<'_>, files: Files<'_>, findings: &mut Findings) -> Option<(raw::Raw, Config)> {
    let tree = tree::read(text, env, findings)?;
    let raw = raw::Raw::read(&tree, findings)?;
    let config = check::check(&raw, files, findings);
    Some((raw, config))
}

/// Who may come from where. A file that can not be read is a fault, and nobody is let in by it.
fn hba_file(path: &Path, findings: &mut Findings) -> Hba {
    let mut own = Findings::new(&path.display().to_string());
    let read = read(path).map(|text| hba::read(&text, &mut own));
    match read.and_then(|hba| own.close(Some(hba))) {
        Ok((hba, warnings)) => {
            findings.add_warnings(warnings);
            hba
        }
        Err(faults) => {
            findings.add(faults);
            Hba::default()
        }
    }
}

/// The files that globs name, sorted, relative ones starting from the directory of `config_file`.
/// A glob that can not be read is a fault; one that finds nothing is not.
pub fn rule_files(config_file: &Path, globs: &[String]) -> Result<Vec<PathBuf>, Faults> {
    let mut findings = Findings::new(&config_file.display().to_string());
    let base = check::base_directory(config_file);
    let at = At { path: "rules".into(), ..At::default() };
    let mut files: Vec<_> = globs.iter().flat_map(|glob| expand(&base, glob, &at, &mut findings)).collect();
    files.sort();
    files.dedup();
    findings.close(Some(files)).map(|(files, _)| files)
}

fn rules(base: &Path, glob: &str, at: &At, findings: &mut Findings) {
    let files = expand(base, glob, at, findings);
    if files.is_empty() {
        if glob.contains(['*', '?', '[']) {
            findings.warn(at, format!("`{glob}` finds no file"));
        } else {
            findings.fault(at, format!("there is no file `{glob}`"), "a file, or a glob such as rules/**/*.yaml");
        }
    }
    for file in files {
        if let Err(faults) = check_rule_file(&file) {
            findings.add(faults);
        }
    }
}

fn expand(base: &Path, glob: &str, at: &At, findings: &mut Findings) -> Vec<PathBuf> {
    // The directory is taken as it is: only what the operator wrote is a pattern.
    let directory = glob::Pattern::escape(&base.to_string_lossy());
    let pattern =
        if glob.starts_with('/') || directory.is_empty() { glob.to_owned() } else { format!("{directory}/{glob}") };
    match glob::glob(&pattern) {
        Ok(paths) => paths.filter_map(Result::ok).filter(|path| path.is_file()).collect(),
        Err(error) => {
            findings.fault(at, format!("`{glob}` is no glob: {}", error.msg), "* ? [a-z], and ** for any directories");
            Vec::new()
        }
    }
}

/// Checks one rule file: readable, YAML, and without rules, which this version does not know.
pub fn check_rule_file(path: &Path) -> Result<(), Faults> {
    let mut findings = Findings::new(&path.display().to_string());
    let text = read(path)?;
    // Rules are data: the environment has no part in them.
    let tree = tree::read_verbatim(&text, &mut findings);
    match tree.as_ref().map(|tree| (&tree.node, tree.is_null(), &tree.at)) {
        Some((Node::Map(sections), ..)) => {
            for (key, _) in sections {
                let message = format!("`{}`: rules are not supported by this version yet", key.text);
                findings.fault(&key.at, message, "an empty file");
            }
        }
        Some((_, false, at)) => findings.fault(at, "a rule file is a map of sections", "an empty file"),
        Some((_, true, _)) | None => {}
    }
    findings.close(tree.map(|_| ())).map(|((), _)| ())
}

fn read(path: &Path) -> Result<String, Faults> {
    let fault = |message: String| {
        let file = path.display().to_string();
        Faults(vec![Fault { file, at: At::default(), message, allowed: String::new(), excerpt: String::new() }])
    };
    String::from_utf8(bytes(path).map_err(fault)?).map_err(|error| {
        let line = 1 + error.as_bytes().iter().take(error.utf8_error().valid_up_to()).filter(|b| **b == b'\n').count();
        fault(format!("is not UTF-8 on line {line}"))
    })
}

/// The whole of a file, or why not.
fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("can not be read: {error}");
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > MAX_FILE {
        return Err(format!("is {length} bytes long, at most {MAX_FILE} are read"));
    }
    fs::read(path).map_err(unreadable)
}
