//! The `options` parameter: a server command line in miniature.

use super::StartupError;

/// Splits `options` at white space as `pg_split_opts` does (a backslash takes the next character as it is) and reads
/// `-c name=value`, `-cname=value` and `--name=value` as `process_postgres_switches` does: a `-` in a name stands for `_`.
///
/// # Errors
/// [`StartupError::BadOption`] for any other switch, a setting without `=`, or an empty name. PostgreSQL has more
/// switches (`-d`, `-B`, …); none may come from a client that shares its server.
pub fn split_options(options: &str) -> Result<Vec<(String, String)>, StartupError> {
    let mut words = split(options).into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next()
        } else {
            word.strip_prefix("--").or_else(|| word.strip_prefix("-c")).map(str::to_owned)
        };
        let pair = setting.as_deref().and_then(|setting| setting.split_once('=')).filter(|(name, _)| !name.is_empty());
        let Some((name, value)) = pair else { return Err(StartupError::BadOption(word)) };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn split(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        match c {
            // C's isspace: vertical tab is one, is_ascii_whitespace does not think so.
            ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c' => words.extend(word.take()),
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
