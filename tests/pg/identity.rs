//! Who may log in, how it proves who it is, from where it may come, and as whom servers see it.

use std::fs;

use crate::{
    Case, cases,
    client::{Client, Login, Trouble},
    lifecycle::rewrite,
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("identity", Pgsluice:
        every_method_with_every_secret, unknown_users_cost_the_same, psql_logs_in_by_every_method, keys_pass_through, keys_of_another_verifier_are_refused_clearly,
        keys_are_no_server_users, nobody_is_warmed_up_before_its_first_login, allowed_databases, hba_lines_decide,
        hba_faults_are_told_at_once, a_reload_brings_new_lines_and_users))
}

/// What a login attempt came to: the authentication requests in order, then `ok` or the error's code.
pub fn attempt(port: u16, login: &Login) -> String {
    let mut client = Client::dial(port).expect("connect");
    client.send(&login.packet()).expect("send");
    let end = match client.authenticate(login) {
        Ok(()) => "ok".to_owned(),
        Err(Trouble::Refused(message)) => message.sqlstate().unwrap_or_default(),
        Err(other) => other.to_string(),
    };
    let requests = client
        .greeting
        .iter()
        .filter(|message| message.tag == b'R')
        .filter_map(|message| message.body.first_chunk::<4>().map(|code| i32::from_be_bytes(*code).to_string()));
    requests.chain([end]).collect::<Vec<_>>().join(" ")
}

/// The words of a refusal.
pub fn words(port: u16, login: &Login) -> String {
    match Client::login(port, login) {
        Err(Trouble::Refused(message)) => {
            let field = |code| message.field(code).unwrap_or_default();
            format!("{} {} {}", field(b'S'), field(b'C'), field(b'M'))
        }
        Err(other) => other.to_string(),
        Ok(_) => "let in".to_owned(),
    }
}

/// A role with this password, and what the server keeps of it.
fn role(world: &World, name: &str) -> String {
    world.superuser(&format!(
        "do $$begin if not exists (select from pg_roles where rolname = '{name}') then \
         create role {name} login password 'secret'; end if; end$$"
    ));
    world.settle();
    world.superuser(&format!("select rolpassword from pg_authid where rolname = '{name}'"))
}

/// Servers are logged in to as app, whoever the client is.
pub const SHARED: &str = "  shared: { dbname: app, nodes: [{nodes}], server_user: app, server_password: secret }\n";

/// Secrets in every form; all of the password `secret`. Nodes are probed as the first who has a password in clear text.
fn users(world: &World) -> String {
    let verifier = role(world, "verified");
    let shadow = world.superuser("select 'md5' || md5('secret' || 'hashed')");
    format!(
        "{{ name: app, password: secret }}, {{ name: clear, password: secret }}, \
         {{ name: verified, password: \"{verifier}\" }}, {{ name: hashed, password: {shadow} }}"
    )
}

/// A proxy with an hba file of these lines. The file is in place before the proxy starts.
fn by_lines(world: &World, lines: &str, setup: Setup) -> Proxy {
    let file = hba_file(world, lines);
    world.start_proxy(&setup.auth(&format!("hba_file: \"{file}\"")), world.cluster())
}

fn hba_file(world: &World, lines: &str) -> String {
    let number = fs::read_dir(world.cluster().dir()).expect("the directory").count();
    let file = world.cluster().dir().join(format!("hba-{number}.conf"));
    fs::write(&file, lines).expect("write");
    file.display().to_string()
}

/// Whose secret is stored in which form, and what the right password and a wrong one come to.
type Row = (&'static str, &'static str, &'static str);

/// Method by method: stored form, and what the right password, a wrong one and an empty one come to. `nobody` does not exist.
const MATRIX: &[(&str, &[Row])] = &[
    (
        "scram-sha-256",
        &[
            ("clear", "10 11 12 0 ok", "10 11 28P01"),
            ("verified", "10 11 12 0 ok", "10 11 28P01"),
            ("hashed", "10 11 28P01", "10 11 28P01"),
            ("none", "10 11 28P01", "10 11 28P01"),
            ("nobody", "10 11 28P01", "10 11 28P01"),
        ],
    ),
    (
        "md5",
        &[
            ("clear", "5 0 ok", "5 28P01"),
            ("verified", "10 11 12 0 ok", "10 11 28P01"),
            ("hashed", "5 0 ok", "5 28P01"),
            ("none", "5 28P01", "5 28P01"),
            ("nobody", "5 28P01", "5 28P01"),
        ],
    ),
    (
        "password",
        &[
            ("clear", "3 0 ok", "3 28P01"),
            ("verified", "3 0 ok", "3 28P01"),
            ("hashed", "3 0 ok", "3 28P01"),
            ("none", "3 28P01", "3 28P01"),
            ("nobody", "3 28P01", "3 28P01"),
        ],
    ),
    (
        "trust",
        &[
            ("clear", "0 ok", "0 ok"),
            ("verified", "0 ok", "0 ok"),
            ("hashed", "0 ok", "0 ok"),
            ("none", "0 ok", "0 ok"),
            ("nobody", "28000", "28000"),
        ],
    ),
];

/// B253: one method in one login. B247: an unknown user goes through the same messages as a known one.
fn every_method_with_every_secret(world: &World) {
    let users = users(world) + ", { name: none }";
    for (method, rows) in MATRIX {
        let proxy =
            by_lines(world, &format!("host all all all {method}\n"), Setup::default().users(&users).databases(SHARED));
        for (user, right, wrong) in *rows {
            let login = Login::default().user(user).database("shared");
            assert_eq!(attempt(proxy.port, &login), *right, "{method}, {user}, the right password");
            for password in ["wrong", "", "secret ", "SECRET"] {
                let login = login.clone().password(password);
                assert_eq!(attempt(proxy.port, &login), *wrong, "{method}, {user}, {password:?}");
            }
        }
        let refused = |user: &str| words(proxy.port, &Login::default().user(user).database("shared").password("x"));
        let unknown = refused("nobody");
        if *method == "trust" {
            assert_eq!(unknown, "FATAL 28000 role \"nobody\" does not exist");
        } else {
            assert_eq!(unknown.replace("nobody", "clear"), refused("clear"), "{method}");
            assert_eq!(unknown, "FATAL 28P01 password authentication failed for user \"nobody\"");
        }
    }
    // Names that could be taken for something else.
    let proxy = by_lines(world, "host all all all scram-sha-256\n", Setup::default().users(&users).databases(SHARED));
    for user in ["'; drop table t; --", "a\"b", "\\", &"x".repeat(63), &"x".repeat(64), "ünïcödé", "all", "+clear", "*"]
    {
        let login = Login::default().user(user).database("shared");
        assert_eq!(attempt(proxy.port, &login), "10 11 28P01", "{user}");
        let login = Login::default().user("clear").database(user);
        assert!(attempt(proxy.port, &login).ends_with("3D000"), "{user}");
    }
}

/// Nanoseconds that the threads that serve or hash have been at work; the main thread probes the nodes meanwhile. Wall time would tell
/// how busy the machine is.
pub fn work(proxy: &Proxy) -> u64 {
    let pid = proxy.process().expect("a process").pid().to_string();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process").flatten();
    let times = tasks.filter(|task| task.file_name().to_str() != Some(&pid)).filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    times.sum()
}

/// No login hashes a password that was hashed before, and no answer takes longer because a user exists.
fn unknown_users_cost_the_same(world: &World) {
    let users = users(world);
    for method in ["scram-sha-256", "md5", "password"] {
        let lines = format!("host all all all {method}\n");
        let proxy = by_lines(world, &lines, Setup::default().users(&users).databases(SHARED));
        let cost = |user: &str, password: &str, rounds: u64| {
            let login = Login::default().user(user).database("shared").password(password);
            attempt(proxy.port, &login);
            let before = work(&proxy);
            for _ in 0..rounds {
                attempt(proxy.port, &login);
            }
            (work(&proxy) - before) / rounds
        };
        let rounds = if method == "password" { 5 } else { 25 };
        // Whom md5 asks for SCRAM is told apart by the messages already, as by PostgreSQL.
        let users = ["clear", if method == "md5" { "hashed" } else { "verified" }, "hashed", "nobody"];
        // The least of several is the one that was disturbed least.
        let mut costs = [u64::MAX; 4];
        for _ in 0..4 {
            for (least, user) in costs.iter_mut().zip(users) {
                *least = cost(user, "wrong", rounds).min(*least);
            }
        }
        let (least, most) = (costs.iter().min(), costs.iter().max());
        let (least, most) = (least.expect("costs"), most.expect("costs"));
        assert!(*most < least * 2, "{method}: {users:?} {costs:?}");
        if method != "password" {
            // 4,096 rounds of PBKDF2 are some milliseconds in this build.
            let right = cost("clear", "secret", rounds);
            assert!(right < 2_000_000, "{method}: {right} ns for a login");
        }
    }
}

fn psql_logs_in_by_every_method(world: &World) {
    let users = users(world) + ", { name: none }";
    for (method, rows) in MATRIX {
        let proxy =
            by_lines(world, &format!("host all all all {method}\n"), Setup::default().users(&users).databases(SHARED));
        for (user, right, wrong) in *rows {
            for (password, wanted) in [("secret", right), ("wrong", wrong)] {
                let output = world
                    .cluster()
                    .binaries()
                    .command("psql")
                    .env("PGPASSWORD", password)
                    .args(["-X", "-w", "-A", "-t", "-c", "select current_user"])
                    .arg(format!("host=127.0.0.1 port={} user={user} dbname=shared", proxy.port))
                    .output()
                    .expect("run psql");
                let said =
                    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
                if wanted.ends_with("ok") {
                    assert_eq!(said.trim(), "app", "{method}, {user}, {password}");
                } else {
                    assert!(said.contains("FATAL:  "), "{method}, {user}, {password}: {said}");
                }
            }
        }
    }
}

/// B249, B255: of a user of whom only its verifier is known, servers see the user itself, on every node and in every database.
fn keys_pass_through(world: &World) {
    let verifier = role(world, "verified");
    let users = format!(
        "{{ name: verified, password: \"{verifier}\" }}, {{ name: app, password: secret }}, {{ name: bob, password: secret }}"
    );
    let setup = Setup::default()
        .size(2)
        .users(&users)
        .databases("  alias: { dbname: app, nodes: [{nodes}] }\n  postgres: { nodes: [{nodes}] }\n")
        .top("log: { level: trace }");
    let proxy = world.start_proxy(&setup, world.cluster());
    let login = Login::default().user("verified");
    assert_eq!(attempt(proxy.port, &login.clone().password("wrong")), "10 11 28P01");
    for database in ["alias", "app", "postgres", "app"] {
        let mut client = proxy.login_as(&login.clone().database(database));
        assert_eq!(client.value("select current_user"), "verified", "{database}");
        assert_eq!(client.route().role, "replica", "{database}");
        assert_eq!(client.query("create temp table mine(n int)").sqlstate(), None);
        assert_eq!(client.value("select session_user"), "verified", "{database}");
        assert_eq!(client.route().role, "primary", "{database}");
    }
    let log = proxy.log();
    let parts = verifier.split(['$', ':']).filter(|part| part.len() > 12 && !part.starts_with("SCRAM"));
    for part in parts {
        assert!(!log.contains(part), "{part} stands in the log");
    }
}

/// B256: the server's verifier is of the same password, but of another salt.
fn keys_of_another_verifier_are_refused_clearly(world: &World) {
    let old = role(world, "salted");
    world.superuser("alter role salted password 'secret'");
    world.settle();
    let new = role(world, "salted");
    assert_ne!(old, new);
    let users =
        |verifier: &str| format!("{{ name: salted, password: \"{verifier}\" }}, {{ name: app, password: secret }}");
    let proxy = world.start_proxy(&Setup::default().users(&users(&old)), world.cluster());
    let login = Login::default().user("salted");
    let said = words(proxy.port, &login);
    assert!(said.starts_with("FATAL 28000 the server holds another SCRAM verifier of this user"), "{said}");
    // The right one, by reload.
    rewrite(&proxy, &old, &new);
    eventually("the new verifier", || attempt(proxy.port, &login) == "10 11 12 0 ok");
    let mut client = proxy.login_as(&login);
    assert_eq!(client.value("select current_user"), "salted");
    // The same password is set anew while the session lives: what it has goes on, what must log in again is told.
    world.superuser("alter role salted password 'secret'");
    world.settle();
    world.superuser("select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'salted'");
    let mut told = String::new();
    eventually("a new login to the primary", || {
        let reply = client.query("create temp table x(n int)");
        told = reply.sqlstate().unwrap_or_default();
        told == "28000"
    });
    assert_eq!(client.status_after("select 1"), 'I', "the session lives on");
}

/// B254: what a client proves is never used for the server_user, whose password counts.
fn keys_are_no_server_users(world: &World) {
    let users = users(world);
    let proxy = world
        .start_proxy(&Setup::default().size(2).users(&users).databases(SHARED).auth("method: md5"), world.cluster());
    for _ in 0..2 {
        for user in ["verified", "clear", "hashed", "app"] {
            let mut client = proxy.login_as(&Login::default().user(user).database("shared"));
            assert_eq!(client.value("select current_user"), "app", "{user}");
        }
        world.superuser("select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'app' and application_name <> 'keep'");
    }
}

fn nobody_is_warmed_up_before_its_first_login(world: &World) {
    let verifier = role(world, "verified");
    let users = format!("{{ name: verified, password: \"{verifier}\" }}, {{ name: app, password: secret }}");
    let setup = Setup::default()
        .users(&users)
        .databases("  warm: { dbname: app, nodes: [{nodes}], pool: { size: 2, min_idle: 2 } }\n")
        .top("log: { level: debug }");
    let proxy = world.start_proxy(&setup, world.cluster());
    let sql = "select count(*) from pg_stat_activity where usename = 'verified'";
    let lines = || proxy.log().lines().filter(|line| line.contains("warming") || line.contains("login")).count();
    assert_eq!(attempt(proxy.port, &Login::default().user("verified").database("warm")), "10 11 12 0 ok");
    eventually("the pool to be warm", || world.superuser(sql) == "2");
    assert_eq!(lines(), 0, "{}", proxy.log());
}

fn allowed_databases(world: &World) {
    let users =
        "{ name: app, password: secret, databases: [app] }, { name: bob, password: secret, databases: [\"*\"] }";
    let databases = "  other: { dbname: app, nodes: [{nodes}] }\n  \"*\": { nodes: [{nodes}] }\n";
    let proxy = world.start_proxy(&Setup::default().users(users).databases(databases), world.cluster());
    for (user, database, wanted) in [
        ("app", "app", "let in"),
        ("app", "other", "FATAL 28000 user \"app\" may not use database \"other\""),
        ("app", "postgres", "FATAL 28000 user \"app\" may not use database \"postgres\""),
        ("bob", "app", "let in"),
        ("bob", "other", "let in"),
        ("bob", "postgres", "let in"),
        ("bob", "nosuch", "FATAL 3D000 database \"nosuch\" does not exist"),
    ] {
        assert_eq!(words(proxy.port, &Login::default().user(user).database(database)), wanted, "{user} {database}");
        let wrong = Login::default().user(user).database(database).password("wrong");
        assert!(words(proxy.port, &wrong).starts_with("FATAL 28P01"), "what exists is told to nobody unknown");
    }
}

/// The same lines, read by PostgreSQL and by pgsluice, decide the same.
fn hba_lines_decide(world: &World) {
    let users = users(world);
    let lines = "hostssl all all all trust\n\
                 host shared clear 127.0.0.2/32 reject\n\
                 hostnossl shared clear,verified 127.0.0.1 255.255.255.255 scram-sha-256\n\
                 host shared hashed 127.0.0.0/8 reject\n\
                 host app app 10.0.0.0/8 trust\n";
    let proxy = by_lines(world, lines, Setup::default().users(&users).databases(SHARED));
    let (none, sent_away) = ("no pg_hba.conf entry", "pg_hba.conf rejects connection");
    let refused = |what: &str, user: &str, database: &str| {
        format!("FATAL 28000 {what} for host \"127.0.0.1\", user \"{user}\", database \"{database}\", no encryption")
    };
    for (user, database, wanted) in [
        ("clear", "shared", "let in".to_owned()),
        ("verified", "shared", "let in".to_owned()),
        ("hashed", "shared", refused(sent_away, "hashed", "shared")),
        ("clear", "app", refused(none, "clear", "app")),
        ("app", "app", refused(none, "app", "app")),
        ("nobody", "nosuch", refused(none, "nobody", "nosuch")),
    ] {
        assert_eq!(words(proxy.port, &Login::default().user(user).database(database)), wanted, "{user} {database}");
    }
    // PostgreSQL's own words.
    let cluster = world.own_cluster(0);
    let file = cluster.primary().data().join("pg_hba.conf");
    let own = fs::read_to_string(&file).expect("pg_hba.conf");
    fs::write(&file, format!("host app bob 127.0.0.1/32 reject\nlocal all all trust\n{}", comments(&own)))
        .expect("write");
    cluster.primary().psql("select pg_reload_conf()").expect("reload");
    for (user, what) in [("bob", sent_away), ("app", none)] {
        eventually("the servers' lines", || {
            words(cluster.primary().port(), &Login::default().user(user)) == refused(what, user, "app")
        });
    }
}

/// A file without effect.
fn comments(text: &str) -> String {
    text.lines().map(|line| format!("# {line}\n")).collect()
}

fn hba_faults_are_told_at_once(world: &World) {
    let file = hba_file(world, "host all +staff all md5\nhost all all nowhere md5\nhost all all all ident\n");
    let config = format!("{file}.yaml");
    let text = format!(
        "listen: 127.0.0.1:6432\ndatabases: {{ app: {{ nodes: [a:5432] }} }}\nusers: [{{ name: app, password: x }}]\n\
         auth: {{ hba_file: {name} }}\nno_such_key: 1\n",
        name = file.rsplit('/').next().expect("a name")
    );
    fs::write(&config, text).expect("write");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_pgsluice")).args(["check", "-c", &config]).output();
    let said = String::from_utf8_lossy(&output.expect("run").stdout).into_owned();
    for place in [format!("{config}:5:1"), format!("{file}:1:10"), format!("{file}:2:14"), format!("{file}:3:18")] {
        assert!(said.contains(&place), "{place} is not told:\n{said}");
    }
    assert!(said.ends_with("4 faults\n"), "{said}");
}

fn a_reload_brings_new_lines_and_users(world: &World) {
    let users = users(world);
    let file = hba_file(world, "host all clear all scram-sha-256\n");
    let setup = Setup::default().users(&users).databases(SHARED).auth(&format!("hba_file: \"{file}\""));
    let proxy = world.start_proxy(&setup, world.cluster());
    let login = Login::default().user("clear").database("shared");
    let mut steady = proxy.login_as(&login);
    fs::write(&file, "host all clear all md5\n").expect("write");
    proxy.process().expect("a process").signal("HUP").expect("signal");
    eventually("the new method", || attempt(proxy.port, &login) == "5 0 ok");
    // A fault changes nothing.
    fs::write(&file, "host all clear all whatever\n").expect("write");
    proxy.process().expect("a process").signal("HUP").expect("signal");
    eventually("the fault to be said", || proxy.log().contains(&format!("{file}:1:20")));
    assert_eq!(attempt(proxy.port, &login), "5 0 ok");
    fs::write(&file, "host all all all reject\n").expect("write");
    rewrite(&proxy, "name: clear, password: secret", "name: clear, password: other");
    eventually("nobody to be let in", || attempt(proxy.port, &login) == "28000");
    fs::write(&file, "host all all all password\n").expect("write");
    proxy.process().expect("a process").signal("HUP").expect("signal");
    eventually("the new password", || attempt(proxy.port, &login.clone().password("other")) == "3 0 ok");
    assert_eq!(attempt(proxy.port, &login), "3 28P01");
    assert_eq!(steady.value("select 1"), "1", "who is in stays in");
}
