//! Rules that can never match: their conditions contradict themselves, or a rule before them leaves them nothing.

use std::{collections::HashMap, mem::discriminant};

use crate::config::rules::{Glob, NameGlob, When};

/// Why a rule can never match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its own condition cannot hold.
    Contradiction(String),
    /// The rule of this index matches all that it does, and ends the section.
    Covered(usize),
}

/// Statements that have a WHERE.
const FILTERED: [&str; 4] = ["select", "update", "delete", "merge"];
/// Statements that have a LIMIT, and to which other marks of a query apply.
const QUERIES: [&str; 1] = ["select"];
/// Statements that move data.
const COPIES: [&str; 2] = ["copy_to", "copy_from"];

/// Conditions in order, with whether a match ends the section; what is returned are indexes of those that cannot match.
pub(super) fn unreachable(rules: &[(&When, bool)]) -> Vec<(usize, Why)> {
    let keys: Vec<u32> = rules.iter().map(|(when, _)| keys(when)).collect();
    let mut found = Vec::new();
    let mut wide = Wide::default();
    for (index, (when, ends)) in rules.iter().enumerate() {
        let own = keys.get(index).copied().unwrap_or_default();
        if let Some(why) = contradiction(when) {
            found.push((index, Why::Contradiction(why)));
            continue;
        }
        let covered = wide.perhaps(when).filter(|earlier| {
            let theirs = keys.get(*earlier).copied().unwrap_or(u32::MAX);
            theirs & !own == 0 && rules.get(*earlier).is_some_and(|(earlier, _)| covers(earlier, when))
        });
        match covered.min() {
            Some(earlier) => found.push((index, Why::Covered(earlier))),
            None if *ends => wide.insert(index, when),
            None => {}
        }
    }
    found
}

/// The rules that could leave a later one nothing. Those that name all their relations or functions, or their schemas, without a wildcard leave
/// nothing only to rules that name the same, so that ten thousand of them need not all be compared with each other.
#[derive(Default)]
struct Wide<'w> {
    by_name: HashMap<(usize, Named<'w>), Vec<usize>>,
    others: Vec<usize>,
}

/// What of a pattern is certain.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Named<'w> {
    Name(&'w str),
    Schema(&'w str),
}

impl<'w> Wide<'w> {
    fn insert(&mut self, index: usize, when: &'w When) {
        let certain = named(when).into_iter().enumerate().find_map(|(key, names)| {
            let names: Option<Vec<Named<'w>>> =
                names.as_ref()?.iter().map(|name| of_name(name).or(of_schema(name))).collect();
            names.map(|names| (key, names))
        });
        let Some((key, names)) = certain else { return self.others.push(index) };
        for name in names {
            self.by_name.entry((key, name)).or_default().push(index);
        }
    }

    /// Rules that may cover `when`: all that it names must be among what they name, so its first name is.
    fn perhaps<'a>(&'a self, when: &'a When) -> impl Iterator<Item = usize> + 'a {
        let first =
            named(when).into_iter().enumerate().filter_map(|(key, names)| Some((key, names.as_ref()?.first()?)));
        let certain = first.flat_map(|(key, name)| {
            [of_name(name), of_schema(name)].into_iter().flatten().map(move |name| (key, name))
        });
        certain.filter_map(|certain| self.by_name.get(&certain)).flatten().chain(&self.others).copied()
    }
}

fn named(when: &When) -> [&Option<Vec<NameGlob>>; 4] {
    [&when.tables, &when.reads, &when.writes, &when.functions]
}

fn of_name(name: &NameGlob) -> Option<Named<'_>> {
    match &name.name {
        Glob::Exact(name) => Some(Named::Name(name)),
        _ => None,
    }
}

fn of_schema(name: &NameGlob) -> Option<Named<'_>> {
    match &name.schema {
        Some(Glob::Exact(schema)) => Some(Named::Schema(schema)),
        _ => None,
    }
}

/// Which keys a condition has.
fn keys(when: &When) -> u32 {
    let given = [
        when.user.is_some(),
        when.database.is_some(),
        when.application.is_some(),
        when.client.is_some(),
        when.statement.is_some(),
        when.object.is_some(),
        when.kind.is_some(),
        when.reads.is_some(),
        when.writes.is_some(),
        when.tables.is_some(),
        when.functions.is_some(),
        when.parameters.is_some(),
        when.filter.is_some(),
        when.limit.is_some(),
        when.statements.is_some(),
        when.in_transaction.is_some(),
        when.prepared.is_some(),
        when.shape.is_some(),
        when.text.is_some(),
        when.tautology.is_some(),
        when.star.is_some(),
        when.cross_join.is_some(),
        when.union_catalog.is_some(),
        when.catalog.is_some(),
        when.security_definer.is_some(),
        when.copy.is_some(),
    ];
    given.iter().enumerate().fold(0, |keys, (bit, given)| keys | u32::from(*given) << bit)
}

fn contradiction(when: &When) -> Option<String> {
    let empty = [
        ("user", when.user.as_ref().map(Vec::len)),
        ("database", when.database.as_ref().map(Vec::len)),
        ("application", when.application.as_ref().map(Vec::len)),
        ("client", when.client.as_ref().map(Vec::len)),
        ("statement", when.statement.as_ref().map(Vec::len)),
        ("object", when.object.as_ref().map(Vec::len)),
        ("kind", when.kind.as_ref().map(Vec::len)),
        ("reads", when.reads.as_ref().map(Vec::len)),
        ("writes", when.writes.as_ref().map(Vec::len)),
        ("tables", when.tables.as_ref().map(Vec::len)),
        ("functions", when.functions.as_ref().map(Vec::len)),
        ("parameters", when.parameters.as_ref().map(Vec::len)),
        ("shape", when.shape.as_ref().map(Vec::len)),
        ("copy", when.copy.as_ref().map(Vec::len)),
    ];
    if let Some((key, _)) = empty.iter().find(|(_, length)| *length == Some(0)) {
        return Some(format!("`{key}` allows nothing"));
    }
    let none_of =
        |words: &[&str]| when.statement.as_ref().is_some_and(|wanted| !wanted.iter().any(|word| words.contains(word)));
    if when.filter.is_some() && none_of(&FILTERED) {
        return Some("none of these statements has a WHERE".to_owned());
    }
    if when.limit.is_some() && none_of(&QUERIES) {
        return Some("none of these statements has a LIMIT".to_owned());
    }
    if when.copy.is_some() && none_of(&COPIES) {
        return Some("none of these statements is a COPY".to_owned());
    }
    None
}

/// Does `wide` hold wherever `narrow` does? In doubt, no.
fn covers(wide: &When, narrow: &When) -> bool {
    globs(&wide.user, &narrow.user)
        && globs(&wide.database, &narrow.database)
        && globs(&wide.application, &narrow.application)
        && list(&wide.client, &narrow.client, |a, b| a == b)
        && list(&wide.statement, &narrow.statement, |a, b| a == b)
        && globs(&wide.object, &narrow.object)
        && list(&wide.kind, &narrow.kind, |a, b| a == b)
        && names(&wide.reads, &narrow.reads)
        && names(&wide.writes, &narrow.writes)
        && names(&wide.tables, &narrow.tables)
        && names(&wide.functions, &narrow.functions)
        && globs(&wide.parameters, &narrow.parameters)
        && same(wide.filter, narrow.filter)
        && same(wide.limit, narrow.limit)
        && same(wide.statements, narrow.statements)
        && same(wide.in_transaction, narrow.in_transaction)
        && same(wide.prepared, narrow.prepared)
        && list(&wide.shape, &narrow.shape, |a, b| a == b)
        && same(wide.text.as_ref().map(regex::Regex::as_str), narrow.text.as_ref().map(regex::Regex::as_str))
        && same(wide.tautology, narrow.tautology)
        && same(wide.star, narrow.star)
        && same(wide.cross_join, narrow.cross_join)
        && same(wide.union_catalog, narrow.union_catalog)
        && same(wide.catalog, narrow.catalog)
        && same(wide.security_definer, narrow.security_definer)
        && list(&wide.copy, &narrow.copy, |a, b| a == b)
}

fn same<T: PartialEq>(wide: Option<T>, narrow: Option<T>) -> bool {
    wide.is_none() || wide == narrow
}

/// A list means any of: all that the narrow one allows must be allowed.
fn list<T>(wide: &Option<Vec<T>>, narrow: &Option<Vec<T>>, includes: impl Fn(&T, &T) -> bool) -> bool {
    match (wide, narrow) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wide), Some(narrow)) => narrow.iter().all(|b| wide.iter().any(|a| includes(a, b))),
    }
}

fn globs(wide: &Option<Vec<Glob>>, narrow: &Option<Vec<Glob>>) -> bool {
    list(wide, narrow, includes)
}

fn names(wide: &Option<Vec<NameGlob>>, narrow: &Option<Vec<NameGlob>>) -> bool {
    list(wide, narrow, |a, b| {
        let schema = match (&a.schema, &b.schema) {
            (None, _) => true,
            (Some(a), Some(b)) => includes(a, b),
            (Some(_), None) => false,
        };
        schema && includes(&a.name, &b.name)
    })
}

fn includes(wide: &Glob, narrow: &Glob) -> bool {
    match (wide, narrow) {
        (Glob::Any, _) => true,
        (wide, Glob::Exact(name)) => wide.matches(name),
        (wide, narrow) => discriminant(wide) == discriminant(narrow) && wide == narrow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(statement: &[&'static str], user: Option<&str>) -> When {
        When {
            statement: (!statement.is_empty()).then(|| statement.to_vec()),
            user: user.map(|user| vec![Glob::new(user).expect("a glob")]),
            ..When::default()
        }
    }

    #[test]
    fn a_wider_rule_before_it_leaves_nothing() {
        for (wide, narrow, leaves_nothing) in [
            (when(&[], None), when(&["select"], None), true),
            (when(&["select", "insert"], None), when(&["select"], Some("app")), true),
            (when(&["select"], None), when(&["select", "insert"], None), false),
            (when(&["select"], None), when(&[], None), false),
            (when(&[], Some("a*")), when(&[], Some("app")), true),
            (when(&[], Some("app")), when(&[], Some("a*")), false),
            (when(&[], Some("a*")), when(&[], Some("a*")), true),
        ] {
            let found = unreachable(&[(&wide, true), (&narrow, true)]);
            assert_eq!(found, if leaves_nothing { vec![(1, Why::Covered(0))] } else { vec![] }, "{wide:?} {narrow:?}");
            assert_eq!(unreachable(&[(&wide, false), (&narrow, true)]), []);
        }
    }

    #[test]
    fn a_condition_may_contradict_itself() {
        let filter = Some(crate::config::rules::Presence::Missing);
        assert!(contradiction(&When { filter, ..when(&["insert"], None) }).is_some());
        assert!(contradiction(&When { filter, ..when(&["insert", "delete"], None) }).is_none());
        assert!(contradiction(&When { statement: Some(vec![]), ..When::default() }).is_some());
    }
}
