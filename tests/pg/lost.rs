//! Server connections that end under a statement.

use crate::{
    Case, cases,
    client::{Client, Reply},
    frontend::{self, Values},
    world::{Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("lost", Pgsluice: what_follows_a_lost_transaction_is_not_committed))
}

/// Ends the backend that sleeps.
fn terminate(world: &World) {
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where query like '%pg_sleep(60)%' and state = 'active' and pid <> pg_backend_pid()";
    eventually("the backend to sleep", || world.superuser(kill) == "1");
}

fn read(client: &mut Client, cycles: usize) -> Reply {
    let (reply, trouble) = client.recv_until(b'Z', cycles);
    assert!(trouble.is_none(), "{trouble:?} after {}", reply.letters());
    reply
}

/// A client that does not look at errors sends the rest of its transaction all the same: psql's scripts, pipelines.
fn what_follows_a_lost_transaction_is_not_committed(world: &World) {
    world.prepare("drop table if exists l; create table l(n int)");
    let proxy = world.proxy(&Setup::default().size(2));
    let simple = |statements: &[&str]| statements.iter().flat_map(|sql| frontend::query(sql)).collect::<Vec<u8>>();
    let extended = |statements: &[&str]| {
        statements.iter().flat_map(|sql| frontend::extended(sql, &Values::default())).collect::<Vec<u8>>()
    };
    let apart: &[&str] =
        &["begin", "insert into l values (1)", "select pg_sleep(60)", "insert into l values (2)", "commit"];
    let together: &[&str] =
        &["begin; insert into l values (1); select pg_sleep(60)", "insert into l values (2)", "commit"];
    for (bytes, cycles) in [(simple(apart), 5), (extended(apart), 5), (simple(together), 3)] {
        let mut client = proxy.login();
        client.send(&bytes).expect("send");
        terminate(world);
        let reply = read(&mut client, cycles).letters();
        assert!(
            reply.ends_with("Z(E) E(25P02) Z(E) C(ROLLBACK) Z(I)")
                || reply.ends_with("Z(E) E(25P02) Z(E) 1 2 n C(ROLLBACK) Z(I)"),
            "{reply}"
        );
        assert_eq!(world.superuser("select count(*) from l"), "0");
        assert_eq!(client.value("select 1"), "1", "the session goes on");
    }
    // Nothing is left of the request that ended one transaction when a later one is lost.
    let mut client = proxy.login();
    client
        .send(&extended(&["begin", "insert into l values (1)", "commit", "select pg_sleep(60), lo_create(0)"]))
        .expect("send");
    terminate(world);
    assert!(read(&mut client, 4).letters().ends_with("E(08007) Z(I)"));
    client.send(&simple(&["begin", "insert into l values (1)", "select pg_sleep(60)"])).expect("send");
    terminate(world);
    assert!(read(&mut client, 3).letters().ends_with("E(08006) Z(E)"));
}
