//! `auth.query`: users that only the servers know.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    Case, cases,
    client::{Client, Login},
    identity::{SHARED, attempt, words, work},
    lifecycle::rewrite,
    limits::metric,
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("lookup", Pgsluice:
        secrets_in_every_form, servers_see_the_user_itself, unknown_users_cost_the_same, one_question_for_many_logins,
        a_new_password_is_noticed, a_slow_question_holds_up_nobody_else, without_an_answer_the_last_one_counts,
        who_can_not_be_looked_up_is_told_so, what_is_configured_of_a_user_counts, a_reload_asks_anew))
}

const QUERY: &str = "select usename, passwd from pg_shadow where usename=$1";
const ASKER: &str = "user: postgres, password: secret";

fn setup(method: &str, query: &str) -> Setup {
    // Nobody is configured at all.
    Setup::default().size(2).users("").databases(SHARED).auth(&format!("method: {method}, query: \"{query}\", {ASKER}"))
}

fn start(world: &World, setup: &Setup) -> Proxy {
    world.start_proxy(setup, world.cluster())
}

/// Roles of the password `secret`, kept in different forms.
fn roles(world: &World) {
    world.superuser(
        "do $$begin
            if not exists (select from pg_roles where rolname = 'q_scram') then
                create role q_scram login password 'secret';
                execute format('create role q_md5 login password %L', 'md5' || md5('secretq_md5'));
                create role q_null login;
            end if;
        end$$",
    );
    world.superuser("alter role q_scram password 'secret'");
    world.superuser("drop table if exists q_clear");
    world.superuser("create table q_clear as select 'q_clear' as name, 'secret' as secret");
    world.settle();
}

fn asked(proxy: &Proxy) -> f64 {
    let of = |outcome: &str| metric(proxy, &format!("pgsluice_lookups_total{{outcome=\"{outcome}\"}}"));
    of("found") + of("unknown") + of("failed")
}

/// Who, and what the right password and a wrong one come to.
type Row = (&'static str, &'static str, &'static str);

/// By method: who, what the right password comes to, and a wrong one.
#[rustfmt::skip]
const MATRIX: &[(&str, &[Row])] = &[
    ("scram-sha-256", &[
        ("q_scram", "10 11 12 0 ok", "10 11 28P01"),
        ("q_clear", "10 11 12 0 ok", "10 11 28P01"),
        ("q_md5", "10 11 28P01", "10 11 28P01"),
        ("q_null", "10 11 28P01", "10 11 28P01"),
        ("nobody", "10 11 28P01", "10 11 28P01"),
    ]),
    ("md5", &[
        ("q_scram", "10 11 12 0 ok", "10 11 28P01"),
        ("q_clear", "5 0 ok", "5 28P01"),
        ("q_md5", "5 0 ok", "5 28P01"),
        ("q_null", "10 11 28P01", "10 11 28P01"),
        ("nobody", "10 11 28P01", "10 11 28P01"),
    ]),
    ("trust", &[
        ("q_scram", "0 ok", "0 ok"),
        ("q_clear", "0 ok", "0 ok"),
        ("q_md5", "0 ok", "0 ok"),
        ("q_null", "0 ok", "0 ok"),
        ("nobody", "28000", "28000"),
    ]),
];

/// B247: nobody is ever taken for somebody else.
fn secrets_in_every_form(world: &World) {
    roles(world);
    let query = "select usename::text, passwd from pg_shadow where usename=$1 union all select name, secret from q_clear where name=$1";
    for (method, rows) in MATRIX {
        let proxy = start(world, &setup(method, query).top("log: { level: trace }"));
        for (user, right, wrong) in *rows {
            let login = Login::default().user(user).database("shared");
            assert_eq!(attempt(proxy.port, &login), *right, "{method}, {user}");
            for password in ["wrong", ""] {
                assert_eq!(
                    attempt(proxy.port, &login.clone().password(password)),
                    *wrong,
                    "{method}, {user}, {password:?}"
                );
            }
        }
        if *method == "trust" {
            continue;
        }
        let refused = |user: &str| words(proxy.port, &Login::default().user(user).database("shared").password("x"));
        assert_eq!(refused("nobody").replace("nobody", "q_scram"), refused("q_scram"), "{method}");
        for user in ["' or true --", "$1", "\\", "a\"b", &"x".repeat(64), "ünïcödé", "Q_SCRAM", "q_scram "] {
            let said = words(proxy.port, &Login::default().user(user).database("shared"));
            assert_eq!(said, format!("FATAL 28P01 password authentication failed for user \"{user}\""));
        }
        // Of a database that does not exist those hear who have proved who they are.
        let nosuch = Login::default().user("q_scram").database("nosuch");
        assert_eq!(words(proxy.port, &nosuch), "FATAL 3D000 database \"nosuch\" does not exist");
        assert!(words(proxy.port, &nosuch.password("wrong")).starts_with("FATAL 28P01"));
        let verifier = world.superuser("select rolpassword from pg_authid where rolname = 'q_scram'");
        let log = proxy.log();
        for part in verifier.split(['$', ':']).filter(|part| part.len() > 12 && !part.starts_with("SCRAM")) {
            assert!(!log.contains(part), "{part} stands in the log");
        }
    }
}

/// With its SCRAM keys, on every node; nothing of it is configured.
fn servers_see_the_user_itself(world: &World) {
    roles(world);
    let proxy = start(world, &setup("scram-sha-256", QUERY));
    let mut client = proxy.login_as(&Login::default().user("q_scram"));
    assert_eq!(client.value("select session_user"), "q_scram");
    assert_eq!(client.route().role, "replica");
    assert_eq!(client.query("create temp table mine(n int)").sqlstate(), None);
    assert_eq!(client.value("select session_user"), "q_scram");
    assert_eq!(client.route().role, "primary");
    let mut shared = proxy.login_as(&Login::default().user("q_scram").database("shared"));
    assert_eq!(shared.value("select session_user"), "app");
}

fn unknown_users_cost_the_same(world: &World) {
    roles(world);
    let proxy = start(world, &setup("scram-sha-256", QUERY));
    let cost = |user: &str| {
        let login = Login::default().user(user).database("shared").password("wrong");
        attempt(proxy.port, &login);
        let before = work(&proxy);
        (0..25).for_each(|_| drop(attempt(proxy.port, &login)));
        (work(&proxy) - before) / 25
    };
    let mut costs = [u64::MAX; 3];
    for _ in 0..4 {
        for (least, user) in costs.iter_mut().zip(["q_scram", "nobody", "q_null"]) {
            *least = cost(user).min(*least);
        }
    }
    assert!(costs.iter().max() < costs.iter().min().map(|least| least * 2).as_ref(), "{costs:?}");
}

fn one_question_for_many_logins(world: &World) {
    roles(world);
    // Slow enough for all to come while it is asked.
    let query = "select usename, passwd from pg_shadow where usename=$1 and pg_sleep(0.5) is not null";
    let proxy = start(world, &setup("scram-sha-256", query));
    for (user, wanted) in [("q_scram", "10 11 12 0 ok"), ("nobody", "10 11 28P01")] {
        let before = asked(&proxy);
        let port = proxy.port;
        let logins: Vec<_> = (0..20)
            .map(|_| thread::spawn(move || attempt(port, &Login::default().user(user).database("shared"))))
            .collect();
        for login in logins {
            assert_eq!(login.join().expect("a login"), wanted);
        }
        // Those that failed ask once more, in the background, not sooner than a second after the first answer.
        let asked = asked(&proxy) - before;
        assert!(asked == 1.0 || (user == "nobody" && asked <= 3.0), "{user} was asked for {asked} times");
    }
    let before = asked(&proxy);
    for _ in 0..10 {
        assert_eq!(attempt(proxy.port, &Login::default().user("q_scram").database("shared")), "10 11 12 0 ok");
    }
    assert!(asked(&proxy) - before <= 1.0);
}

/// The server's new password holds, at once or from the second attempt on, and so does a user who was unknown before.
fn a_new_password_is_noticed(world: &World) {
    roles(world);
    for (method, user) in [("scram-sha-256", "q_scram"), ("md5", "q_md5"), ("scram-sha-256", "q_new")] {
        let proxy = start(world, &setup(method, QUERY));
        let login = |password: &str| Login::default().user(user).database("shared").password(password);
        if user == "q_new" {
            world.superuser("drop role if exists q_new");
            assert_eq!(attempt(proxy.port, &login("new")), "10 11 28P01");
            world.superuser("create role q_new login password 'new'");
        } else {
            assert!(attempt(proxy.port, &login("secret")).ends_with("ok"));
            let secret = if user == "q_md5" { "md5' || md5('newq_md5') || '" } else { "new" };
            world.superuser(&format!(
                "do $do$begin execute format('alter role {user} password %L', '{secret}'); end$do$"
            ));
        }
        if method == "md5" {
            // The same answer is compared with the new secret, as soon as that may be asked for again.
            eventually("the new password", || attempt(proxy.port, &login("new")) == "5 0 ok");
        }
        let began = Instant::now();
        eventually("the new password", || attempt(proxy.port, &login("new")).ends_with("ok"));
        // Not when the answer is too old, but when a login has failed by it.
        assert!(began.elapsed() < Duration::from_secs(6), "{user}: {:?}", began.elapsed());
        if user != "q_new" {
            assert!(attempt(proxy.port, &login("secret")).ends_with("28P01"), "the old one does not");
        }
        world.superuser("drop role if exists q_new");
    }
    world.superuser("do $$begin execute format('alter role q_md5 password %L', 'md5' || md5('secretq_md5')); end$$");
    roles(world);
}

fn a_slow_question_holds_up_nobody_else(world: &World) {
    roles(world);
    let query = "select usename, passwd from pg_shadow where usename=$1 and case when $1 like 'slow%' then pg_sleep(20) is not null else true end";
    world.superuser("do $$begin for i in 1..3 loop if not exists (select from pg_roles where rolname = 'slow' || i) then execute 'create role slow' || i || ' login'; end if; end loop; end$$");
    let proxy = start(world, &setup("scram-sha-256", query));
    let mut slow: Vec<Client> = Vec::new();
    for i in 1..=3 {
        let mut client = Client::dial(proxy.port).expect("connect");
        client.send(&Login::default().user(&format!("slow{i}")).database("shared").packet()).expect("send");
        slow.push(client);
    }
    let asleep = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
    eventually("the slow ones to be asked for", || world.superuser(asleep) == "3");
    let began = Instant::now();
    for user in ["q_scram", "nobody", "q_null"] {
        assert!(attempt(proxy.port, &Login::default().user(user).database("shared")).starts_with("10 11"), "{user}");
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    // They do not wait for ever, and their questions are not left running.
    for client in &mut slow {
        assert_eq!(client.recv().expect("an answer").sqlstate().as_deref(), Some("57P03"));
    }
    eventually("the questions to be cancelled", || world.superuser(asleep) == "0");
}

fn without_an_answer_the_last_one_counts(world: &World) {
    let cluster = world.own_cluster(0);
    cluster.primary().psql("create role q_scram login password 'secret'").expect("create");
    let proxy = world.start_proxy(&setup("scram-sha-256", QUERY), &cluster);
    let login = Login::default().user("q_scram");
    assert_eq!(attempt(proxy.port, &login), "10 11 12 0 ok");
    let mut client = proxy.login_as(&login);
    assert_eq!(client.value("select 1"), "1");
    cluster.primary().stop(pgsluice::cli::demo::Stop::Immediate).expect("stop");
    // It becomes too old to be believed without asking.
    let failed = || metric(&proxy, "pgsluice_lookups_total{outcome=\"failed\"}");
    eventually("a question without an answer", || {
        let said = attempt(proxy.port, &login);
        assert!(said.starts_with("10 11 12"), "{said}");
        failed() > 0.0
    });
    assert!(words(proxy.port, &login.clone().password("wrong")).starts_with("FATAL 28P01"));
    let unknown = words(proxy.port, &Login::default().user("q_other"));
    assert_eq!(unknown, "FATAL 57P03 the user could not be looked up, try again later");
    cluster.primary().start().expect("start");
    eventually("an answer", || words(proxy.port, &Login::default().user("q_other")).starts_with("FATAL 28P01"));
}

fn who_can_not_be_looked_up_is_told_so(world: &World) {
    roles(world);
    for (query, asker, wanted) in [
        (QUERY, "user: bob, password: secret", "permission denied"),
        (QUERY, "user: bob, password: wrong", "password authentication failed"),
        ("select 1 where $1 = 'nobody'", ASKER, "no row"),
        ("select * from no_such_function($1)", ASKER, "42"),
        ("select usename from pg_shadow where usename=$1", ASKER, "one column instead of two"),
        ("select 'q_scram', passwd from pg_shadow where usename=$1 or true", ASKER, "several rows"),
        ("select 'somebody', passwd from pg_shadow where usename=$1", ASKER, "another user"),
        ("select usename, 'SCRAM-SHA-256$nonsense' from pg_shadow where usename=$1", ASKER, "a secret that is none"),
    ] {
        let auth = format!("method: scram-sha-256, query: \"{query}\", {asker}");
        let users = "{ name: app, password: secret }";
        let proxy = start(world, &Setup::default().users(users).databases(SHARED).auth(&auth));
        let login = Login::default().user("q_scram").database("shared");
        if wanted == "no row" {
            // No row, no error: there is nobody.
            assert_eq!(attempt(proxy.port, &login), "10 11 28P01");
            continue;
        }
        for _ in 0..3 {
            assert_eq!(
                words(proxy.port, &login),
                "FATAL 57P03 the user could not be looked up, try again later",
                "{query}"
            );
        }
        let lines: Vec<String> =
            proxy.log().lines().filter(|line| line.contains("auth.query failed")).map(str::to_owned).collect();
        assert!(lines.len() == 1 && lines[0].contains(wanted), "{query}: {lines:?}");
        // Who is configured is not looked for.
        assert_eq!(words(proxy.port, &Login::default().database("shared")), "let in");
    }
}

fn what_is_configured_of_a_user_counts(world: &World) {
    roles(world);
    let users = "{ name: q_scram, max_clients: 1, databases: [shared] }, { name: q_md5, password: other }";
    let proxy = start(world, &setup("scram-sha-256", QUERY).users(users));
    let login = Login::default().user("q_scram").database("shared");
    let held = proxy.login_as(&login);
    assert_eq!(words(proxy.port, &login), "FATAL 53300 too many connections for role \"q_scram\"");
    assert!(words(proxy.port, &login.clone().database("app")).starts_with("FATAL 28000"));
    // A password that is configured is not looked for elsewhere.
    let own = Login::default().user("q_md5").database("shared");
    assert_eq!(words(proxy.port, &own.clone().password("other")), "let in");
    assert!(words(proxy.port, &own).starts_with("FATAL 28P01"));
    drop(held);
    rewrite(&proxy, "max_clients: 1, databases: [shared]", "max_clients: 2");
    eventually("the new limits", || words(proxy.port, &login.clone().database("app")) == "let in");
}

fn a_reload_asks_anew(world: &World) {
    roles(world);
    let proxy = start(world, &setup("scram-sha-256", QUERY));
    let login = |user: &str| Login::default().user(user).database("shared");
    assert_eq!(attempt(proxy.port, &login("q_scram")), "10 11 12 0 ok");
    assert_eq!(attempt(proxy.port, &login("q_clear")), "10 11 28P01");
    let mut steady = proxy.login_as(&login("q_scram"));
    rewrite(&proxy, QUERY, "select name, secret from q_clear where name=$1");
    eventually("the new query", || attempt(proxy.port, &login("q_clear")) == "10 11 12 0 ok");
    assert_eq!(attempt(proxy.port, &login("q_scram")), "10 11 28P01");
    assert_eq!(steady.value("select session_user"), "app", "who is in stays in");
    rewrite(&proxy, ASKER, "user: nobody_like_that, password: secret");
    eventually("the new asker", || words(proxy.port, &login("q_clear")).starts_with("FATAL 57P03"));
}
