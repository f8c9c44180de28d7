//! Input that is too long, or says it is. What comes before login is in `login`.

use crate::{
    Case, cases,
    frontend::{self, Values},
    world::{Setup, World},
};

pub fn cases() -> Vec<Case> {
    Vec::from(
        cases!("hostile", Pgsluice: a_long_text_can_be_prepared, a_short_message_is_not_long, depth_is_the_servers_error),
    )
}

/// Longer than `limits.parse`, so it is not read; but a bulk INSERT may well be that long.
fn a_long_text_can_be_prepared(world: &World) {
    let mut client = world.proxy(&Setup::default().size(2)).login();
    let sql = format!("select length('{}')", "x".repeat(3 << 20));
    assert_eq!(client.query(&sql).value(), "3145728");
    assert_eq!(client.extended(&sql, &[]).value(), "3145728");
    assert_eq!(client.route().role, "primary");
    client.ask(&[frontend::parse("long", &sql, &[]), frontend::sync()].concat());
    let run = [frontend::bind("", "long", &Values::default()), frontend::execute("", 0), frontend::sync()].concat();
    assert_eq!(client.ask(&run).value(), "3145728");
}

/// What holds a name at most is not awaited when it claims to be longer (`PQ_SMALL_MESSAGE_LIMIT`).
fn a_short_message_is_not_long(world: &World) {
    let proxy = world.proxy(&Setup::default().size(2));
    for tag in *b"SHDEC" {
        let mut client = proxy.login();
        client.send(&[&[tag], 60_000u32.to_be_bytes().as_slice()].concat()).expect("send");
        assert_eq!(client.recv().expect("an answer").sqlstate().as_deref(), Some("08P01"), "{}", tag as char);
        assert!(client.closed());
    }
}

fn depth_is_the_servers_error(world: &World) {
    let mut client = world.proxy(&Setup::default().size(2)).login();
    let deep = [
        (format!("select {}1{}", "(".repeat(100_000), ")".repeat(100_000)), "42601"),
        (format!("select {}true", "not ".repeat(100_000)), "42601"),
        (format!("select 1{}", "+1".repeat(100_000)), "54001"),
    ];
    for (sql, code) in &deep {
        assert_eq!(client.query(sql).sqlstate().as_deref(), Some(*code));
        assert_eq!(client.extended(sql, &[]).sqlstate().as_deref(), Some(*code));
        assert_eq!(client.value("select 1"), "1");
    }
}
