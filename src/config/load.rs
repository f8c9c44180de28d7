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
    rules::{self, RuleFile},
    tree::{self, Env},
    value::Value,
};

/// Longest file that is read (configuration, rules, certificates), in bytes.
const MAX_FILE: u64 = 8 << 20;

impl Config {
    /// Reads, checks and completes the file at `path` with the process's environment; the rule files it names are
    /// looked at too, but for what they mean. Every fault is reported, not only the first.
    pub fn load(path: &Path) -> Result<(Self, Vec<Warning>), Faults> {
        let (config, (), warnings) = Self::load_with(path, |_, _| Ok(((), Vec::new())))?;
        Ok((config, warnings))
    }

    /// The same, and has `compile` make something of the rules; its faults are told with all others.
    ///
    /// # Errors
    /// Every fault of the configuration, of its rule files, and of what `compile` found.
    pub fn load_with<T>(
        path: &Path,
        compile: impl FnOnce(&Self, &[RuleFile]) -> Result<(T, Vec<Warning>), Faults>,
    ) -> Result<(Self, T, Vec<Warning>), Faults> {
        let name = path.display().to_string();
        let text = read(path)?;
        let mut findings = Findings::new(&name);
        let base = check::base_directory(path);
        let files = |name: &str| bytes(&base.join(name));
        let mut config = parse(&text, &|name| std::env::var(name).ok(), &files, &mut findings);
        if let Some((raw, config)) = &mut config
            && let Some(file) = &raw.auth.value.hba_file.value
        {
            let hba = hba_file(&base.join(file), &raw.auth.value.hba_file.at, &mut findings);
            if hba.asks_for_certificates() && !config.tls.client.as_ref().is_some_and(|tls| tls.asks()) {
                let message = format!("`{file}` asks for certificates, and no client is asked for one");
                findings.fault(&raw.auth.value.hba_file.at, message, "tls: { client: { ca: … } }");
            }
            config.auth.hba = Some(Arc::new(hba));
        }
        if let Some((_, config)) = &mut config
            && let Some(file) = config.firewall.allow_list.store.as_ref().map(|store| base.join(store))
        {
            config.firewall.allow_list.learned = Arc::new(store(&file, &mut findings));
        }
        let mut compiled = None;
        if let Some((raw, config)) = &config {
            let mut files: Vec<PathBuf> = Vec::new();
            for glob in &raw.rules.value.0 {
                files.extend(rules(&base, &glob.value, &glob.at, &mut findings));
            }
            files.sort();
            files.dedup();
            // What was learned often lies beside the rules.
            let store = config.firewall.allow_list.store.as_ref().map(|store| base.join(store));
            files.retain(|file| Some(file) != store.as_ref());
            let rules: Vec<RuleFile> = files.iter().filter_map(|file| rule_file(file, &mut findings)).collect();
            match compile(config, &rules) {
                Ok((made, warnings)) => {
                    compiled = Some(made);
                    findings.add_warnings(warnings);
                }
                Err(faults) => findings.add(faults),
            }
        }
        let ((config, compiled), warnings) = findings.close(config.map(|(_, config)| config).zip(compiled))?;
        Ok((config, compiled, warnings))
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
fn hba_file(path: &Path, at: &At, findings: &mut Findings) -> Hba {
    let mut own = Findings::new(&path.display().to_string());
    let text = match text(path) {
        Ok(text) => text,
        Err(why) => {
            findings.fault(at, format!("{} {why}", path.display()), "");
            return Hba::default();
        }
    };
    let hba = hba::read(&text, &mut own);
    match own.close(Some(hba)) {
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

fn rules(base: &Path, glob: &str, at: &At, findings: &mut Findings) -> Vec<PathBuf> {
    let files = expand(base, glob, at, findings);
    if files.is_empty() {
        if glob.contains(['*', '?', '[']) {
            findings.warn(at, format!("`{glob}` finds no file"));
        } else {
            findings.fault(at, format!("there is no file `{glob}`"), "a file, or a glob such as rules/**/*.yaml");
        }
    }
    files
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

impl RuleFile {
    /// Reads the text of one rule file.
    ///
    /// # Errors
    /// Every fault of the text; what the rules mean is not looked at.
    pub fn parse(name: &str, text: &str) -> Result<(Self, Vec<Warning>), Faults> {
        let mut findings = Findings::new(name);
        let file = rules::read(name, text, &mut findings);
        findings.close(file)
    }
}

/// Reads rule files that somebody names. What is faulty is left out, and told with the faults of `compile`.
///
/// # Errors
/// Every fault of the files, and of what `compile` found.
pub fn load_rules<T>(
    files: &[PathBuf],
    compile: impl FnOnce(&[RuleFile]) -> Result<(T, Vec<Warning>), Faults>,
) -> Result<(T, Vec<Warning>), Faults> {
    let mut findings = Findings::default();
    let rules: Vec<RuleFile> = files.iter().filter_map(|file| rule_file(file, &mut findings)).collect();
    let compiled = match compile(&rules) {
        Ok((compiled, warnings)) => {
            findings.add_warnings(warnings);
            Some(compiled)
        }
        Err(faults) => {
            findings.add(faults);
            None
        }
    };
    findings.close(compiled)
}

/// The store of the allow list. That it is not there yet is no fault: it is written when something is learned.
fn store(path: &Path, findings: &mut Findings) -> rules::Store {
    if !path.exists() {
        return rules::Store::default();
    }
    let mut own = Findings::new(&path.display().to_string());
    let store = match read(path) {
        Ok(text) => rules::read_store(&text, &mut own),
        Err(faults) => {
            findings.add(faults);
            None
        }
    };
    findings.add(own.into_parts().0);
    store.unwrap_or_default()
}

/// One rule file; its faults and warnings are added to those of the configuration.
fn rule_file(path: &Path, findings: &mut Findings) -> Option<RuleFile> {
    let name = path.display().to_string();
    let mut own = Findings::new(&name);
    let text = match read(path) {
        Ok(text) => text,
        Err(faults) => {
            findings.add(faults);
            return None;
        }
    };
    let file = rules::read(&name, &text, &mut own);
    let (faults, warnings) = own.into_parts();
    findings.add(faults);
    findings.add_warnings(warnings);
    file
}

fn read(path: &Path) -> Result<String, Faults> {
    text(path).map_err(|message| {
        let file = path.display().to_string();
        Faults(vec![Fault { file, at: At::default(), message, allowed: String::new(), excerpt: String::new() }])
    })
}

/// The same, or in words why not.
fn text(path: &Path) -> Result<String, String> {
    String::from_utf8(bytes(path)?).map_err(|error| {
        let line = 1 + error.as_bytes().iter().take(error.utf8_error().valid_up_to()).filter(|b| **b == b'\n').count();
        format!("is not UTF-8 on line {line}")
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
