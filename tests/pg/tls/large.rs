//! Much at once over TLS on both sides.

use super::{Door, both_sides, login, papers::Hello, psql, shown};
use crate::{
    Case, cases,
    client::{Client, Login},
    frontend,
    world::{Setup, World},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("tls", Pgsluice: large_results_and_copies, a_slow_reader_over_tls, whole_scripts_by_psql))
}

fn client(world: &World, port: u16) -> Client {
    login(port, Door::Asked, &Hello::default().config(world.papers()), &Login::default()).expect("login")
}

/// 20 MB each way.
fn large_results_and_copies(world: &World) {
    let proxy = both_sides(world, Setup::default().size(2).primary_only());
    let mut client = client(world, proxy.port);
    let reply = client.query("select n, repeat(chr(97 + n % 26), 1000) from generate_series(1, 20000) n");
    let rows = reply.rows();
    assert_eq!(rows.len(), 20_000);
    for (i, row) in rows.iter().enumerate() {
        let letter = char::from(b'a' + ((i + 1) % 26) as u8);
        assert!(
            row[0] == (i + 1).to_string() && row[1].len() == 1000 && row[1].chars().all(|c| c == letter),
            "row {i}"
        );
    }
    // One value of 20 MB.
    assert_eq!(client.value("select repeat('x', 20000000)").len(), 20_000_000);
    client.query("drop table if exists large; create table large(n int, v text)");
    client.send(&frontend::query("copy large from stdin")).expect("send");
    assert_eq!(client.recv_until(b'G', 1).0.letters(), "G");
    for chunk in 0..200 {
        let lines: String = (0..100).map(|i| format!("{}\t{}\n", chunk * 100 + i, "y".repeat(1000))).collect();
        client.send(&frontend::copy_data(lines.as_bytes())).expect("send");
    }
    client.send(&frontend::copy_done()).expect("send");
    assert_eq!(client.recv_until(b'Z', 1).0.letters(), "C(COPY 20000) Z(I)");
    let sums = "select count(*) || ' ' || sum(n) || ' ' || sum(length(v)) from large";
    assert_eq!(client.value(sums), format!("20000 {} 20000000", 20_000 * 19_999 / 2));
    let out = client.query("copy large to stdout");
    let bytes: usize = out.0.iter().filter(|m| m.tag == b'd').map(|m| m.body.len()).sum();
    assert_eq!(bytes, (0..20_000).map(|n: usize| n.to_string().len() + 1002).sum::<usize>());
    client.query("drop table large");
}

/// A client that does not read holds up nobody else, and gets all of it in the end.
fn a_slow_reader_over_tls(world: &World) {
    let proxy = both_sides(world, Setup::default().size(2).primary_only());
    let (mut slow, mut quick) = (client(world, proxy.port), client(world, proxy.port));
    slow.send(&frontend::query("select repeat('x', 1000) from generate_series(1, 30000)")).expect("send");
    for _ in 0..50 {
        assert_eq!(quick.value("select 1"), "1");
    }
    let (reply, trouble) = slow.recv_until(b'Z', 1);
    assert!(trouble.is_none(), "{trouble:?}");
    assert_eq!(reply.0.iter().filter(|m| m.tag == b'D').count(), 30_000);
}

fn whole_scripts_by_psql(world: &World) {
    let proxy = both_sides(world, Setup::default().size(2));
    let ca = shown(&world.papers().ca.cert);
    let conninfo = format!("host=localhost sslmode=verify-full sslrootcert={ca} channel_binding=require");
    let script = "begin; create temp table t(n int); insert into t select generate_series(1, 1000); select sum(n) from t; commit;";
    assert_eq!(psql(world, proxy.port, &conninfo, script).as_deref(), Ok("500500"));
}
