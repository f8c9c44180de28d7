//! The allow list: learned from what comes, reviewed by people, and then all there is.

use std::{fs, process::Command};

use crate::{
    Case, cases,
    client::{Client, Login},
    frontend::{self, Values},
    lifecycle::{http, rewrite},
    world::{Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(
        cases!("allow_list", Pgsluice: what_was_learned_passes_and_nothing_else, principals_have_lists_of_their_own,
            what_looks_like_a_value_is_none),
    )
}

const TABLE: &str = "drop table if exists t cascade; create table t(id int primary key, v text); \
    insert into t select i, 'v' || i from generate_series(1, 5) i";

/// A week of an application in a few lines: what it sends when it connects, and what it sends then.
fn work(client: &mut Client, values: [u32; 3]) -> Vec<(String, Option<String>)> {
    let [a, b, c] = values;
    let list: Vec<String> = (0..a % 7 + 1).map(|i| (b + i).to_string()).collect();
    let rows: Vec<String> = (0..c % 5 + 1).map(|i| format!("({}, 'x{i}')", 1000 + c * 10 + i)).collect();
    let simple = [
        "set timezone = 'UTC'".to_owned(),
        "begin".to_owned(),
        format!("select v from t where id = {a}"),
        format!("SELECT v\n  FROM t WHERE id IN ({}) -- {c}", list.join(", ")),
        format!("insert into t values {}", rows.join(", ")),
        format!("delete from t where id > {}", 900 + c % 10),
        "commit".to_owned(),
        "".to_owned(),
    ];
    let mut said: Vec<(String, Option<String>)> = Vec::new();
    for sql in simple {
        let sqlstate = client.query(&sql).sqlstate();
        said.push((sql, sqlstate));
    }
    let sql = "select id from t where v = $1 and id = $2".to_owned();
    said.push((sql.clone(), client.extended(&sql, &["x", &b.to_string()]).sqlstate()));
    let named = [
        frontend::parse("n", "update t set v = $1 where id = $2", &[]),
        frontend::bind("", "n", &Values::text(&["y", &a.to_string()])),
        frontend::execute("", 0),
        frontend::close(b'S', "n"),
        frontend::sync(),
    ];
    said.push(("update".to_owned(), client.ask(&named.concat()).sqlstate()));
    said
}

fn pgsluice(words: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pgsluice")).args(words).output().expect("run pgsluice");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn what_was_learned_passes_and_nothing_else(world: &World) {
    world.prepare(TABLE);
    let store = world.cluster().dir().join("learned-all.yaml");
    let _ = fs::remove_file(&store);
    let top = format!(
        "firewall: {{ allow_list: {{ store: \"{}\", principals: [{{ user: app, client: 127.0.0.0/8, mode: learn }}] }} }}",
        store.display()
    );
    let proxy = world.start_proxy(&Setup::default().size(3).top(&top), world.cluster());
    let config = proxy.config.display().to_string();
    let mut client = proxy.login();
    for values in [[1, 2, 3], [2, 9, 1]] {
        for (sql, sqlstate) in work(&mut client, values) {
            assert_eq!(sqlstate, None, "{sql}");
        }
    }
    let text = || fs::read_to_string(&store).unwrap_or_default();
    eventually("the store", || text().contains("update t set v = $1 where id = $2"));
    eventually("the last counts", || text().matches("count: 2").count() == 5 && text().contains("count: 4"));
    let learned = text();
    assert!(!learned.contains("x0") && learned.contains("client: 127.0.0.0/8"), "{learned}");
    // Lengths of lists and numbers of rows are not what makes a statement another, nor is a list instead of one value.
    assert_eq!(learned.matches("fingerprint:").count(), 6, "{learned}");
    for (from, to) in [("mode: learn", "mode: detect"), ("mode: detect", "mode: protect")] {
        let before = proxy.log();
        rewrite(&proxy, from, to);
        eventually("the reload", || proxy.log()[before.len()..].contains("reloaded"));
        for values in [[3, 77, 12], [6, 1, 9]] {
            for (sql, sqlstate) in work(&mut client, values) {
                assert_eq!(sqlstate, None, "{to}: {sql}");
            }
        }
        let unknown = ["select * from t", "select v from t where id = 1 or 1 = 1", "select v, id from t where id = 1"];
        for sql in unknown {
            for reply in [client.query(sql), client.extended(sql, &[])] {
                let refused = (to == "mode: protect").then_some("42501");
                assert_eq!(reply.sqlstate().as_deref(), refused, "{to}: {sql}");
            }
        }
        assert_eq!(client.query("show pgsluice.route").sqlstate(), None, "{to}");
    }
    assert_eq!(client.query("selec").sqlstate().as_deref(), Some("42501"));
    let (_, metrics) = http(proxy.admin, "/metrics");
    for line in [
        "pgsluice_firewall_total{rule=\"allow-list\",verdict=\"detect\"} 6",
        "pgsluice_firewall_total{rule=\"allow-list\",verdict=\"deny\"} 7",
    ] {
        let said: Vec<&str> = metrics.lines().filter(|line| line.contains("firewall_total")).collect();
        assert!(metrics.contains(line), "{line}\n{said:#?}");
    }
    // What came meanwhile waits for somebody's word.
    eventually("what waits", || text().matches("allowed: false").count() == 3);
    let (fine, out) = pgsluice(&["firewall", "review", "-c", &config]);
    assert!(fine && out.ends_with("6 allowed, 3 waiting\n"), "{out}");
    let line = out.lines().find(|line| line.ends_with("] select * from t")).unwrap_or_default();
    let fingerprint = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let (fine, _) = pgsluice(&["firewall", "promote", "-c", &config, "00000000deadbeef"]);
    assert!(!fine);
    let (fine, out) = pgsluice(&["firewall", "promote", "-c", &config, &fingerprint]);
    assert!(fine && out.contains("1 promoted"), "{out}");
    let (fine, out) = pgsluice(&["firewall", "export", "-c", &config]);
    assert!(fine && out.matches("    allowed: true").count() == 7 && !out.contains("allowed: false"), "{out}");
    let before = proxy.log();
    rewrite(&proxy, "mode: protect", "mode:  protect");
    eventually("the reload", || proxy.log()[before.len()..].contains("reloaded"));
    assert_eq!(client.query("select * from t").sqlstate(), None);
    assert_eq!(client.query("select v, id from t where id = 1").sqlstate().as_deref(), Some("42501"));
}

fn principals_have_lists_of_their_own(world: &World) {
    world.prepare(TABLE);
    let store = world.cluster().dir().join("learned-own.yaml");
    let _ = fs::remove_file(&store);
    let top = format!(
        "firewall: {{ allow_list: {{ store: \"{}\", capacity: 3, default: learn, principals: [{{ user: app, application: \"tool*\", mode: learn }}, {{ user: bob, mode: \"off\" }}] }} }}",
        store.display()
    );
    let proxy = world.start_proxy(&Setup::default().size(3).top(&top), world.cluster());
    let (mut app, mut bob) = (proxy.login(), proxy.login_as(&Login::default().user("bob")));
    let mut tool = proxy.login_as(&Login::default().param("application_name", "tool 1"));
    assert_eq!(app.query("select count(*) from t").sqlstate(), None);
    assert_eq!(bob.query("select 1 as bob").sqlstate(), None);
    assert_eq!(tool.query("select 1 as tool").sqlstate(), None);
    let text = || fs::read_to_string(&store).unwrap_or_default();
    eventually("both lists", || text().contains("select count(*)") && text().contains("as tool"));
    assert!(!text().contains("as bob"), "{}", text());
    for column in ["id", "v", "id, v"] {
        app.query(&format!("select {column} from t"));
    }
    eventually("the overflow", || {
        http(proxy.admin, "/metrics").1.contains("pgsluice_firewall_total{rule=\"allow-list\",verdict=\"overflow\"} 2")
    });
    eventually("a full store", || text().matches("fingerprint").count() == 3);
    let before = proxy.log();
    rewrite(&proxy, "mode: learn", "mode: protect");
    eventually("the reload", || proxy.log()[before.len()..].contains("reloaded"));
    assert_eq!(tool.query("select 1 as tool").sqlstate(), None);
    assert_eq!(tool.query("select count(*) from t").sqlstate().as_deref(), Some("42501"));
    assert_eq!(app.query("select 1 as tool").sqlstate(), None);
}

/// To pg_query's fingerprint a schema, the body of DO and the name of a parameter in set_config make no difference.
fn what_looks_like_a_value_is_none(world: &World) {
    world.prepare(TABLE);
    world.prepare("drop schema if exists aside cascade; create schema aside; create table aside.t(id int, v text)");
    let store = world.cluster().dir().join("learned-forms.yaml");
    let _ = fs::remove_file(&store);
    let top = format!("firewall: {{ allow_list: {{ store: \"{}\", default: learn }} }}", store.display());
    let proxy = world.start_proxy(&Setup::default().size(2).top(&top), world.cluster());
    let mut client = proxy.login();
    let learned = [
        "select v from t where id = 1",
        "select id from aside.t where id = 1",
        "do 'begin null; end'",
        "select set_config('work_mem', '5MB', false)",
    ];
    for sql in learned {
        assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
    }
    eventually("the store", || {
        fs::read_to_string(&store).is_ok_and(|text| text.matches("fingerprint:").count() == learned.len())
    });
    let text = fs::read_to_string(&store).expect("the store");
    assert!(text.contains("begin null; end") && text.contains("/* work_mem */"), "{text}");
    let before = proxy.log();
    rewrite(&proxy, "default: learn", "default: protect");
    eventually("the reload", || proxy.log()[before.len()..].contains("reloaded"));
    for sql in [
        "select v from t where id = 2",
        "select id from aside.t where id = 3",
        "do 'begin null; end'",
        "select set_config('work_mem', '6MB', false)",
    ] {
        assert_eq!(client.query(sql).sqlstate(), None, "{sql}");
    }
    for sql in [
        "select v from aside.t where id = 2",
        "select id from t where id = 3",
        "do 'begin delete from t; end'",
        "select set_config('role', 'bob', false)",
    ] {
        for reply in [client.query(sql), client.extended(sql, &[])] {
            assert_eq!(reply.sqlstate().as_deref(), Some("42501"), "{sql}");
        }
    }
    assert_eq!(world.superuser("select count(*) from t"), "5");
    world.prepare("drop schema aside cascade");
}
