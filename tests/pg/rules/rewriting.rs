//! Rewrite rules at every door, and that errors point into the client's own text.

use crate::{
    Case, cases,
    client::Client,
    firewall::rules,
    frontend::{self, Values},
    lifecycle::{http, rewrite},
    world::{Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("rewriting", Pgsluice:
        a_tenant_sees_its_own_rows_by_every_door, errors_point_into_the_clients_text, the_firewall_sees_what_rules_made,
        what_was_prepared_is_changed_again_after_a_reload, what_cannot_be_changed_is_refused))
}

const TABLE: &str = "drop table if exists orders, old_orders cascade; \
    create table orders(id int primary key, tenant int not null, v text); \
    insert into orders select i, i % 2, 'v' || i from generate_series(1, 10) i";

const TENANT: &str = "
rewrite:
  - name: moved
    when: { tables: [old_orders] }
    rewrite: { rename_table: { old_orders: orders } }
    continue: true
    examples: { rewrite: { \"select * from old_orders\": \"select * from orders as old_orders\" } }
  - name: tenant
    when: { tables: [orders, old_orders] }
    rewrite: { add_where: { orders: \"tenant = 1\" } }
";

fn a_tenant_sees_its_own_rows_by_every_door(world: &World) {
    world.prepare(TABLE);
    let text = TENANT.replace(
        "    examples: { rewrite: { \"select * from old_orders\": \"select * from orders as old_orders\" } }\n",
        "",
    );
    let proxy = world.proxy(&Setup::default().size(3).top(&rules(world, "tenant", &text)));
    let mut client = proxy.login();
    for sql in ["select count(*) from orders", "select count(*) from old_orders"] {
        assert_eq!(client.value(sql), "5", "{sql}");
        assert_eq!(client.extended(sql, &[]).value(), "5", "{sql}");
        let named = [
            frontend::parse("n", sql, &[]),
            frontend::describe(b'S', "n"),
            frontend::bind("", "n", &Values::default()),
            frontend::execute("", 0),
            frontend::close(b'S', "n"),
            frontend::sync(),
        ];
        assert_eq!(client.ask(&named.concat()).value(), "5", "{sql}");
        assert_eq!(client.query(&format!("prepare p as {sql}")).sqlstate(), None, "{sql}");
        assert_eq!(client.value("execute p"), "5", "{sql}");
        client.query("deallocate p");
        client.query("begin");
        assert_eq!(client.query(&format!("declare c cursor for {sql}")).sqlstate(), None, "{sql}");
        assert_eq!(client.value("fetch c"), "5", "{sql}");
        client.query("commit");
        let copied = client.query(&format!("copy ({sql}) to stdout"));
        assert!(copied.0.iter().any(|m| m.tag == b'd' && m.body == b"5\n"), "{sql}");
    }
    let limited = [
        frontend::parse("", "select id from orders where id > $1 order by id", &[]),
        frontend::bind("", "", &Values::text(&["2"])),
        frontend::execute("", 2),
        frontend::execute("", 0),
        frontend::sync(),
    ];
    let reply = client.ask(&limited.concat());
    assert_eq!(reply.rows(), [["3"], ["5"], ["7"], ["9"]], "{}", reply.letters());
    assert_eq!(client.query("update orders set v = 'x'").letters(), "C(UPDATE 5) Z(I)");
    assert_eq!(client.query("delete from orders where id > 8").letters(), "C(DELETE 1) Z(I)");
    assert_eq!(world.superuser("select count(*) from orders where v = 'x'"), "4");
    assert_eq!(world.superuser("select count(*) from orders"), "9");
    // Wherever a client lets names be looked for.
    for path in ["set search_path = ''", "select set_config('search_path', 'pg_catalog', false)"] {
        let mut client = proxy.login();
        assert_eq!(client.query(path).sqlstate(), None);
        for reply in [
            client.query("select count(*) from public.orders"),
            client.extended("select count(*) from public.orders", &[]),
        ] {
            assert_eq!(reply.value(), "4", "{path}");
        }
        assert_eq!(
            client.query("update public.orders set v = 'y' where tenant = 0").letters(),
            "C(UPDATE 0) Z(I)",
            "{path}"
        );
    }
    let metrics = http(proxy.admin, "/metrics").1;
    assert!(
        metrics.contains("pgsluice_rules_total{section=\"rewrite\",rule=\"tenant\",verdict=\"allow\"}"),
        "{metrics}"
    );
}

fn position(reply: &crate::client::Reply) -> Option<String> {
    reply.0.iter().find(|m| m.tag == b'E').and_then(|m| m.field(b'P'))
}

fn errors_point_into_the_clients_text(world: &World) {
    world.prepare(TABLE);
    let text = TENANT.replace(
        "    examples: { rewrite: { \"select * from old_orders\": \"select * from orders as old_orders\" } }\n",
        "",
    );
    let mut client = world.proxy(&Setup::default().size(3).top(&rules(world, "tenant", &text))).login();
    let mut direct = crate::world::direct(world.cluster().primary(), "app");
    for sql in [
        "select 'ü', nosuch from orders",
        "select id from orders where nosuch = 1",
        "select id from orders where id = 1 order by nosuch",
        "select id from orders o join orders p using (id) where o.nosuch = 1",
        "update orders set nosuch = 1",
        "delete from orders where nosuch = 1",
    ] {
        let expected = direct.query(sql);
        assert!(position(&expected).is_some(), "{sql}");
        for reply in [client.query(sql), client.extended(sql, &[])] {
            assert_eq!((reply.sqlstate(), position(&reply)), (expected.sqlstate(), position(&expected)), "{sql}");
        }
        let named = [frontend::parse("e", sql, &[]), frontend::sync()].concat();
        assert_eq!(position(&client.ask(&named)), position(&expected), "{sql}");
    }
    // The next request has nothing to do with it.
    let other = "select nosuch";
    assert_eq!(position(&client.query(other)), position(&direct.query(other)));
}

fn the_firewall_sees_what_rules_made(world: &World) {
    world.prepare(TABLE);
    let text = "
firewall:
  - { name: no-where, when: { statement: [delete, update], where: missing }, deny: {} }
  - { name: no-orders, when: { tables: [orders], statement: truncate }, deny: {} }
rewrite:
  - { name: filtered, when: { tables: [orders] }, rewrite: { add_where: { orders: \"tenant = 1\" } }, continue: true }
  - { name: moved, when: { tables: [old_orders] }, rewrite: { rename_table: { old_orders: orders } } }
";
    let mut client = world.proxy(&Setup::default().top(&rules(world, "sees", text))).login();
    for extended in [false, true] {
        let mut run = |sql: &str| {
            let reply = if extended { client.extended(sql, &[]) } else { client.query(sql) };
            reply.sqlstate()
        };
        assert_eq!(run("truncate old_orders").as_deref(), Some("42501"));
        assert_eq!(run("delete from orders"), None);
        assert_eq!(run("insert into orders values (1, 1, 'x'), (2, 0, 'x') on conflict do nothing"), None);
    }
    assert_eq!(world.superuser("select count(*) from orders where tenant = 0"), "5");
}

fn what_was_prepared_is_changed_again_after_a_reload(world: &World) {
    world.prepare(TABLE);
    let rule = |tenant: &str| {
        format!(
            "rewrite:\n  - {{ name: tenant, when: {{ tables: [orders] }}, rewrite: {{ add_where: {{ orders: \"tenant = {tenant}\" }} }} }}\n"
        )
    };
    let top = rules(world, "again", "routing: []\n");
    let proxy = world.start_proxy(&Setup::default().size(3).top(&top), world.cluster());
    let mut client = proxy.login();
    let parse = |client: &mut Client, name: &str| {
        client.ask(&[frontend::parse(name, "select count(*) from orders", &[]), frontend::sync()].concat())
    };
    let run = |client: &mut Client, name: &str| {
        let reply = client
            .ask(&[frontend::bind("", name, &Values::default()), frontend::execute("", 0), frontend::sync()].concat());
        reply.sqlstate().unwrap_or_else(|| reply.value())
    };
    parse(&mut client, "a");
    assert_eq!(client.query("prepare p as select count(*) from orders").sqlstate(), None);
    assert_eq!((run(&mut client, "a"), client.value("execute p")), ("10".to_owned(), "10".to_owned()));
    client.query("declare held cursor with hold for select id from orders");
    let reload = |text: &str| {
        let before = proxy.log();
        rules(world, "again", text);
        rewrite(&proxy, "rules:", "rules: ");
        eventually("the reload", || proxy.log()[before.len()..].contains("reloaded"));
    };
    reload(&rule("1"));
    assert_eq!(run(&mut client, "a"), "0A000");
    for sql in ["execute p", "execute a", "fetch all held"] {
        assert_eq!(client.query(sql).sqlstate().as_deref(), Some("0A000"), "{sql}");
    }
    client.query("close held");
    parse(&mut client, "b");
    assert_eq!(run(&mut client, "b"), "5");
    client.query("deallocate p");
    assert_eq!(client.query("prepare p as select count(*) from orders").sqlstate(), None);
    assert_eq!(client.value("execute p"), "5");
    reload(&rule("7"));
    assert_eq!(run(&mut client, "b"), "0A000");
    assert_eq!(client.query("execute p").sqlstate().as_deref(), Some("0A000"));
    reload("routing: []\n");
    assert_eq!(run(&mut client, "b"), "0A000");
    assert_eq!(run(&mut client, "a"), "10");
}

fn what_cannot_be_changed_is_refused(world: &World) {
    world.prepare(TABLE);
    let text = TENANT.replace(
        "    examples: { rewrite: { \"select * from old_orders\": \"select * from orders as old_orders\" } }\n",
        "",
    );
    let mut client = world.proxy(&Setup::default().size(3).top(&rules(world, "tenant", &text))).login();
    for sql in ["selec * from orders", "do $$ begin delete from orders; end $$; select 1 from orders"] {
        for reply in [client.query(sql), client.extended(sql, &[])] {
            assert_eq!(reply.sqlstate().as_deref(), Some("42501"), "{sql}");
        }
    }
    client.query("begin");
    client.query("select 1");
    assert_eq!(client.query("selec * from orders").letters(), "E(42501) Z(E)");
    assert_eq!(client.query("select * from orders").letters(), "E(25P02) Z(E)");
    assert_eq!(client.query("commit").letters(), "C(ROLLBACK) Z(I)");
    assert_eq!(world.superuser("select count(*) from orders"), "10");
}
