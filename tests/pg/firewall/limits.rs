//! Rules that limit what a statement gives: the same at every door, and the end is like any error of a server.

use super::{message, rules};
use crate::{
    Case, cases,
    client::{Client, Reply},
    frontend::{self, Values},
    lifecycle::http,
    world::{Setup, World},
};

pub fn cases() -> Vec<Case> {
    cases!("firewall::limits", Pgsluice:
        a_result_ends_at_its_limit, what_is_prepared_anew_has_its_limit, pieces_count_together, what_is_within_passes, nothing_is_left_of_a_group_that_was_cut,
        a_statement_that_was_carried_out_is_told_so, a_server_does_not_go_on, a_limit_may_only_watch,
        a_limit_hides_no_denial, names_that_failed_hide_nothing, a_cursor_has_the_rules_of_its_query)
    .into()
}

const TABLES: &str = "drop table if exists big, log; create table big(id int, v text); create table log(id int); \
    insert into big select i, repeat('x', 100) from generate_series(1, 1000) i";

/// Ten rows of `big`, or two KiB of what else is called large.
const RULES: &str = "
firewall:
  - { name: few, when: { tables: [big] }, limit: { rows: 10 } }
  - { name: short, when: { functions: [repeat] }, limit: { bytes: 2KiB } }
";

fn proxy(world: &World, name: &str, text: &str) -> std::rc::Rc<crate::world::Proxy> {
    world.prepare(TABLES);
    world.proxy(&Setup::default().size(1).top(&rules(world, name, text)))
}

/// Rows, or lines of a COPY.
fn rows(reply: &Reply) -> usize {
    reply.0.iter().filter(|m| matches!(m.tag, b'D' | b'd')).count()
}

fn cut(reply: &Reply, rule: &str, most: usize, status: char, what: &str) {
    assert_eq!(reply.sqlstate().as_deref(), Some("42501"), "{what}: {}", reply.letters());
    assert!(message(reply, b'D').contains(&format!("\"{rule}\"")), "{what}: {}", message(reply, b'D'));
    assert_eq!((rows(reply), reply.status()), (most, Some(status)), "{what}: {}", reply.letters());
    let errors = reply.0.iter().filter(|m| m.tag == b'E').count();
    let behind = reply.0.iter().rev().take_while(|m| m.tag != b'E').count();
    assert_eq!((errors, behind), (1, 1), "{what}: {}", reply.letters());
}

fn run(sql: &str) -> Vec<u8> {
    [frontend::parse("", sql, &[]), frontend::bind("", "", &Values::text(&[])), frontend::execute("", 0)].concat()
}

fn a_result_ends_at_its_limit(world: &World) {
    let proxy = proxy(world, "limit", RULES);
    let mut client = proxy.login();
    let all = "select id from big";
    client.ask(&[frontend::parse("named", all, &[]), frontend::sync()].concat());
    client.query("set application_name = 'x'");
    let mut cuts = 0;
    let plan = format!("explain (costs off) select 1 from big{}", " union all select 1 from big".repeat(12));
    for sql in [
        all,
        &plan,
        "select 1; select id from big",
        "select id from big; select 1",
        "with b as (select id from big) select b.id from b, b c",
        "copy big to stdout",
        "copy (select id from big) to stdout",
        "copy (select id from big) to stdout (format binary)",
        "table big",
        "execute named",
        "begin; select id from big",
        "select id from big; copy log from stdin",
    ] {
        let first = if sql.starts_with("select 1") { 1 } else { 0 };
        let status = if sql.starts_with("begin") { 'E' } else { 'I' };
        cut(&client.query(sql), "few", 10 + first, status, sql);
        client.query("rollback");
        cuts += 1;
        if !sql.contains(';') {
            cut(&client.ask(&[run(sql), frontend::sync()].concat()), "few", 10, 'I', sql);
            client.query("begin");
            cut(&client.query(sql), "few", 10, 'E', sql);
            assert_eq!(client.query("select 1").letters(), "E(25P02) Z(E)", "{sql}");
            assert_eq!(client.query("commit").letters(), "C(ROLLBACK) Z(I)", "{sql}");
            client.query("begin; select 1");
            cut(&client.ask(&[run(sql), frontend::sync()].concat()), "few", 10, 'E', sql);
            assert_eq!(client.query("rollback").letters(), "C(ROLLBACK) Z(I)", "{sql}");
            cuts += 3;
        }
        assert_eq!(client.value("select 1"), "1", "{sql}");
        // The one connection there is serves anybody.
        assert_eq!(proxy.login().value("select 2"), "2", "{sql}");
    }
    cut(&client.query("select repeat('x', 1000) from generate_series(1, 5)"), "short", 2, 'I', "bytes");
    cut(&client.query("select repeat('x', 3000000)"), "short", 0, 'I', "a long row");
    assert_eq!(client.value("select 1"), "1");
    let (_, metrics) = http(proxy.admin, "/metrics");
    assert!(metrics.contains(&format!("pgsluice_firewall_total{{rule=\"few\",verdict=\"deny\"}} {cuts}")), "{metrics}");
    assert!(proxy.log().contains("a rule of the firewall matched"));
}

/// However a name came to stand for something else, also by what does not count what it gives.
fn what_is_prepared_anew_has_its_limit(world: &World) {
    let proxy = proxy(world, "anew", RULES);
    for anew in [
        "deallocate p; prepare p as select id from big",
        "deallocate all; prepare p as select id from big",
        "prepare q as select 1; deallocate p; prepare p as select id from big; deallocate q",
    ] {
        for by_sql in [true, false] {
            let mut client = proxy.login();
            if by_sql {
                client.query("prepare p as select 1");
            } else {
                client.ask(&[frontend::parse("p", "select 1", &[]), frontend::sync()].concat());
                assert_eq!(client.value("execute p"), "1", "{anew}");
            }
            assert_eq!(client.query(anew).sqlstate(), None, "{anew}");
            cut(&client.query("execute p"), "few", 10, 'I', anew);
            cut(&client.ask(&[run("execute p"), frontend::sync()].concat()), "few", 10, 'I', anew);
            let bound =
                [frontend::bind("", "p", &Values::text(&[])), frontend::execute("", 0), frontend::sync()].concat();
            let reply = client.ask(&bound);
            assert_eq!((rows(&reply), reply.sqlstate().as_deref()), (0, Some("0A000")), "{anew}");
            client.query("deallocate all");
        }
    }
    let mut client = proxy.login();
    let in_one =
        [run("prepare p as select id from big"), frontend::bind("", "p", &Values::text(&[])), frontend::execute("", 0)];
    assert_eq!(rows(&client.ask(&[in_one.concat(), frontend::sync()].concat())), 0);
}

fn what_is_within_passes(world: &World) {
    let proxy = proxy(world, "within", RULES);
    let mut client = proxy.login();
    for sql in [
        "select id from big limit 10",
        "select id from big limit 10; select id from big limit 10",
        "copy (select id from big limit 10) to stdout",
        "copy (select id from big limit 10) to stdout (format binary)",
        "select count(*) from big",
        "insert into log select id from big",
        "create temp table copied as select id from big",
        "select generate_series(1, 1000)",
        "select repeat('x', 900) from generate_series(1, 2)",
    ] {
        let reply = client.query(sql);
        assert_eq!((reply.sqlstate(), reply.status()), (None, Some('I')), "{sql}");
    }
    assert_eq!(client.query("select * from big where id <= 10").rows().len(), 10);
    assert_eq!(client.extended("select * from big where id <= 10", &[]).rows().len(), 10);
}

fn pieces_count_together(world: &World) {
    let proxy = proxy(world, "pieces", RULES);
    let mut client = proxy.login();
    let bind = |portal: &str| {
        [frontend::parse("", "select id from big", &[]), frontend::bind(portal, "", &Values::text(&[]))].concat()
    };
    for portal in ["", "p"] {
        let four = frontend::execute(portal, 4);
        let batch = [bind(portal), four.clone(), four.clone(), four.clone(), frontend::sync()].concat();
        cut(&client.ask(&batch), "few", 10, 'I', "one batch");
        client.query("begin");
        assert_eq!(rows(&client.ask(&[bind("p"), frontend::execute("p", 4), frontend::sync()].concat())), 4);
        assert_eq!(rows(&client.ask(&[frontend::execute("p", 4), frontend::sync()].concat())), 4);
        cut(&client.ask(&[frontend::execute("p", 4), frontend::sync()].concat()), "few", 2, 'E', "over several");
        client.query("rollback");
    }
    let flushed = [bind("p"), frontend::execute("p", 4), frontend::flush()].concat();
    client.send(&flushed).expect("send");
    let (reply, _) = client.recv_until(b's', 1);
    assert_eq!(rows(&reply), 4);
    client.send(&[frontend::execute("p", 0), frontend::flush()].concat()).expect("send");
    let (reply, _) = client.recv_until(b'E', 1);
    assert_eq!((rows(&reply), reply.sqlstate().as_deref()), (6, Some("42501")));
    assert_eq!(client.ask(&frontend::sync()).letters(), "Z(I)");
    // A portal that SQL fetches from, and a cursor of SQL that the protocol runs.
    client.query("begin");
    assert_eq!(rows(&client.ask(&[bind("q"), frontend::execute("q", 4), frontend::sync()].concat())), 4);
    cut(&client.query("fetch all from q"), "few", 6, 'E', "a portal");
    client.query("rollback; begin; declare c cursor for select id from big");
    assert_eq!(rows(&client.query("fetch 4 from c")), 4);
    assert_eq!(rows(&client.ask(&[run("fetch 4 from c"), frontend::sync()].concat())), 4);
    cut(&client.ask(&[frontend::execute("c", 0), frontend::sync()].concat()), "few", 2, 'E', "a cursor");
    client.query("rollback; begin; declare c cursor for select id from big");
    cut(&client.query("fetch 6 from c; fetch 6 from c"), "few", 10, 'E', "one text");
    client.query("rollback; begin; declare h cursor with hold for select id from big; commit");
    assert_eq!(rows(&client.query("fetch 7 from h")), 7);
    cut(&client.query("fetch 7 from h"), "few", 3, 'I', "with hold");
    client.query("close h");
    assert_eq!(client.value("select 1"), "1");
}

fn nothing_is_left_of_a_group_that_was_cut(world: &World) {
    let proxy = proxy(world, "group", RULES);
    let mut client = proxy.login();
    let insert = "insert into log select 1";
    let batch = [run(insert), run("select id from big"), run(insert), frontend::sync()].concat();
    cut(&client.ask(&batch), "few", 10, 'I', "a group");
    assert_eq!(world.superuser("select count(*) from log"), "0");
    let batch =
        [run("insert into big select i from generate_series(1, 100) i returning id"), frontend::sync()].concat();
    cut(&client.ask(&batch), "few", 10, 'I', "a write");
    assert_eq!(world.superuser("select count(*) from big"), "1000");
    client.query("begin");
    client.query(insert);
    cut(&client.query("update big set v = '' returning id"), "few", 10, 'E', "a write in a transaction");
    client.query("commit");
    assert_eq!(world.superuser("select count(*) from log"), "0");
    assert_eq!(world.superuser("select count(*) from big where v = ''"), "0");
}

/// Outside of a transaction a Query may be committed before anybody can stop it.
fn a_statement_that_was_carried_out_is_told_so(world: &World) {
    let proxy = proxy(world, "done", RULES);
    let mut client = proxy.login();
    for _ in 0..5 {
        let before = world.superuser("select count(*) from big");
        let reply = client.query("insert into big select i from generate_series(1, 20) i returning id");
        cut(&reply, "few", 10, 'I', "a write");
        let done = before != world.superuser("select count(*) from big");
        assert_eq!(message(&reply, b'D').contains("was carried out"), done);
    }
    assert!(!message(&client.query("select id from big"), b'D').contains("carried out"));
}

fn a_server_does_not_go_on(world: &World) {
    let proxy = proxy(world, "endless", RULES);
    let mut client = proxy.login();
    let endless = "select a.id from big a, big b, big c, big d";
    cut(&client.query(endless), "few", 10, 'I', "simple");
    cut(&client.ask(&[run(endless), frontend::sync()].concat()), "few", 10, 'I', "extended");
    let copy = format!("copy ({endless}) to stdout");
    cut(&client.query(&copy), "few", 10, 'I', "copy");
    assert_eq!(client.value("select 1"), "1");
    assert_eq!(world.superuser("select count(*) from pg_stat_activity where state = 'active' and query like '%big c, big d%' and pid <> pg_backend_pid()"), "0");
}

fn a_limit_may_only_watch(world: &World) {
    let text = "
firewall:
  - { name: watched, when: { tables: [big] }, limit: { rows: 10 }, mode: detect }
  - { name: tried, when: { tables: [big] }, limit: { rows: 10 }, dry_run: true }
";
    let proxy = proxy(world, "watch-limit", text);
    let mut client = proxy.login();
    assert_eq!(client.query("select id from big").rows().len(), 1000);
    assert_eq!(client.extended("select id from big", &[]).rows().len(), 1000);
    assert_eq!(client.query("select id from big limit 10").rows().len(), 10);
    let (_, metrics) = http(proxy.admin, "/metrics");
    for line in [
        "pgsluice_firewall_total{rule=\"watched\",verdict=\"detect\"} 2",
        "pgsluice_firewall_total{rule=\"watched\",verdict=\"allow\"} 3",
        "pgsluice_firewall_total{rule=\"tried\",verdict=\"dry_run\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

fn a_limit_hides_no_denial(world: &World) {
    let text = "
firewall:
  - { name: few, when: { tables: [big] }, limit: { rows: 10 } }
  - { name: no-delete, when: { statement: delete }, deny: {} }
";
    let proxy = proxy(world, "hides", text);
    let mut client = proxy.login();
    for sql in
        ["select 1 from big limit 1; delete from log", "with d as (delete from log returning id) select * from big, d"]
    {
        for reply in [client.query(sql), client.extended(sql, &[])] {
            assert!(message(&reply, b'D').contains("no-delete"), "{sql}: {}", reply.letters());
        }
    }
    // The first rule that matches decides.
    assert_eq!(client.query("delete from big where id = 1").sqlstate(), None);
}

/// A name that a failed statement would have given to something harmless still stands for what it stood for.
fn names_that_failed_hide_nothing(world: &World) {
    let proxy = proxy(world, "failed", RULES);
    let all = "select id from big";
    let again = |client: &mut Client, failing: &[u8]| {
        client.query("savepoint s");
        assert_eq!(client.ask(failing).status(), Some('E'));
        client.query("rollback to s");
    };
    let mut client = proxy.login();
    client.query(&format!("prepare p as {all}"));
    assert_eq!(client.query("prepare p as select 1").sqlstate().as_deref(), Some("42P05"));
    cut(&client.query("execute p"), "few", 10, 'I', "prepared twice");
    client.query("deallocate p");
    client.query("prepare p as select 1");
    assert_eq!(client.query("execute p").rows().len(), 1);
    client.query("deallocate p");
    client.query(&format!("begin; declare c cursor for {all}"));
    again(&mut client, &frontend::query("declare c cursor for select 1"));
    cut(&client.query("fetch all from c"), "few", 10, 'E', "declared twice");
    client.query("rollback");
    client.query(&format!("begin; declare c cursor for {all}"));
    client.query("explain declare c cursor for select 1");
    let bind = |sql: &str| {
        [frontend::parse("", sql, &[]), frontend::bind("c", "", &Values::text(&[])), frontend::sync()].concat()
    };
    again(&mut client, &bind("select 1"));
    cut(&client.ask(&[frontend::execute("c", 0), frontend::sync()].concat()), "few", 10, 'E', "bound over a cursor");
    client.query("rollback");
    client.query("begin");
    client.ask(&bind(all));
    again(&mut client, &bind("select 1"));
    cut(&client.ask(&[frontend::execute("c", 0), frontend::sync()].concat()), "few", 10, 'E', "bound twice");
    client.query("rollback");
    assert_eq!(client.value("select 1"), "1");
}

fn a_cursor_has_the_rules_of_its_query(world: &World) {
    let text = "
firewall:
  - { name: watched, when: { tables: [big] }, deny: {}, mode: detect }
routing:
  - { name: slow, when: { tables: [big] }, timeout: 300ms }
";
    let proxy = proxy(world, "cursor", text);
    let mut client = proxy.login();
    let late = "declare c cursor for select pg_sleep(20) from big";
    for fetch in [
        frontend::query("fetch 1 from c"),
        [run("fetch 1 from c"), frontend::sync()].concat(),
        [frontend::execute("c", 1), frontend::sync()].concat(),
    ] {
        client.query(&format!("begin; {late}"));
        let reply = client.ask(&fetch);
        assert_eq!((reply.sqlstate().as_deref(), reply.status()), (Some("57014"), Some('E')));
        client.query("rollback");
    }
    let (_, metrics) = http(proxy.admin, "/metrics");
    assert!(metrics.contains("pgsluice_firewall_total{rule=\"watched\",verdict=\"detect\"} 6"), "{metrics}");
}
