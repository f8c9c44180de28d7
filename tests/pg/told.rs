//! R6: the schema moves under prepared statements. What a client was told of its columns is what it gets, or nothing of it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::{
    Case, cases,
    client::{Client, Reply},
    frontend::{self, Values},
    prepared::{and_sync, parse, run},
    world::{Setup, World},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("told", Pgsluice:
        what_was_told_is_what_comes, a_changed_schema_is_the_servers_error, a_replica_that_lags_behind_the_schema_is_passed_over,
        a_stale_plan_teaches_nothing))
}

fn columns(reply: &Reply) -> Vec<String> {
    reply.0.iter().find(|m| m.tag == b'T').map(|m| m.column_names()).unwrap_or_default()
}

/// With replay paused everywhere, whatever happens.
fn paused(world: &World, test: impl FnOnce()) {
    world.settle();
    for replica in world.cluster().replicas() {
        replica.pause_replay().expect("pause");
    }
    let verdict = catch_unwind(AssertUnwindSafe(test));
    for replica in world.cluster().replicas() {
        replica.resume_replay().expect("resume");
    }
    world.settle();
    verdict.unwrap_or_else(|what| resume_unwind(what));
}

/// How a client comes to know what its statement gives, and how it runs it later without asking again.
struct Way {
    what: &'static str,
    told: fn(&mut Client, &str) -> Reply,
    run: fn(&mut Client) -> Reply,
}

const WAYS: &[Way] = &[
    Way {
        what: "Describe of a named statement",
        told: |client, sql| client.ask(&and_sync(&[parse("s", sql), frontend::describe(b'S', "s")])),
        run: |client| client.ask(&and_sync(&[run("s")])),
    },
    Way {
        what: "Describe of a portal of a named statement",
        told: |client, sql| {
            let bind = frontend::bind("", "s", &Values::default());
            client.ask(&and_sync(&[parse("s", sql), bind, frontend::describe(b'P', ""), frontend::execute("", 0)]))
        },
        run: |client| client.ask(&and_sync(&[run("s")])),
    },
    Way {
        what: "Describe in a message of its own",
        told: |client, sql| {
            client.ask(&and_sync(&[parse("s", sql)]));
            client.ask(&and_sync(&[frontend::describe(b'S', "s")]))
        },
        run: |client| client.ask(&and_sync(&[run("s")])),
    },
    Way {
        what: "Describe of the unnamed statement",
        told: |client, sql| client.ask(&and_sync(&[parse("", sql), frontend::describe(b'S', "")])),
        run: |client| client.ask(&and_sync(&[run("")])),
    },
    Way {
        what: "Describe of a portal of the unnamed statement",
        told: |client, sql| client.extended(sql, &[]),
        run: |client| client.ask(&and_sync(&[run("")])),
    },
    Way {
        what: "a result in binary",
        told: |client, sql| client.ask(&and_sync(&[parse("s", sql), frontend::describe(b'S', "s")])),
        run: |client| {
            let bind = frontend::bind("", "s", &Values { results: vec![1], ..Values::default() });
            client.ask(&and_sync(&[bind, frontend::execute("", 0)]))
        },
    },
];

/// Where the statement before ran, and why; asked so that the unnamed statement stays.
fn route(client: &mut Client) -> (String, String) {
    let ask = [frontend::close(b'S', "route"), parse("route", "show pgsluice.route"), run("route")];
    let row = client.ask(&and_sync(&ask)).rows().concat();
    (row[1].clone(), row[3].clone())
}

/// Every transaction gets a server connection that nobody had before, so each must be given the statement.
fn strangers() -> Setup {
    Setup::default().pool("max_lifetime: 1ms")
}

/// R6: the schema is changed by a session that no proxy sees, and the statement comes to servers that do not have it. What was told is what
/// comes; where it is not, nothing of it comes.
fn what_was_told_is_what_comes(world: &World) {
    for (text, role) in [("select * from r6", "replica"), ("select * from r6 for update", "primary")] {
        for way in WAYS {
            world.prepare("drop table if exists r6; create table r6(a int, b text); insert into r6 values (1, 'b')");
            let proxy = world.proxy(&strangers());
            let mut client = proxy.login();
            let told = (way.told)(&mut client, text);
            assert_eq!(columns(&told), ["a", "b"], "{}", way.what);
            world.prepare("alter table r6 add column c int");
            let reply = (way.run)(&mut client);
            assert_eq!(reply.letters(), "E(0A000) Z(I)", "{} of {text}", way.what);
            assert_eq!(reply.0[0].field(b'M').as_deref(), Some("cached plan must not change result type"));
            assert!(reply.rows().is_empty());
            // As on a server: once the columns are what they were, so is the statement.
            world.prepare("alter table r6 drop column c");
            let reply = (way.run)(&mut client);
            assert_eq!(reply.letters(), "2 D C(SELECT 1) Z(I)", "{} of {text}", way.what);
            assert_eq!(route(&mut client).0, role, "{} of {text}", way.what);
            world.prepare("alter table r6 alter column a type bigint");
            let letters = (way.run)(&mut client).letters();
            assert_eq!(letters, "E(0A000) Z(I)", "{} of {text}, and another type", way.what);
            // Made anew, it is as it should be.
            let told = client.ask(&and_sync(&[
                frontend::close(b'S', "s"),
                parse("s", text),
                frontend::describe(b'S', "s"),
                run("s"),
            ]));
            assert_eq!(columns(&told), ["a", "b"]);
            assert_eq!(told.rows(), [["1", "b"]]);
        }
    }
}

/// The same where the statement is a write, or stands in a transaction, or behind others: it must not have run.
fn a_changed_schema_is_the_servers_error(world: &World) {
    let begin = || frontend::query("begin");
    type Said = Vec<Vec<u8>>;
    let table: [(&str, Said, &str); 5] = [
        ("a write", vec![and_sync(&[run("w")])], "E(0A000) Z(I)"),
        ("a write in a transaction", vec![begin(), and_sync(&[run("w")])], "E(0A000) Z(E)"),
        (
            "a write behind another",
            vec![and_sync(&[parse("", "insert into r6 values (7)"), run(""), run("w"), run("")])],
            "1 2 C(INSERT 0 1) E(0A000) Z(I)",
        ),
        ("a Describe", vec![and_sync(&[frontend::describe(b'S', "w")])], "E(0A000) Z(I)"),
        ("a write, flushed", vec![[run("w"), frontend::flush(), frontend::sync()].concat()], "E(0A000) Z(I)"),
    ];
    for (what, said, letters) in table {
        world.prepare("drop table if exists r6; create table r6(a int)");
        let proxy = world.proxy(&strangers());
        let mut client = proxy.login();
        let sql = "insert into r6 values (1) returning *";
        let told = client.ask(&and_sync(&[parse("w", sql), frontend::describe(b'S', "w")]));
        assert_eq!(columns(&told), ["a"]);
        world.prepare("alter table r6 add column b int");
        let mut reply = Reply::default();
        for message in &said {
            reply = client.ask(message);
        }
        assert_eq!(reply.letters(), letters, "{what}");
        client.query("rollback");
        assert_eq!(world.superuser("select count(*) from r6"), "0", "{what} must not have run");
        world.prepare("alter table r6 drop column b");
        assert_eq!(client.ask(&and_sync(&[run("w")])).letters(), "2 D C(INSERT 0 1) Z(I)", "{what}, later");
    }
}

/// R6: a replica has not replayed what the client was told on the primary. Its reads go there until it has.
fn a_replica_that_lags_behind_the_schema_is_passed_over(world: &World) {
    for way in WAYS {
        world.prepare("drop table if exists r6; create table r6(a int); insert into r6 values (1)");
        let proxy = world.start_proxy(&Setup::default(), world.cluster());
        let mut client = proxy.login();
        paused(world, || {
            world.superuser("alter table r6 add column b int default 2");
            client.query("begin");
            assert_eq!(columns(&(way.told)(&mut client, "select * from r6")), ["a", "b"], "{}", way.what);
            // A simple Query would destroy the unnamed statement.
            client.ask(&and_sync(&[parse("c", "commit"), run("c")]));
            for _ in 0..3 {
                let reply = (way.run)(&mut client);
                assert_eq!(reply.letters(), "2 D C(SELECT 1) Z(I)", "{}", way.what);
                assert_eq!(reply.rows()[0].len(), 2, "{}", way.what);
                let (role, reason) = route(&mut client);
                assert_eq!((role.as_str(), reason.as_str()), ("primary", "retried"), "{}", way.what);
            }
        });
        assert_eq!((way.run)(&mut client).rows()[0].len(), 2);
        assert_eq!(route(&mut client).0, "replica", "{}: it is not taken for a write", way.what);
    }
}

/// A replica's plan is out of date: the read is run on the primary, but it is still a read; and whoever prepares it anew gets it made
/// anew.
fn a_stale_plan_teaches_nothing(world: &World) {
    world.prepare("drop table if exists r6; create table r6(a int); insert into r6 values (1)");
    let proxy = world.start_proxy(&Setup::default(), world.cluster());
    let sql = "select * from r6 where a = 1";
    let mut old = proxy.login();
    assert_eq!(old.ask(&and_sync(&[parse("s", sql), run("s")])).letters(), "1 2 D C(SELECT 1) Z(I)");
    assert_eq!(old.route().role, "replica");
    world.prepare("alter table r6 add column b int");
    for _ in 0..3 {
        let mut new = proxy.login();
        let made = and_sync(&[
            parse("s", sql),
            frontend::bind("", "s", &Values::default()),
            frontend::describe(b'P', ""),
            frontend::execute("", 0),
        ]);
        let reply = new.ask(&made);
        assert_eq!(columns(&reply), ["a", "b"], "{}", reply.letters());
        assert_eq!(reply.rows()[0].len(), 2);
    }
    assert_eq!(old.value("select * from r6 where a = 1"), "1");
    assert_eq!(old.route().role, "replica");
}
