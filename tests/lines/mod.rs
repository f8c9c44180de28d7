//! Files of lines `text  ⇒  what is known of it`: walks them and compares.
//!
//! Comments and empty lines stay as they are. Lines that begin with `@ ` are settings, for the lines below up to the next empty one.
//! With `UPDATE_EXPECT=1` in the environment, what the code says is written into the files; read the difference.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

pub(crate) const ARROW: &str = "  ⇒  ";

/// A place in tests/data.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Every line of a file, or of the `.txt` files of a folder. `judge` gets the settings that hold, without their `@ `, and the text.
pub(crate) fn check(name: &str, at_least: usize, judge: impl Fn(&[&str], &str) -> String) {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let (mut cases, mut wrong) = (0, String::new());
    for file in files(&data(name)) {
        let text = fs::read_to_string(&file).unwrap();
        let (mut new, mut settings) = (String::new(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let setting = line.strip_prefix("@ ");
            settings.extend(setting);
            if line.is_empty() {
                settings.clear();
            }
            if line.is_empty() || line.starts_with('#') || setting.is_some() {
                writeln!(new, "{line}").unwrap();
                continue;
            }
            cases += 1;
            let (input, expected) = line.split_once(ARROW).unwrap_or((line, ""));
            let found = judge(&settings, input);
            if found != expected && !update {
                let place = format!("{}:{}", file.display(), number + 1);
                writeln!(wrong, "{place}: {input}\n  expected {expected}\n  found    {found}").unwrap();
            }
            writeln!(new, "{input}{ARROW}{found}").unwrap();
        }
        if update {
            fs::write(file, new).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases >= at_least, "only {cases} cases: are the files there?");
}

fn files(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    let mut files: Vec<_> = fs::read_dir(place).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}
