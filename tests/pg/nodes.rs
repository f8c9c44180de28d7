//! Servers that stop, hang, come back and change roles. Each test breaks a cluster of its own.

use crate::{
    Case, cases,
    world::{Setup, World, eventually},
};

use pgsluice::cli::demo::Stop;

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("nodes", Pgsluice:
        a_replica_lost_is_not_missed, all_replicas_lost_leave_the_primary, without_a_primary_reads_go_on, a_promoted_replica_takes_writes,
        a_replica_of_an_old_primary_is_not_read,
        a_restarted_primary_is_found_again, what_a_primary_may_have_done_is_not_done_twice, a_frozen_replica_is_left, the_proxy_starts_before_the_servers))
}

const TABLE: &str =
    "create table t(id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 5) i";

/// D115, D116: reads go on without an error once the loss is known; the replica is used again when it is back.
fn a_replica_lost_is_not_missed(world: &World) {
    let cluster = world.own_cluster(2);
    cluster.primary().psql(&format!("set role app; {TABLE}")).expect("a table");
    cluster.catch_up().expect("replicas catch up");
    let proxy = world.start_proxy(&Setup::default().size(2).routing("balance: round_robin"), &cluster);
    let mut client = proxy.login();
    assert_eq!(client.value("select count(*) from t"), "5");
    cluster.replicas()[0].stop(Stop::Kill).expect("kill");
    for _ in 0..50 {
        assert_eq!(client.query("select count(*) from t").letters(), "T D C(SELECT 1) Z(I)");
        assert_ne!(client.route().node, "replica1");
    }
    cluster.replicas()[0].start().expect("start");
    eventually("the replica to be used again", || {
        assert_eq!(client.value("select count(*) from t"), "5");
        client.route().node == "replica1"
    });
}

fn all_replicas_lost_leave_the_primary(world: &World) {
    let cluster = world.own_cluster(1);
    cluster.primary().psql(&format!("set role app; {TABLE}")).expect("a table");
    let proxy = world.start_proxy(&Setup::default().size(2), &cluster);
    let mut client = proxy.login();
    cluster.replicas()[0].stop(Stop::Immediate).expect("stop");
    for _ in 0..20 {
        assert_eq!(client.value("select count(*) from t"), "5");
        assert_eq!(client.route().node, "primary");
    }
}

fn without_a_primary_reads_go_on(world: &World) {
    let cluster = world.own_cluster(1);
    cluster.primary().psql(&format!("set role app; {TABLE}")).expect("a table");
    cluster.catch_up().expect("replicas catch up");
    let proxy = world.start_proxy(&Setup::default().size(2).checkout_timeout("1s"), &cluster);
    // Another session's: whoever has perhaps written reads its own write on the primary alone. And it changes nothing, should one of the
    // primary's backends outlive it for so long.
    let (mut client, mut writer) = (proxy.login(), proxy.login());
    assert_eq!(client.value("select count(*) from t"), "5");
    cluster.primary().stop(Stop::Kill).expect("kill");
    eventually("reads to be answered", || client.query("select count(*) from t").letters() == "T D C(SELECT 1) Z(I)");
    eventually("the primary to be known as lost", || {
        writer.query("insert into t select 9, 'x' where false").sqlstate().as_deref() == Some("57P03")
    });
    assert_eq!(client.query("select count(*) from t").letters(), "T D C(SELECT 1) Z(I)");
    assert_eq!(client.query("begin; insert into t values (9, 'x'); commit").sqlstate().as_deref(), Some("57P03"));
    let mut late = proxy.login();
    assert_eq!(late.value("select count(*) from t"), "5", "new clients can log in for reads");
    cluster.primary().start().expect("start");
    eventually("the primary to be back", || {
        client.query("insert into t values (9, 'x') on conflict do nothing").sqlstate().is_none()
    });
}

/// B010, F1 in small.
fn a_promoted_replica_takes_writes(world: &World) {
    let cluster = world.own_cluster(2);
    cluster.primary().psql(&format!("set role app; {TABLE}")).expect("a table");
    cluster.catch_up().expect("replicas catch up");
    let proxy = world.start_proxy(&Setup::default().size(2).checkout_timeout("1s"), &cluster);
    let mut client = proxy.login();
    assert_eq!(client.query("insert into t values (10, 'x')").letters(), "C(INSERT 0 1) Z(I)");
    cluster.catch_up().expect("replicas catch up");
    cluster.primary().stop(Stop::Kill).expect("kill");
    cluster.replicas()[0].promote().expect("promote");
    cluster.replicas()[1].follow(&cluster.replicas()[0]).expect("follow");
    eventually("writes to be taken", || {
        client.query("insert into t values (11, 'x') on conflict do nothing").sqlstate().is_none()
    });
    assert_eq!(client.route().node, "replica1");
    for _ in 0..20 {
        assert_eq!(client.query("update t set v = 'y' where id = 11").letters(), "C(UPDATE 1) Z(I)");
    }
    let mut reader = proxy.login();
    eventually("the other replica to be read when it has kept some of the new history", || {
        // On a replica that is a restartpoint.
        cluster.replicas().iter().for_each(|node| drop(node.psql("checkpoint").expect("checkpoint")));
        assert_eq!(reader.value("select v from t where id = 11"), "y");
        reader.route().node == "replica2"
    });
}

/// One replica was promoted, the other has stayed with the old primary, which lives on: its rows are another history's, however far it is.
fn a_replica_of_an_old_primary_is_not_read(world: &World) {
    let cluster = world.own_cluster(2);
    cluster.primary().psql(&format!("set role app; {TABLE}")).expect("a table");
    cluster.catch_up().expect("replicas catch up");
    let proxy =
        world.start_proxy(&Setup::default().size(2).routing("consistency: off, balance: round_robin"), &cluster);
    let mut client = proxy.login();
    let (old, new, left) = (cluster.primary(), &cluster.replicas()[0], &cluster.replicas()[1]);
    new.promote().expect("promote");
    eventually("the new primary to be written to", || {
        client.query("insert into t values (11, 'new') on conflict do nothing").sqlstate().is_none()
            && client.route().node == "replica1"
    });
    old.psql("insert into t values (12, 'old')").expect("the old primary still takes writes");
    eventually("the other replica to have them", || {
        left.psql("select v from t where id = 12").is_ok_and(|v| v.trim() == "old")
    });
    for _ in 0..50 {
        assert_eq!(client.value("select count(*) from t where id > 10"), "1");
        assert_eq!(client.route().node, "replica1");
    }
}

fn a_restarted_primary_is_found_again(world: &World) {
    let cluster = world.own_cluster(0);
    cluster.primary().psql(&format!("set role app; {TABLE}")).expect("a table");
    let proxy = world.start_proxy(&Setup::default().size(3), &cluster);
    let mut clients: Vec<_> = (0..3).map(|_| proxy.login()).collect();
    for (id, client) in (20..).zip(&mut clients) {
        client.query("begin");
        client.query(&format!("insert into t values ({id}, 'x')"));
    }
    cluster.primary().stop(Stop::Fast).expect("stop");
    cluster.primary().start().expect("start");
    for client in &mut clients {
        // The transaction is lost, and says so; whether the session lives on is the proxy's choice.
        if let Ok(reply) = client.try_ask(&crate::frontend::query("commit")) {
            assert_ne!(reply.letters(), "C(COMMIT) Z(I)", "a success that never was");
        }
    }
    let mut client = proxy.login();
    eventually("the primary to be used", || client.query("update t set v = 'z' where id = 1").sqlstate().is_none());
}

/// A plain SELECT may be of a view that writes. On a primary that died nobody can tell, so it is not run again.
fn what_a_primary_may_have_done_is_not_done_twice(world: &World) {
    let cluster = world.own_cluster(0);
    let proxy = world.start_proxy(&Setup::default(), &cluster);
    let mut client = proxy.login();
    client.send(&crate::frontend::query("select pg_sleep(60)")).expect("send");
    eventually("the statement to run", || {
        cluster
            .primary()
            .psql("select count(*) from pg_stat_activity where query = 'select pg_sleep(60)'")
            .is_ok_and(|n| n.trim() == "1")
    });
    cluster.primary().stop(Stop::Kill).expect("kill");
    let (reply, _) = client.recv_until(b'Z', 1);
    assert_eq!(reply.sqlstate().as_deref(), Some("08006"));
}

/// A replica that keeps its sockets open and answers nothing.
fn a_frozen_replica_is_left(world: &World) {
    let cluster = world.own_cluster(2);
    cluster.primary().psql(&format!("set role app; {TABLE}")).expect("a table");
    cluster.catch_up().expect("replicas catch up");
    let proxy = world.start_proxy(&Setup::default().size(2), &cluster);
    let mut client = proxy.login();
    cluster.replicas()[1].freeze().expect("freeze");
    // A read that was on its way there may hang until it is given up; a new client must be served.
    eventually("reads to avoid it", || {
        let mut fresh = proxy.login();
        fresh.query("select count(*) from t").letters() == "T D C(SELECT 1) Z(I)" && fresh.route().node != "replica2"
    });
    cluster.replicas()[1].thaw().expect("thaw");
    assert_eq!(client.value("select count(*) from t"), "5");
}

fn the_proxy_starts_before_the_servers(world: &World) {
    let cluster = world.own_cluster(0);
    cluster.primary().psql(&format!("set role app; {TABLE}")).expect("a table");
    cluster.primary().stop(Stop::Fast).expect("stop");
    let proxy = world.start_proxy(&Setup::default().checkout_timeout("1s"), &cluster);
    assert!(proxy.process().is_some_and(|p| !p.ended()));
    cluster.primary().start().expect("start");
    let login = crate::client::Login::default();
    eventually("a client to be served", || {
        crate::client::Client::login(proxy.port, &login)
            .is_ok_and(|mut c| c.query("select count(*) from t").sqlstate().is_none())
    });
}
