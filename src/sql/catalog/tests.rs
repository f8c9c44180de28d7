//! Every file of tests/data/catalog: a catalog, and below a line of dashes texts with what becomes of them.
//!
//! `UPDATE_EXPECT=1 cargo test --lib catalog` writes what the code says into the files; read the difference.

use std::{fmt::Write, fs, path::Path, sync::Arc};

use super::*;
use crate::sql::{
    Caps, Classifier, Declared, Facts, Functions, Misroutes, ShapeKey, StringRules,
    facts::{Effect, Name},
};

const ARROW: &str = "  ⇒  ";

#[test]
fn names_are_judged_by_what_they_may_stand_for() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/catalog");
    let mut files: Vec<_> = fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let (mut cases, mut wrong) = (0, String::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let (described, asked) = text.split_once("\n---\n").unwrap_or_else(|| panic!("{}", file.display()));
        let world = World::new(described);
        let mut new = format!("{described}\n---\n");
        for line in asked.lines() {
            if line.is_empty() || line.starts_with('#') {
                new += line;
                new += "\n";
                continue;
            }
            cases += 1;
            let (input, expected) = line.split_once(ARROW).unwrap_or((line, ""));
            let found = world.judge(input);
            if found != expected && !update {
                writeln!(wrong, "{}: {input}\n  expected {expected}\n  found    {found}", file.display()).unwrap();
            }
            writeln!(new, "{input}{ARROW}{found}").unwrap();
        }
        if update {
            fs::write(file, new).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases >= 100, "only {cases} cases: are the files there?");
}

fn built_in() -> Functions {
    Functions::built_in().unwrap()
}

/// What a file describes.
struct World {
    listing: Box<dyn Fn() -> Listing>,
    functions: Arc<Functions>,
}

impl World {
    fn new(described: &str) -> Self {
        let (lines, declared): (Vec<String>, Vec<String>) = described
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .partition(|line| !line.starts_with("declare "));
        let declared: Vec<(Name, Declared)> = declared.iter().map(|line| declaration(line)).collect();
        let functions = Arc::new(built_in().with_declared(declared));
        Self { listing: Box::new(move || listing(&lines)), functions }
    }

    /// In brackets in front of the text: `path=…`, `user=…`, `stale`, `unread`.
    fn judge(&self, input: &str) -> String {
        let (mut text, mut path, mut user, mut stale, mut read) = (input, None, "ann", false, true);
        while let Some((word, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            text = rest;
            match word.split_once('=') {
                Some(("path", value)) => path = Some(value),
                Some(("user", name)) => user = name,
                None if word == "stale" => stale = true,
                None if word == "unread" => read = false,
                _ => panic!("{input}"),
            }
        }
        let published = if read { Published::fixed(Catalog::new((self.listing)())) } else { Published::new(|| {}) };
        if stale {
            published.change();
        }
        let scope = Scope::new(Arc::new(published), path, user, user);
        let caps = Caps { parse: 1 << 20, entries: 100 };
        let mut classifier =
            Classifier::new(ShapeKey::random(), Arc::clone(&self.functions), Arc::new(Misroutes::new(10)), caps);
        let first = classifier.classify_in(text.as_bytes(), StringRules::default(), &scope);
        let second = classifier.classify_in(text.as_bytes(), StringRules::default(), &scope);
        assert_eq!((&first.known, first.missing), (&second.known, second.missing), "{input}: a hit and a miss differ");
        said(&first.known.facts, first.missing)
    }
}

fn said(facts: &Facts, missing: bool) -> String {
    let mut said = match facts.primary {
        None => "replica".to_owned(),
        Some(reason) => format!("primary {}", reason.as_str()),
    };
    assert_eq!(facts.proven_read_only, facts.primary.is_none());
    for (word, holds) in [("opaque", facts.effects.contains(&Effect::OpaqueCode)), ("missing", missing)] {
        if holds {
            said += " · ";
            said += word;
        }
    }
    if !facts.writes.is_empty() {
        let writes: Vec<&str> = facts.writes.iter().map(|name| &*name.name).collect();
        said += &format!(" · writes {}", writes.join(", "));
    }
    said
}

fn qualified(text: &str) -> (Box<str>, Box<str>) {
    let (schema, name) = text.split_once('.').unwrap_or_else(|| panic!("not qualified: {text}"));
    (schema.into(), name.into())
}

fn named(text: &str) -> Name {
    let (schema, name) = qualified(text);
    Name { schema: Some(schema), name }
}

fn declaration(line: &str) -> (Name, Declared) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, name, what, rest @ ..] = &*words else { panic!("{line}") };
    let name = match name.split_once('.') {
        Some(_) => named(name),
        None => Name { schema: None, name: (*name).into() },
    };
    match *what {
        "read_only" => (name, Declared::ReadOnly),
        "writes" => {
            (name, Declared::Writes(rest.iter().map(|name| Name { schema: None, name: (*name).into() }).collect()))
        }
        _ => panic!("{line}"),
    }
}

/// A line names an object; behind `:=` stands its code.
fn listing(lines: &[String]) -> Listing {
    let functions = built_in();
    let mut listing = Listing::default();
    let mut oid = 16384;
    for line in lines {
        let (head, code) = line.split_once(" := ").map_or((&**line, None), |(head, code)| (head, Some(code)));
        let words: Vec<&str> = head.split_whitespace().collect();
        let sql = |code: &str| Arc::new(Body::sql(code, &functions));
        let expression = |code: &str| Arc::new(Body::expressions(code, &functions));
        match *words {
            ["schema", name, ref users @ ..] => listing.schemas.push(Schema {
                name: name.into(),
                is_public: users.contains(&"*"),
                users: users.iter().map(|user| (*user).into()).collect(),
            }),
            ["superuser", name] => listing.superusers.push(name.into()),
            ["path", ..] => {
                let (role, in_database) = match words[1] {
                    "server" => (None, false),
                    "database" => (None, true),
                    role => (Some(role.into()), false),
                };
                listing.paths.push(PathSetting { role, in_database, value: code.unwrap_or_default().into() });
            }
            [kind @ ("table" | "unlogged" | "foreign" | "sequence" | "view"), name] => {
                let (schema, name) = qualified(name);
                oid += 1;
                listing.relations.push(Relation {
                    oid,
                    schema,
                    name,
                    kind: match kind {
                        "foreign" => RelationKind::Foreign,
                        "sequence" => RelationKind::Sequence,
                        "view" => RelationKind::View,
                        _ => RelationKind::Table,
                    },
                    permanence: if kind == "unlogged" { Permanence::Unlogged } else { Permanence::Logged },
                    query: code.map(sql),
                    policies: Vec::new(),
                });
            }
            ["policy", name] => {
                let relation = relation(&mut listing, name);
                relation.policies.push(expression(code.unwrap()));
            }
            ["child", parent, child] => {
                let pair = (relation(&mut listing, parent).oid, relation(&mut listing, child).oid);
                listing.inheritance.push(pair);
            }
            ["function", name, label, language, ref rest @ ..] => {
                let (schema, name) = qualified(name);
                listing.functions.push(Function {
                    schema,
                    name,
                    kind: FunctionKind::Function,
                    volatility: if label == "volatile" { Volatility::Volatile } else { Volatility::NotVolatile },
                    language: match language {
                        "c" => Language::Native,
                        "sql" | "atomic" => Language::Sql,
                        "plpgsql" => Language::Plpgsql,
                        "plperl" => Language::Trusted,
                        "plpython3u" => Language::Untrusted,
                        _ => panic!("{line}"),
                    },
                    body: code.map(|code| match language {
                        "plpgsql" => Arc::new(Body::plpgsql(code)),
                        "atomic" => Arc::new(Body::standard(code, &functions)),
                        _ => sql(code),
                    }),
                    defaults: rest.iter().find_map(|word| word.strip_prefix("default=")).map(expression),
                    search_path: rest.iter().find_map(|word| word.strip_prefix("path=")).map(Into::into),
                    of_row: rest.contains(&"row"),
                    of_value: rest.contains(&"value"),
                    is_definers: rest.contains(&"definer"),
                });
            }
            ["procedure", name] | ["aggregate", name] => {
                let kind = match code {
                    Some(parts) => FunctionKind::Aggregate(parts.split(", ").map(named).collect()),
                    None => FunctionKind::Procedure,
                };
                let (schema, name) = qualified(name);
                listing.functions.push(Function {
                    schema,
                    name,
                    kind,
                    volatility: Volatility::NotVolatile,
                    language: Language::Native,
                    body: None,
                    defaults: None,
                    search_path: None,
                    of_row: false,
                    of_value: false,
                    is_definers: false,
                });
            }
            ["operator", name, function] => {
                let (schema, name) = qualified(name);
                listing.operators.push(Operator { schema, name, function: named(function) });
            }
            ["cast", target, context, function] => listing.casts.push(Cast {
                target: target.into(),
                context: match context {
                    "implicit" => CastContext::Implicit,
                    "assignment" => CastContext::Assignment,
                    _ => CastContext::Explicit,
                },
                function: named(function),
            }),
            ["support", function] => listing.support.push(named(function)),
            ["check"] => listing.checks.push(expression(code.unwrap())),
            _ => panic!("{line}"),
        }
    }
    listing
}

fn relation<'l>(listing: &'l mut Listing, name: &str) -> &'l mut Relation {
    let (schema, name) = qualified(name);
    let found = listing.relations.iter_mut().find(|relation| relation.schema == schema && relation.name == name);
    found.unwrap_or_else(|| panic!("no relation {name}"))
}

#[test]
fn a_new_snapshot_and_a_change_are_noticed() {
    let catalog = |line: &str| Catalog::new(listing(&[line.to_owned(), "table public.t".to_owned()]));
    let mut classifier = {
        let caps = Caps { parse: 1 << 20, entries: 100 };
        Classifier::new(ShapeKey::random(), Arc::new(built_in()), Arc::new(Misroutes::new(10)), caps)
    };
    let published = Arc::new(Published::new(|| {}));
    let scope = Scope::new(Arc::clone(&published), None, "ann", "ann");
    let mut ask = |text: &str| {
        let classified = classifier.classify_in(text.as_bytes(), StringRules::default(), &scope);
        said(&classified.known.facts, classified.missing)
    };
    let text = "select f() from t";
    assert_eq!(ask(text), "primary unknown-function · opaque");
    published.publish(catalog("function public.f stable sql := select 1"), published.changes());
    assert_eq!(ask(text), "replica");
    assert_eq!(ask("select 1 from u"), "primary unknown-relation · missing");
    assert!(published.is_missed());
    published.take_missed();
    assert_eq!(ask("select 2 from u"), "primary unknown-relation · missing");
    assert!(published.is_missed(), "asked again by whoever uses the name again");
    published.change();
    assert_eq!(ask(text), "primary unknown-function · opaque");
    // It was looked at before the change, so it says nothing about it.
    published.confirm(published.changes() - 1);
    assert_eq!(ask(text), "primary unknown-function · opaque");
    published.confirm(published.changes());
    assert_eq!(ask(text), "replica");
    // Nor while it is being changed: whoever changes it may say so to others before it tells us.
    let changing = published.changing();
    assert_eq!(ask(text), "primary unknown-function · opaque");
    published.confirm(published.changes());
    assert_eq!(ask(text), "primary unknown-function · opaque");
    drop(changing);
    assert_eq!(ask(text), "primary unknown-function · opaque");
    published.publish(catalog("function public.f volatile sql := select 1"), published.changes());
    assert_eq!(ask(text), "primary volatile-function · opaque");
}

/// Whatever leads back to itself ends, in time that grows with the number of names and not of the ways between them.
#[test]
fn circles_end() {
    let names: Vec<String> = (0..60).map(|n| format!("f{n}()")).collect();
    let all = names.join(" + ");
    let mut lines: Vec<String> = (0..60).map(|n| format!("function public.f{n} stable sql := select {all}")).collect();
    lines.push("function public.g stable plpgsql := begin return f0(); end".to_owned());
    lines.push("table public.t".to_owned());
    let world =
        |lines: Vec<String>| World { listing: Box::new(move || listing(&lines)), functions: Arc::new(built_in()) };
    assert_eq!(world(lines.clone()).judge("select g(), f59() from t"), "replica");
    lines[30] = "function public.f30 volatile sql := select 1".to_owned();
    assert_eq!(world(lines).judge("select g(), f59() from t"), "primary volatile-function · opaque");
}
