//! What is wrong with a file, where, and what would be right.

use std::{borrow::Cow, fmt};

/// A place in a YAML file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// From 1; 0: the file as a whole.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The way to the value from the top, e.g. `databases.app.nodes[0].port`.
    pub path: String,
}

/// One thing that is wrong in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file as the operator named it.
    pub file: String,
    /// Where in the file.
    pub at: At,
    /// What is wrong.
    pub message: String,
    /// What would be right; may be empty.
    pub allowed: String,
    /// The line itself, secrets blotted out; empty if it cannot be shown.
    pub excerpt: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.line {
            0 => write!(f, "{}: {}", self.file, printable(&self.message))?,
            line => write!(f, "{}:{line}:{}: {}", self.file, self.at.column, printable(&self.message))?,
        }
        if !self.allowed.is_empty() {
            write!(f, "; allowed: {}", printable(&self.allowed))?;
        }
        if !self.excerpt.is_empty() {
            let caret = " ".repeat(self.at.column.saturating_sub(1));
            write!(f, "\n    {}\n    {caret}^", printable(&self.excerpt))?;
        }
        Ok(())
    }
}

/// Does a character break the line it stands in, or turn it around?
pub(super) fn breaks_line(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// One finding is one line, whatever names stand in it.
fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(breaks_line) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if breaks_line(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.into()
}

/// Something that holds but is probably not what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub Fault);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Every fault of a configuration; never empty when it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Faults(pub Vec<Fault>);

/// Collects what is found while one file is read, so that nothing stops at the first fault.
#[derive(Debug, Default)]
pub(super) struct Findings {
    file: String,
    lines: Vec<String>,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
}

impl Findings {
    pub(super) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    /// The lines to quote from, with secrets already blotted out.
    pub(super) fn quote_from(&mut self, text: &str) {
        self.lines = text.lines().map(str::to_owned).collect();
        for fault in &mut self.faults {
            fault.excerpt = quote(&self.lines, fault.at.line);
        }
    }

    pub(super) fn fault(&mut self, at: &At, message: impl Into<String>, allowed: impl Into<String>) {
        let fault = self.finding(at, message.into(), allowed.into());
        self.faults.push(fault);
    }

    pub(super) fn warn(&mut self, at: &At, message: impl Into<String>) {
        let warning = Warning(self.finding(at, message.into(), String::new()));
        self.warnings.push(warning);
    }

    pub(super) fn add(&mut self, more: Faults) {
        self.faults.extend(more.0);
    }

    pub(super) fn add_warnings(&mut self, more: Vec<Warning>) {
        self.warnings.extend(more);
    }

    /// `value` if nothing is wrong, else all that is wrong, in the order of the file.
    pub(super) fn close<T>(mut self, value: Option<T>) -> Result<(T, Vec<Warning>), Faults> {
        match value {
            Some(value) if self.faults.is_empty() => Ok((value, self.warnings)),
            _ => {
                let file = |fault: &Fault| (fault.file != self.file, fault.file.clone());
                self.faults.sort_by_cached_key(|fault| (file(fault), fault.at.line, fault.at.column));
                Err(Faults(self.faults))
            }
        }
    }

    /// Everything found, whatever becomes of the value.
    pub(super) fn into_parts(self) -> (Faults, Vec<Warning>) {
        (Faults(self.faults), self.warnings)
    }

    fn finding(&self, at: &At, message: String, allowed: String) -> Fault {
        let excerpt = quote(&self.lines, at.line);
        Fault { file: self.file.clone(), at: at.clone(), message, allowed, excerpt }
    }
}

/// A line of the file, as it is shown.
pub(super) fn quote(lines: &[String], line: usize) -> String {
    let text = line.checked_sub(1).and_then(|index| lines.get(index));
    text.map(|text| text.replace('\t', " ").trim_end().to_owned()).unwrap_or_default()
}
