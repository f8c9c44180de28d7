//! Message scripts: said once straight to the primary and once through the proxy, the traces must be equal.
//!
//! A file under `tests/data/wire` holds many cases; `tests/data/wire/README.md` explains the format.

mod lines;
mod run;

use std::{fs, path::Path};

use crate::{Case, Needs, world::World};

/// One step of a case: what a client does, and what must come back.
#[derive(Clone, Debug)]
pub struct Step {
    pub client: char,
    pub act: Act,
    /// Letters of the reply, if the file states them.
    pub expected: Option<String>,
    /// Where the statement must have run: `primary` or `replica`.
    pub route: Option<String>,
    pub line: usize,
}

/// What a client does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Writes segments of bytes, then reads.
    Say { segments: Vec<Vec<u8>>, read: Read },
    /// Connects anew with these startup parameters.
    Login { user: String, params: Vec<(String, String)> },
    /// Closes without a word.
    Vanish,
    /// Asks for its cancellation once it runs.
    Cancel,
}

/// How much of an answer is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    Until { tag: u8, count: usize },
    ToTheEnd,
}

/// One case of a script file.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub name: String,
    /// SQL run on the primary before each run.
    pub before: Vec<String>,
    pub steps: Vec<Step>,
    /// Server connections needed at once.
    pub pool: u32,
    /// Pool modes and so on it does not hold in.
    pub except: Vec<String>,
    /// Setups that are not everybody's.
    pub also: Vec<String>,
    /// Tags whose messages are left out of the comparison.
    pub ignore: Vec<char>,
    /// Errors may be made by the proxy: where in PostgreSQL's source they were raised is not compared.
    pub ours: bool,
}

/// All cases of all files, each under several setups of the proxy.
pub fn cases() -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/wire");
    let mut files: Vec<_> = fs::read_dir(&dir).expect("tests/data/wire").flatten().map(|e| e.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "script"));
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a script file");
        let stem = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        let scripts = lines::read(&text).unwrap_or_else(|fault| panic!("{stem}.script: {fault}"));
        for script in scripts {
            for (word, setup) in run::setups(&script) {
                let name = format!("wire::{stem}::{} [{word}]", script.name);
                let needs = if setup.cache { Needs::Cache } else { Needs::Nothing };
                let script = script.clone();
                cases.push(Case::new(name, needs, move |world: &World| run::check(world, &script, &setup)));
            }
        }
    }
    cases
}
