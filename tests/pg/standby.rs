//! R1: what is classified as a read runs on a real standby, and changes nothing where it could.

use std::fmt::Write as _;

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

const FILES: [(&str, &str); 7] = [
    ("ddl", include_str!("../data/classify/ddl.txt")),
    ("functions", include_str!("../data/classify/functions.txt")),
    ("hints", include_str!("../data/classify/hints.txt")),
    ("lexing", include_str!("../data/classify/lexing.txt")),
    ("reads", include_str!("../data/classify/reads.txt")),
    ("session", include_str!("../data/classify/session.txt")),
    ("writes", include_str!("../data/classify/writes.txt")),
];

/// The tables that the texts speak of.
const TABLES: &str = "drop schema if exists s cascade; drop table if exists t, u, a cascade; create schema s;
    create table t(id int primary key, a int, b int, v int, name text); create table u(like t); create table a(like t);
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
    for (file, text) in FILES {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((sql, judged)) = line.split_once("  ⇒  ") else { continue };
            if !judged.ends_with("→ replica") {
                continue;
            }
            let (rules, sql) = match sql.strip_prefix("[off] ") {
                Some(sql) => ("off", sql),
                None => ("on", sql),
            };
            let sql = sql.replace('␊', "\n").replace('␍', "\r").replace("$1", "null").replace("$2", "null");
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
    }
    assert!(wrong.is_empty(), "classified as reads:\n{wrong}");
    assert!(ran > 100 && failed < ran / 10, "{ran} ran, {failed} failed: is it still about these tables?");
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
