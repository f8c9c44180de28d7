//! R1: what is classified as a read runs on a real standby, and changes nothing where it could.

use std::{fmt::Write as _, sync::Arc};

use pgsluice::sql::{Caps, Classifier, Functions, Misroutes, ShapeKey, StringRules};

use crate::{
    Case,
    backend::Detail,
    cases,
    client::Client,
    world::{World, direct},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("standby", Nothing: what_is_classified_as_a_read_is_one))
}

/// What each text is classified as stands behind it.
const CLASSIFIED: [(&str, &str); 7] = [
    ("ddl", include_str!("../data/classify/ddl.txt")),
    ("functions", include_str!("../data/classify/functions.txt")),
    ("hints", include_str!("../data/classify/hints.txt")),
    ("lexing", include_str!("../data/classify/lexing.txt")),
    ("reads", include_str!("../data/classify/reads.txt")),
    ("session", include_str!("../data/classify/session.txt")),
    ("writes", include_str!("../data/classify/writes.txt")),
];

/// What rules are about; as what they are classified is asked.
const JUDGED: [(&str, &str); 5] = [
    ("filters", include_str!("../data/firewall/filters.txt")),
    ("inside", include_str!("../data/firewall/inside.txt")),
    ("marks", include_str!("../data/firewall/marks.txt")),
    ("objects", include_str!("../data/firewall/objects.txt")),
    ("orms", include_str!("../data/firewall/orms.txt")),
];

/// The reads of both, each with its file and with what `standard_conforming_strings` is to be.
fn reads() -> Vec<(&'static str, &'static str, &'static str)> {
    let functions = Arc::new(Functions::built_in().expect("the list that is compiled in"));
    let caps = Caps { parse: 1 << 20, entries: 1 };
    let mut classifier = Classifier::new(ShapeKey::random(), functions, Arc::new(Misroutes::new(1)), caps);
    let mut reads = Vec::new();
    for (file, text) in CLASSIFIED.into_iter().chain(JUDGED) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((sql, said)) = line.split_once("  ⇒  ") else { continue };
            let (rules, sql) = match sql.strip_prefix("[off] ") {
                Some(sql) => ("off", sql),
                None => ("on", sql),
            };
            let is_read = if CLASSIFIED.contains(&(file, text)) {
                said.ends_with("→ replica")
            } else {
                classifier.classify(sql.as_bytes(), StringRules::default()).known.facts.proven_read_only
            };
            reads.extend(is_read.then_some((file, rules, sql)));
        }
    }
    reads
}

/// The tables that the texts speak of.
const TABLES: &str = "drop schema if exists s cascade; drop table if exists t, u, a, b, users, app_author, app_book cascade; create schema s;
    create table t(id int primary key, a int, b int, v int, name text); create table u(like t); create table a(like t);
    create table b(like t); create table users(like t, password text, email text, age int, active bool, deleted_at timestamptz);
    create table app_author(like t, n int); create table app_book(like t, author_id int, year int);
    create table s.t(like public.t); insert into t values (1, 1, 1, 1, 'x'); insert into u select * from t;
    insert into a select * from t; insert into s.t select * from public.t";

/// What a server says of a statement that is in the wrong place, beside 25006: 0A000 of "during recovery", 55000 of a position or
/// a currval, 25001 and 25P01 of transaction control, XX000 of large objects.
const MISPLACED: [&str; 6] = ["25006", "0A000", "55000", "25001", "25P01", "XX000"];

fn what_is_classified_as_a_read_is_one(world: &World) {
    world.prepare(TABLES);
    let replica = &world.cluster().replicas()[0];
    let (mut standby, mut primary) = (direct(replica, "app"), direct(world.cluster().primary(), "app"));
    standby.query("set statement_timeout = '2s'");
    let (mut ran, mut failed, mut wrong) = (0, 0, String::new());
    for (file, rules, sql) in reads() {
        let sql = with_values(&sql.replace('␊', "\n").replace('␍', "\r"));
        standby.query(&format!("set standard_conforming_strings = {rules}"));
        let reply = standby.query(&sql);
        match reply.sqlstate().as_deref() {
            None => ran += 1,
            // 0A000 is also what a name of four parts gets.
            Some("0A000") if !reply.render(Detail::Full).contains("recovery") => failed += 1,
            Some(code) if MISPLACED.contains(&code) => {
                let _ = writeln!(wrong, "{file}: {code}: {sql}");
            }
            Some(_) => failed += 1,
        }
        for trace in left_behind(&mut standby, &mut primary, rules, &sql) {
            let _ = writeln!(wrong, "{file}: {trace}: {sql}");
        }
    }
    assert!(wrong.is_empty(), "classified as reads:\n{wrong}");
    assert!(ran > 250 && failed < ran / 4, "{ran} ran, {failed} failed: is it still about these tables?");
}

/// `null` in the place of parameters.
fn with_values(sql: &str) -> String {
    let mut parts = sql.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        text.push_str(if rest.len() < part.len() { "null" } else { "$" });
        text.push_str(rest);
    }
    text
}

/// What the statement has left on the standby, and what it would do on a server that lets it.
fn left_behind(standby: &mut Client, primary: &mut Client, rules: &str, sql: &str) -> Vec<&'static str> {
    let mut traces = Vec::new();
    if standby.value("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()") != "0" {
        traces.push("a lock stays on the standby");
        standby.query("select pg_advisory_unlock_all()");
    }
    primary.query("begin");
    primary.query(&format!("set local statement_timeout = '2s'; set local standard_conforming_strings = {rules}"));
    if primary.query(sql).sqlstate().is_none() && primary.query("select 1").status() == Some('T') {
        if primary.value("select pg_current_xact_id_if_assigned() is null") != "t" {
            traces.push("it writes");
        }
        let locks = "select count(*) from pg_locks where pid = pg_backend_pid() and mode not in ('AccessShareLock', 'ExclusiveLock')";
        // EXPLAIN locks as its statement would, which a standby allows; nothing is done under the lock.
        if primary.value(locks) != "0" && !sql.starts_with("explain") {
            traces.push("it locks");
        }
    }
    primary.query("rollback");
    traces
}
