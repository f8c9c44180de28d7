//! Every line of tests/data/rewrite/*.txt: a text, and what the rules above it make of it.
//!
//! `@ rename_table a = b`, `@ rename_column t.a = b`, `@ add_where t = condition`, `@ qualify_schema s` and `@ path a b` are rules
//! up to the next empty line. `=` stands for a text that is not changed, `!` for one that is refused, and why.
//! `UPDATE_EXPECT=1 cargo test --test rewrite` writes what the code says into the files.

#![cfg(feature = "pg_query")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{fmt::Write, fs};

use pgsluice::policy::rewrite::{Rewriting, Wanted};

mod lines;

#[test]
fn rewrite() {
    lines::check("rewrite", 100, |rules, input| Rules::of(rules).rewrite(input));
}

/// Whatever is asked of them, texts are changed right or refused; plain reads are never refused.
#[test]
fn all_texts_of_the_corpus() {
    let rules = Rules::of(&["add_where t = a = 1 or b = 2", "rename_table u = w", "qualify_schema app"]);
    let (mut changed, mut refused) = (0, String::new());
    for file in fs::read_dir(lines::data("classify")).unwrap() {
        for line in fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let Some((text, facts)) = line.split_once(lines::ARROW).filter(|(text, _)| !text.starts_with(['#', '[']))
            else {
                continue;
            };
            let new = rules.rewrite(text);
            changed += usize::from(!new.starts_with(['!', '=']));
            if new.starts_with('!') && facts.starts_with("select read") {
                writeln!(refused, "{text}: {new}").unwrap();
            }
        }
    }
    assert!(refused.is_empty(), "{refused}");
    assert!(changed > 150, "only {changed} changed: are the files there?");
}

#[derive(Default)]
struct Rules {
    wanted: Wanted,
    path: Option<Vec<String>>,
}

impl Rules {
    fn of(rules: &[&str]) -> Self {
        let mut all = Self::default();
        rules.iter().for_each(|rule| all.add(rule));
        all
    }

    fn add(&mut self, rule: &str) {
        let (action, rest) = rule.split_once(' ').unwrap();
        let pair = || rest.split_once(" = ").map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
        match action {
            "rename_table" => self.wanted.rename_table.push(pair()),
            "rename_column" => self.wanted.rename_column.push(pair()),
            "add_where" => self.wanted.add_where.push(pair()),
            "qualify_schema" => self.wanted.qualify_schema = Some(rest.to_owned()),
            "path" => self.path = Some(rest.split(' ').map(str::to_owned).collect()),
            _ => panic!("{rule}"),
        }
    }

    /// `␊` stands for the end of a line.
    fn rewrite(&self, input: &str) -> String {
        let rules = Rewriting::compile(&self.wanted).unwrap();
        let path: Vec<&str> =
            self.path.as_ref().map_or(vec!["public"], |path| path.iter().map(String::as_str).collect());
        match rules.rewrite(input.replace('␊', "\n").replace('␍', "\r").as_bytes(), &path) {
            Ok(Some(new)) => new.text.replace('\n', "␊"),
            Ok(None) => "=".to_owned(),
            Err(why) => format!("! {why}"),
        }
    }
}
