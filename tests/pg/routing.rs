//! What goes where: by what pgsluice says of itself, and by what the servers have logged.

use std::collections::BTreeSet;

use crate::{
    Case, cases,
    frontend::{self, Values},
    world::{Setup, World},
};

pub fn cases() -> Vec<Case> {
    let mut all = Vec::from(cases!("routing", Pgsluice:
        the_servers_agree, both_replicas_take_reads, reasons_are_said, own_writes_are_read,
        a_stale_replica_is_not_read_after_a_write, a_named_statement_works_on_every_node, an_unmatched_statement_forgets_the_one_before,
        a_serializable_role_teaches_nothing_about_statements, a_primary_alone_takes_all, hints_are_obeyed_only_where_they_stand));
    all.extend(cases!("routing", Global: writes_are_seen_at_once_everywhere_in_global_mode));
    all.extend(cases!("routing", Cache: the_cache_forgets_what_was_written, cached_answers_keep_their_shape));
    all
}

fn table(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 5) i");
}

/// Each statement carries a mark; the mark must stand in the log of the node that SHOW pgsluice.route names, and in no other.
fn the_servers_agree(world: &World) {
    table(world);
    let mut client = world.proxy(&Setup::default().size(3)).login();
    let statements = [
        "select count(*) from t",
        "insert into t values (100, 'x')",
        "select * from t where id = 1 for update",
        "select nextval('pg_catalog.nosuch'::text::regclass)",
        "update t set v = 'y'",
        "delete from t where id = 100",
        "explain select * from t",
    ];
    for (i, sql) in statements.iter().enumerate() {
        let mark = format!("/* mark {i} {} */", std::process::id());
        client.query(&format!("{sql} {mark}"));
        let route = client.route();
        let logged: Vec<&str> =
            world.cluster().nodes().iter().filter(|n| n.log().contains(&mark)).map(|n| n.name()).collect();
        assert_eq!(logged, [route.node.as_str()], "{sql}");
    }
}

fn both_replicas_take_reads(world: &World) {
    table(world);
    let proxy = world.proxy(&Setup::default().size(3).routing("balance: round_robin"));
    let mut seen = BTreeSet::new();
    for _ in 0..10 {
        let mut client = proxy.login();
        for _ in 0..4 {
            client.query("select count(*) from t");
            seen.insert(client.route().node);
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["replica1", "replica2"]);
}

fn reasons_are_said(world: &World) {
    table(world);
    let proxy = world.proxy(&Setup::default().size(3));
    for (sql, role, reason) in [
        ("select count(*) from t", "replica", "proven-read"),
        ("insert into t values (200, 'x')", "primary", "writes"),
        ("select * from t for share", "primary", "locks-rows"),
        ("select nosuch_function(1)", "primary", "unknown-function"),
        ("select * from nosuch_table", "primary", "unknown-relation"),
        ("select pg_current_wal_lsn()", "primary", "node-local"),
        ("selec 1", "primary", "unparsable"),
    ] {
        // A session that has written may have to read on the primary for another reason.
        let mut client = proxy.login();
        client.query(sql);
        let route = client.route();
        assert_eq!((route.role.as_str(), route.reason.as_str()), (role, reason), "{sql}");
    }
}

/// C1 in small: a session never misses its own write.
fn own_writes_are_read(world: &World) {
    table(world);
    let mut client = world.proxy(&Setup::default().size(3)).login();
    for i in 0..200 {
        client.query(&format!("update t set v = '{i}' where id = 1"));
        assert_eq!(client.value("select v from t where id = 1"), i.to_string());
        client.extended("update t set v = $1 where id = 2", &[&i.to_string()]);
        assert_eq!(client.extended("select v from t where id = 2", &[]).value(), i.to_string());
    }
}

/// C5: another session, another client, the newest row.
fn writes_are_seen_at_once_everywhere_in_global_mode(world: &World) {
    table(world);
    let proxy = world.proxy(&Setup::default().size(3).routing("consistency: global"));
    let (mut writer, mut reader) = (proxy.login(), proxy.login());
    for i in 0..100 {
        writer.query(&format!("update t set v = '{i}' where id = 1"));
        assert_eq!(reader.value("select v from t where id = 1"), i.to_string());
    }
}

fn a_stale_replica_is_not_read_after_a_write(world: &World) {
    table(world);
    let proxy = world.proxy(&Setup::default().size(3));
    let mut client = proxy.login();
    for replica in world.cluster().replicas() {
        replica.pause_replay().expect("pause");
    }
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        client.query("update t set v = 'new' where id = 1");
        assert_eq!(client.value("select v from t where id = 1"), "new");
        assert_eq!(client.route().role, "primary");
        let mut other = proxy.login();
        assert_eq!(
            other.value("select v from t where id = 1"),
            "v1",
            "a session without writes reads what the replica has"
        );
    }));
    for replica in world.cluster().replicas() {
        replica.resume_replay().expect("resume");
    }
    verdict.unwrap_or_else(|what| std::panic::resume_unwind(what));
    crate::world::eventually("reads to return to a replica", || {
        assert_eq!(client.value("select v from t where id = 1"), "new");
        client.route().role == "replica"
    });
}

/// R5: made once, executed wherever the pool leads.
fn a_named_statement_works_on_every_node(world: &World) {
    table(world);
    let proxy = world.proxy(&Setup::default().size(2).routing("balance: round_robin"));
    let mut client = proxy.login();
    client.ask(&[frontend::parse("r", "select id from t where id = $1", &[]), frontend::sync()].concat());
    client.ask(&[frontend::parse("w", "update t set v = $1 where id = 1", &[]), frontend::sync()].concat());
    let run = |name: &str, value: &str| {
        [frontend::bind("", name, &Values::text(&[value])), frontend::execute("", 0), frontend::sync()].concat()
    };
    let mut seen = BTreeSet::new();
    for i in 0..30 {
        assert_eq!(client.ask(&run("r", "3")).letters(), "2 D C(SELECT 1) Z(I)");
        seen.insert(client.route().node);
        if i % 3 == 0 {
            assert_eq!(client.ask(&run("w", "z")).letters(), "2 C(UPDATE 1) Z(I)");
            seen.insert(client.route().node);
            world.settle();
        }
    }
    assert!(seen.len() >= 2, "{seen:?}");
}

/// B008: what was decided for one statement says nothing about the next.
fn an_unmatched_statement_forgets_the_one_before(world: &World) {
    table(world);
    let mut client = world.proxy(&Setup::default().size(3)).login();
    for i in 0..20 {
        client.extended("select 1 from t where id = $1", &["1"]);
        let reply = client.extended("insert into t values ($1, 'x')", &[&(1000 + i).to_string()]);
        assert_eq!(reply.letters(), "1 2 n C(INSERT 0 1) Z(I)");
        assert_eq!(client.route().role, "primary");
    }
}

/// B285: a role whose default isolation no standby takes is served by the primary; its statements are still reads for others.
fn a_serializable_role_teaches_nothing_about_statements(world: &World) {
    table(world);
    world.superuser("alter role bob set default_transaction_isolation = 'serializable'");
    world.superuser("grant select on t to bob");
    world.settle();
    let proxy = world.start_proxy(&Setup::default().size(3), world.cluster());
    let mut bob = proxy.login_as(&crate::client::Login::default().user("bob"));
    let sql = "select count(*) from t where id = 3";
    let reasons: Vec<String> = (0..3)
        .map(|_| {
            assert_eq!(bob.value(sql), "1");
            bob.route().reason
        })
        .collect();
    world.superuser("alter role bob reset default_transaction_isolation");
    assert_eq!(reasons, ["retried", "serializable", "serializable"]);
    let mut app = proxy.login();
    app.query(sql);
    assert_eq!(app.route().role, "replica");
}

fn a_primary_alone_takes_all(world: &World) {
    table(world);
    let mut client = world.proxy(&Setup::default().primary_only()).login();
    for sql in ["select count(*) from t", "insert into t values (300, 'x')", "show timezone"] {
        assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
        assert_eq!(client.route().role, "primary", "{sql}");
    }
}

/// D44, D47, D48: by default nothing is cached; and what a rule lets in must fall with the write.
fn the_cache_forgets_what_was_written(world: &World) {
    table(world);
    let proxy = world.proxy(&Setup::default().size(3).cached());
    let (mut a, mut b) = (proxy.login(), proxy.login());
    for i in 0..50 {
        assert_eq!(a.value("select count(*) from t"), (5 + i).to_string());
        b.extended("insert into t values ($1, 'x')", &[&(100 + i).to_string()]);
        world.settle();
    }
    assert_eq!(a.query("select * from not_there_yet").sqlstate().as_deref(), Some("42P01"));
    b.query("create table not_there_yet()");
    world.settle();
    assert_eq!(a.query("select * from not_there_yet").sqlstate(), None);
    b.query("drop table not_there_yet");
    assert_ne!(a.value("select random()"), a.value("select random()"));
}

/// D36: the same text by other messages and other formats.
fn cached_answers_keep_their_shape(world: &World) {
    table(world);
    let mut client = world.proxy(&Setup::default().size(3).cached()).login();
    let sql = "select id from t where id = 1";
    let binary = Values { results: vec![1], ..Values::default() };
    for _ in 0..3 {
        assert_eq!(client.query(sql).letters(), "T D C(SELECT 1) Z(I)");
        assert_eq!(client.extended(sql, &[]).letters(), "1 2 T D C(SELECT 1) Z(I)");
        let bare = [
            frontend::parse("", sql, &[]),
            frontend::bind("", "", &Values::default()),
            frontend::execute("", 0),
            frontend::sync(),
        ];
        assert_eq!(client.ask(&bare.concat()).letters(), "1 2 D C(SELECT 1) Z(I)");
        let reply = client.ask(&frontend::extended(sql, &binary));
        assert_eq!(reply.value(), "\\x00\\x00\\x00\\x01");
    }
}

fn hints_are_obeyed_only_where_they_stand(world: &World) {
    table(world);
    let mut client = world.proxy(&Setup::default().size(3)).login();
    for (sql, role) in [
        ("/* pgsluice: primary */ select 1 from t where id = 1", "primary"),
        ("/* route:writer */ select 1 from t where id = 1", "primary"),
        ("select '/* pgsluice: primary */' from t where id = 1", "replica"),
        ("select $$/* pgsluice: primary */$$ from t where id = 1", "replica"),
        ("/* pgsluice: replica */ insert into t values (400, 'x')", "primary"),
    ] {
        assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
        assert_eq!(client.route().role, role, "{sql}");
    }
}
