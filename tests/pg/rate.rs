//! `users[].rate`: one for all sessions of a user, by every way a statement comes, with an error like a server's.

use crate::{
    Case, cases,
    client::{Client, Login},
    frontend::{self, Values},
    lifecycle::rewrite,
    limits::metric,
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("rate", Pgsluice:
        all_sessions_share_it, it_fails_a_transaction, it_stops_a_pipeline_in_its_place, it_comes_back_and_changes_by_reload))
}

/// An hour's rate does not come back while a test runs.
fn limited(world: &World, rate: &str) -> Proxy {
    let users = format!("{{ name: app, password: secret, rate: {rate} }}, {{ name: bob, password: secret }}");
    world.start_proxy(&Setup::default().size(4).users(&users), world.cluster())
}

fn refused(proxy: &Proxy) -> f64 {
    metric(proxy, "pgsluice_limits_total{limit=\"rate\"}")
}

fn said(client: &mut Client, message: &[u8], cycles: usize) -> String {
    client.send(message).expect("send");
    let (reply, trouble) = client.recv_until(b'Z', cycles);
    assert!(trouble.is_none(), "{trouble:?} after {}", reply.letters());
    reply.letters()
}

fn all_sessions_share_it(world: &World) {
    let proxy = limited(world, "12/h");
    let mut sessions: Vec<Client> = (0..4).map(|_| proxy.login()).collect();
    for client in &mut sessions {
        assert_eq!(client.value("select 1"), "1");
        assert_eq!(client.extended("select 2", &[]).value(), "2");
    }
    // A text of more than is left takes nothing of it.
    let many = sessions[0].query("select 1; select 2; select 3; select 4; select 5");
    assert_eq!(many.letters(), "E(53400) Z(I)");
    let message = many.0[0].field(b'M');
    assert_eq!(message.as_deref(), Some("too many statements of this user, try again later"));
    assert_eq!(many.0[0].field(b'D').as_deref(), Some("Its rate is 12 an hour."));
    assert_eq!(
        sessions[1].query("select 1; select 2; select 3").letters(),
        "T D C(SELECT 1) T D C(SELECT 1) T D C(SELECT 1) Z(I)"
    );
    let call = frontend::function_call(2026, &[]);
    assert_eq!(said(&mut sessions[2], &call, 1), "V Z(I)");
    for client in &mut sessions {
        assert_eq!(client.query("select 1").letters(), "E(53400) Z(I)");
        assert_eq!(client.query("").letters(), "E(53400) Z(I)");
        assert_eq!(client.extended("select 1", &[]).letters(), "1 2 T E(53400) Z(I)");
        assert_eq!(said(client, &call, 1), "E(53400) Z(I)");
    }
    assert_eq!(proxy.login().query("show pgsluice.version").letters(), "E(53400) Z(I)");
    assert_eq!(refused(&proxy), 18.0);
    let mut bob = proxy.login_as(&Login::default().user("bob"));
    (0..20).for_each(|_| assert_eq!(bob.value("select 1"), "1"));
}

/// As an error of the server would: what was done is undone, and only its end gets through.
fn it_fails_a_transaction(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    for (first, end) in [("begin", "commit"), ("begin", "rollback"), ("begin; savepoint s", "commit")] {
        let proxy = limited(world, "3/h");
        let mut client = proxy.login();
        client.query(first);
        let mut writes = 0;
        while client.query(&format!("insert into t values ({writes}, 'lost')")).status() == Some('T') {
            writes += 1;
        }
        assert!((1..3).contains(&writes), "{first}: {writes} writes");
        assert_eq!(client.query("select 1").letters(), "E(53400) Z(E)", "{first}");
        assert_eq!(client.query(end).letters(), "C(ROLLBACK) Z(I)", "{first}, {end}");
        assert_eq!(world.superuser("select count(*) from t"), "0", "{first}, {end}");
    }
    // A transaction that no server has seen yet.
    let proxy = limited(world, "1/h");
    let mut client = proxy.login();
    assert_eq!(client.query("begin").letters(), "C(BEGIN) Z(T)");
    assert_eq!(client.query("select 1").letters(), "E(53400) Z(E)");
    assert_eq!(client.extended("commit", &[]).letters(), "1 2 n C(ROLLBACK) Z(I)");
}

fn it_stops_a_pipeline_in_its_place(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let proxy = limited(world, "3/h");
    let mut client = proxy.login();
    let parse = frontend::parse("s", "insert into t values ($1::text::int, 'x')", &[]);
    let run = |id: u32| {
        let values = Values::text(&[&id.to_string()]);
        [frontend::bind("", "s", &values), frontend::execute("", 0)].concat()
    };
    let pipeline = [parse, run(1), frontend::sync(), run(2), run(3), run(4), run(5), frontend::sync()].concat();
    assert_eq!(
        said(&mut client, &pipeline, 2),
        "1 2 C(INSERT 0 1) Z(I) 2 C(INSERT 0 1) 2 C(INSERT 0 1) 2 E(53400) Z(I)"
    );
    // One implicit transaction, as ever.
    assert_eq!(world.superuser("select string_agg(id::text, ',') from t"), "1");
    assert_eq!(refused(&proxy), 1.0);
}

fn it_comes_back_and_changes_by_reload(world: &World) {
    let proxy = limited(world, "20/s");
    let mut client = proxy.login();
    eventually("the rate to be used up", || client.query("select 1").sqlstate().as_deref() == Some("53400"));
    eventually("some of it to come back", || client.query("select 1").sqlstate().is_none());
    let proxy = limited(world, "2/h");
    let mut client = proxy.login();
    assert_eq!(client.query("select 1; select 2").sqlstate(), None);
    assert_eq!(client.query("select 1").sqlstate().as_deref(), Some("53400"));
    // A reload for another reason gives nothing away.
    rewrite(&proxy, "size: 4", "size: 5");
    eventually("the reload", || proxy.log().contains("configuration reloaded"));
    assert_eq!(client.query("select 1").sqlstate().as_deref(), Some("53400"));
    assert_eq!(proxy.login().query("select 1").sqlstate().as_deref(), Some("53400"));
    rewrite(&proxy, "rate: 2/h", "rate: 3/h");
    eventually("the new rate", || client.query("select 1").sqlstate().is_none());
    rewrite(&proxy, "rate: 3/h", "rate: null");
    eventually("no rate", || (0..10).all(|_| client.query("select 1").sqlstate().is_none()));
}
