//! Every way to write: afterwards the session must not read what it was before, however far the replicas lag.

use crate::{
    Case, cases,
    client::Client,
    frontend::{self, Values},
    world::{Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("fresh", Pgsluice:
        every_way_to_write_is_noticed, a_write_whose_outcome_is_unknown_counts, an_unflushed_commit_is_waited_for))
}

const TABLE: &str = "drop table if exists w cascade; create table w(n int);
    create or replace function w_insert() returns int language sql as 'insert into w values (1) returning 1';
    create or replace function w_hidden() returns int stable language plpgsql as 'begin return w_insert(); end';
    create or replace procedure w_call() language plpgsql as 'begin insert into w values (1); end';
    create or replace procedure w_fails() language plpgsql as
        $$begin insert into w values (1); commit; raise exception 'after the commit'; end$$";

/// Statements of one session, one after the other; `ext:` by the extended protocol.
const WRITES: &[&[&str]] = &[
    &["insert into w values (1)"],
    &["ext: insert into w values (1)"],
    &["begin", "insert into w values (1)", "savepoint a", "delete from w", "rollback to a", "commit"],
    &["begin; insert into w values (1); commit; select 1/0"],
    &["begin", "insert into w values (1)", "commit and chain", "rollback"],
    &["prepare i as insert into w values (1)", "execute i", "deallocate i"],
    &["ext: prepare i as insert into w values (1)", "ext: execute i", "deallocate all"],
    &["prepare i as insert into w values (1)", "explain analyze execute i", "deallocate i"],
    &["explain analyze insert into w values (1)"],
    &["do $$begin insert into w values (1); end$$"],
    &["do $$begin insert into w values (1); commit; raise exception 'x'; end$$"],
    &["call w_call()"],
    &["call w_fails()"],
    &["ext: call w_fails()"],
    &["select w_insert()"],
    &["select w_hidden()"],
    &["ext: select * from w_insert()"],
    &["begin", "declare c cursor for select w_insert()", "fetch c", "commit"],
    &["begin", "declare c cursor with hold for select w_insert()", "commit", "close c"],
    &["with x as (insert into w values (1) returning 1) select * from x"],
    &["copy (insert into w values (1) returning 1) to stdout"],
];

fn run(client: &mut Client, statements: &[&str]) {
    for sql in statements {
        match sql.strip_prefix("ext: ") {
            Some(sql) => drop(client.extended(sql, &[])),
            None => drop(client.query(sql)),
        }
    }
}

/// With replay paused everywhere, whatever happens.
fn paused(world: &World, test: impl FnOnce()) {
    for replica in world.cluster().replicas() {
        replica.pause_replay().expect("pause");
    }
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    for replica in world.cluster().replicas() {
        replica.resume_replay().expect("resume");
    }
    verdict.unwrap_or_else(|what| std::panic::resume_unwind(what));
}

fn every_way_to_write_is_noticed(world: &World) {
    world.prepare(TABLE);
    let proxy = world.proxy(&Setup::default().size(3));
    paused(world, || {
        for (before, statements) in WRITES.iter().enumerate() {
            let mut client = proxy.login();
            run(&mut client, statements);
            let seen = client.value("select count(*) from w");
            assert_eq!(seen, (before + 1).to_string(), "after {statements:?}");
        }
    });
}

fn a_write_whose_outcome_is_unknown_counts(world: &World) {
    world.prepare(TABLE);
    let proxy = world.proxy(&Setup::default().size(3));
    paused(world, || {
        let mut client = proxy.login();
        client
            .send(&frontend::query("do $$begin insert into w values (1); commit; perform pg_sleep(60); end$$"))
            .expect("send");
        let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where query like 'do $$begin insert%' and pid <> pg_backend_pid()";
        eventually("the row", || world.superuser("select count(*) from w") == "1");
        assert_eq!(world.superuser(kill), "1");
        let (reply, _) = client.recv_until(b'Z', 1);
        assert_eq!(reply.sqlstate().as_deref(), Some("08007"));
        assert_eq!(client.value("select count(*) from w"), "1");
    });
}

/// C2: `synchronous_commit = off` acknowledges a commit that is not in the flushed log yet, nor on any replica.
fn an_unflushed_commit_is_waited_for(world: &World) {
    let cluster = world.own_cluster(1);
    cluster.primary().psql("alter system set wal_writer_delay = '10s'").expect("set");
    cluster.primary().psql("select pg_reload_conf()").expect("reload");
    cluster.primary().psql("set role app; create table w(n int)").expect("a table");
    cluster.catch_up().expect("replicas catch up");
    let proxy = world.start_proxy(&Setup::default().size(3), &cluster);
    let ways: [&[&str]; 4] = [
        &["set synchronous_commit = off", "insert into w values (1)"],
        &["begin", "set local synchronous_commit = off", "insert into w values (1)", "commit"],
        &["begin", "insert into w values (1)", "select set_config('synchronous_' || 'commit', 'off', true)", "commit"],
        &["begin", "set synchronous_commit to 'no'", "insert into w values (1)", "commit"],
    ];
    for (before, statements) in ways.iter().enumerate() {
        let mut client = proxy.login();
        run(&mut client, statements);
        // Longer than the primary's position is asked for: a sample of what is flushed must not be mistaken for what is committed.
        let until = std::time::Instant::now() + std::time::Duration::from_millis(400);
        while std::time::Instant::now() < until {
            let reply = client.ask(&frontend::extended("select count(*) from w", &Values::default()));
            assert_eq!(reply.value(), (before + 1).to_string(), "after {statements:?}");
        }
    }
}
