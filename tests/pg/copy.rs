//! COPY of much, and clients that go away in the middle of it.

use std::{env, fs};

use crate::{
    Case, cases,
    client::Client,
    frontend::{self, Values},
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    let mut all = Vec::from(cases!("copy", Nothing: whoever_vanishes_in_a_copy_leaves_a_good_server));
    all.extend(cases!("copy", Pgsluice: any_amount_streams_in_bounded_memory, a_reader_that_stops_stops_the_server));
    all
}

/// Most the proxy may grow by, whatever passes through it.
const GROWTH: usize = 64 << 20;

/// How much is copied each way. `PGSLUICE_COPY_MIB` says more.
fn amount() -> usize {
    let mib = env::var("PGSLUICE_COPY_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(128);
    mib << 20
}

/// Memory the proxy has in use, bytes.
fn resident(proxy: &Proxy) -> usize {
    let pid = proxy.process().expect("a process").pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).expect("a number") << 10
}

/// Keeps the largest value seen.
struct Most<'a> {
    proxy: &'a Proxy,
    before: usize,
    most: usize,
}

impl<'a> Most<'a> {
    fn of(proxy: &'a Proxy) -> Self {
        let before = resident(proxy);
        Self { proxy, before, most: before }
    }

    fn look(&mut self) {
        self.most = self.most.max(resident(self.proxy));
    }

    fn check(mut self, what: &str) {
        self.look();
        let growth = self.most - self.before;
        println!("{what}: {} MiB grew it by {} KiB", amount() >> 20, growth >> 10);
        assert!(growth < GROWTH, "{what}: {growth} bytes more");
    }
}

/// B221: by both protocols, both ways, and one row that is long by itself.
fn any_amount_streams_in_bounded_memory(world: &World) {
    // Rows arrive and are counted, and nothing is stored.
    world.prepare(
        "drop table if exists sink, received; create table sink(v text); create table received(rows int, bytes bigint);
        create or replace function swallow() returns trigger language plpgsql as 'begin return null; end';
        create trigger swallow before insert on sink for each row execute function swallow()",
    );
    let proxy = world.start_proxy(&Setup::default(), world.cluster());
    let mut client = proxy.login();
    let row = 16_000;
    let rows = amount() / row;
    let copy_out = format!("copy (select repeat('x', {row}) from generate_series(1, {rows})) to stdout");
    let extended = |sql: &str| {
        [frontend::parse("", sql, &[]), frontend::bind("", "", &Values::default()), frontend::execute("", 0)].concat()
    };
    client.value("select 1");
    for (what, message) in [
        ("simple, out", frontend::query(&copy_out)),
        ("extended, out", [extended(&copy_out), frontend::sync()].concat()),
    ] {
        let mut most = Most::of(&proxy);
        client.send(&message).expect("send");
        let mut seen = 0;
        loop {
            let msg = client.recv().unwrap_or_else(|trouble| panic!("{what}: {trouble}"));
            match msg.tag {
                b'd' => {
                    assert_eq!(msg.body.len(), row + 1);
                    seen += 1;
                    if seen % 256 == 0 {
                        most.look();
                    }
                }
                b'Z' => break,
                _ => assert_eq!(msg.sqlstate(), None),
            }
        }
        assert_eq!(seen, rows);
        assert_eq!(client.route().role, "replica");
        most.check(what);
    }
    let line = [vec![b'y'; row], vec![b'\n']].concat();
    let chunk = frontend::copy_data(&line.repeat(8));
    for (what, message, end) in [
        ("simple, in", frontend::query("copy sink from stdin"), frontend::copy_done()),
        (
            "extended, in",
            [extended("copy sink from stdin"), frontend::sync()].concat(),
            [frontend::copy_done(), frontend::sync()].concat(),
        ),
    ] {
        let mut most = Most::of(&proxy);
        client.send(&message).expect("send");
        client.recv_until(b'G', 1);
        for i in 0..rows / 8 {
            client.send(&chunk).expect("send");
            if i % 32 == 0 {
                most.look();
            }
        }
        client.send(&end).expect("send");
        let (reply, trouble) = client.recv_until(b'Z', 1);
        assert!(trouble.is_none(), "{what}: {trouble:?}");
        assert_eq!(reply.letters(), "C(COPY 0) Z(I)", "{what}");
        most.check(what);
    }
    // A single message, longer than any buffer.
    let mut most = Most::of(&proxy);
    client.send(&frontend::query("copy sink from stdin")).expect("send");
    client.recv_until(b'G', 1);
    let long = frontend::copy_data(&[vec![b'z'; 48 << 20], vec![b'\n']].concat());
    for part in long.chunks(1 << 20) {
        client.send(part).expect("send");
        most.look();
    }
    client.send(&frontend::copy_done()).expect("send");
    assert_eq!(client.recv_until(b'Z', 1).0.letters(), "C(COPY 0) Z(I)");
    most.check("one message");
}

/// Nobody reads: what the server has to say waits there, not in the proxy.
fn a_reader_that_stops_stops_the_server(world: &World) {
    let proxy = world.start_proxy(&Setup::default(), world.cluster());
    let mut client = proxy.login();
    client.value("select 1");
    let mut most = Most::of(&proxy);
    client
        .send(&frontend::query("copy (select generate_series(1, 10000000), repeat('x', 10000)) to stdout"))
        .expect("send");
    let waits = "select count(*) from pg_stat_activity where usename = 'app' and wait_event = 'ClientWrite'";
    let nodes = world.cluster().nodes();
    let blocked = || nodes.iter().any(|node| world.ask(node, "postgres", waits) == "1");
    // Buffers on the way fill up first.
    let mut in_a_row = 0;
    eventually("the server to wait for good", || {
        most.look();
        in_a_row = if blocked() { in_a_row + 1 } else { 0 };
        in_a_row > 50
    });
    most.check("unread");
    client.vanish();
    eventually("the statement to end", || !blocked());
}

/// B034, B035, B213, B219: at any moment, both ways, by both protocols, in and outside of transactions; pool size 1.
fn whoever_vanishes_in_a_copy_leaves_a_good_server(world: &World) {
    world.prepare("drop table if exists t cascade; create table t(id int primary key, v text)");
    let port = world.proxy(&Setup::default().primary_only()).port;
    let extended = |sql: &str| {
        [
            frontend::parse("", sql, &[]),
            frontend::bind("", "", &Values::default()),
            frontend::execute("", 0),
            frontend::sync(),
        ]
        .concat()
    };
    let out = "copy (select generate_series(1, 50000), repeat('x', 1000)) to stdout";
    let row = |id: u32| frontend::copy_data(format!("{id}\tx\n").as_bytes());
    let mut half = row(1);
    half.truncate(7);
    let starts: [(&str, Vec<u8>, u8); 4] = [
        ("simple, in", frontend::query("copy t from stdin"), b'G'),
        ("extended, in", extended("copy t from stdin"), b'G'),
        ("simple, out", frontend::query(out), b'H'),
        ("extended, out", extended(out), b'H'),
    ];
    let data: [(&str, Vec<u8>); 7] = [
        ("nothing", Vec::new()),
        ("a row", row(1)),
        ("half a message", half),
        ("a bad row", frontend::copy_data(b"bad\n")),
        ("a bad row and more", [frontend::copy_data(b"bad\n"), row(2), row(3)].concat()),
        ("all but the answer", [row(1), frontend::copy_done(), frontend::sync()].concat()),
        ("its regrets", [row(1), frontend::copy_fail("no")].concat()),
    ];
    for (start, message, answer) in &starts {
        for (what, bytes) in data.iter().filter(|(what, _)| *answer == b'G' || *what == "nothing") {
            for begin in [false, true] {
                let mut client = Client::login(port, &Default::default()).expect("login");
                if begin {
                    client.query("begin");
                }
                client.send(message).expect("send");
                let (_, trouble) = client.recv_until(*answer, 1);
                assert!(trouble.is_none(), "{start}: {trouble:?}");
                client.send(bytes).expect("send");
                client.vanish();
                let mut next = Client::login(port, &Default::default()).expect("login");
                let context = format!("{start}, {what}, begin: {begin}");
                assert_eq!(next.query("delete from t").sqlstate(), None, "{context}");
                assert_eq!(next.query("insert into t values (1, 'kept')").letters(), "C(INSERT 0 1) Z(I)", "{context}");
                assert_eq!(next.value("select string_agg(v, ',') from t"), "kept", "{context}");
                next.query("delete from t");
            }
        }
    }
}
