//! Towards clients: by which door with which papers, and what may not be mixed.

use std::io::{Read, Write};

use pgsluice::wire::scram::Verifier;
use rustls::version::{TLS12, TLS13};

use super::{Door, enter, login, papers::Hello, psql, shown, tls, towards_clients};
use crate::{
    Case, cases,
    certs::Pair,
    client::{Client, Login, Trouble},
    frontend,
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    let mut all = Vec::from(cases!("tls", Nothing: tls_is_asked_for_once));
    all.extend(cases!("tls", Pgsluice:
        each_encryption_is_asked_for_once, who_is_let_in_by_which_door, direct_tls_needs_the_protocols_name, nothing_in_the_clear_is_taken_for_encrypted,
        nothing_is_asked_for_inside, any_server_name_will_do, psql_verifies_and_binds, bindings_are_negotiated_honestly,
        certificates_say_who_it_is, unix_sockets_stay_as_they_are, cancel_in_any_way));
    all
}

fn proxy(world: &World, mode: &str, ca: Option<&Pair>) -> std::rc::Rc<Proxy> {
    world.proxy(&Setup::default().size(2).top(&tls(&[towards_clients(world.papers(), mode, ca)])))
}

fn tls_is_asked_for_once(world: &World) {
    let mut client = Client::dial(world.proxy(&Setup::default()).port).expect("connect");
    client.send(&frontend::ssl_request()).expect("send");
    assert_eq!(client.recv_byte().expect("an answer"), b'N');
    client.send(&frontend::ssl_request()).expect("send");
    assert_eq!(client.recv_until(b'E', 1).0.letters(), "E(0A000)");
}

/// PostgreSQL answers each once, in either order (ProcessStartupPacket); ours has no GSSAPI.
fn each_encryption_is_asked_for_once(world: &World) {
    let port = world.proxy(&Setup::default()).port;
    for (requests, last) in [
        ([frontend::ssl_request(), frontend::ssl_request()], "E(0A000)"),
        ([frontend::gssenc_request(), frontend::gssenc_request()], "E(0A000)"),
        ([frontend::ssl_request(), frontend::gssenc_request()], "N"),
        ([frontend::gssenc_request(), frontend::ssl_request()], "N"),
    ] {
        let mut client = Client::dial(port).expect("connect");
        client.send(&requests[0]).expect("send");
        assert_eq!(client.recv_byte().expect("an answer"), b'N');
        client.send(&requests[1]).expect("send");
        let answer = match last {
            "N" => char::from(client.recv_byte().expect("an answer")).to_string(),
            _ => client.recv_until(b'E', 1).0.letters(),
        };
        assert_eq!(answer, last, "{requests:?}");
    }
}

fn who_is_let_in_by_which_door(world: &World) {
    let papers = world.papers();
    let (none, app, stranger) = (None, Some(&papers.app), Some(&papers.stranger));
    let (clear, asked, direct) = (Door::Clear, Door::Asked, Door::Direct);
    let without_ca: &[(&str, Door, Option<&Pair>, &str)] = &[
        ("disable", clear, none, "in"),
        ("disable", asked, none, "N"),
        ("disable", direct, none, "no TLS"),
        ("prefer", clear, none, "in"),
        ("prefer", asked, none, "in"),
        ("prefer", direct, none, "in"),
        // Nobody asks for it, so nobody sees it.
        ("prefer", asked, stranger, "in"),
        ("require", clear, none, "FATAL 28000 connections without TLS are not accepted"),
        ("require", asked, none, "in"),
        ("require", direct, none, "in"),
        ("require", asked, app, "in"),
    ];
    let with_ca: &[(&str, Door, Option<&Pair>, &str)] = &[
        ("prefer", clear, none, "in"),
        ("require", clear, none, "FATAL 28000 connections without TLS are not accepted"),
        ("require", asked, none, "in"),
        ("require", asked, app, "in"),
        ("require", asked, stranger, "no TLS"),
        ("verify", clear, none, "FATAL 28000 connections without TLS are not accepted"),
        ("verify", asked, none, "FATAL 28000 connection requires a valid client certificate"),
        ("verify", direct, none, "FATAL 28000 connection requires a valid client certificate"),
        ("verify", asked, app, "in"),
        ("verify", direct, app, "in"),
        ("verify", asked, stranger, "no TLS"),
        ("verify", direct, stranger, "no TLS"),
    ];
    for (rows, ca) in [(without_ca, None), (with_ca, Some(&papers.ca))] {
        for (mode, door, certificate, expected) in rows {
            let proxy = match *mode {
                "disable" => world.proxy(&Setup::default().size(2)),
                mode => proxy(world, mode, ca),
            };
            for versions in [&[&TLS12], &[&TLS13]] {
                let hello = Hello { certificate: *certificate, versions, ..Hello::default() };
                let got = match login(proxy.port, *door, &hello.config(papers), &Login::default()) {
                    Ok(mut client) => {
                        assert_eq!(client.value("select 1"), "1");
                        "in".to_owned()
                    }
                    Err(words) => words,
                };
                let named = certificate.map(|pair| shown(&pair.cert));
                assert!(got.starts_with(expected), "{mode} {door:?} {named:?}: {got}, expected {expected}");
            }
        }
    }
}

/// B259: PostgreSQL 17 asks for ALPN where no SSLRequest says which protocol is meant.
fn direct_tls_needs_the_protocols_name(world: &World) {
    let (papers, port) = (world.papers(), proxy(world, "prefer", None).port);
    let come = |door, alpn| {
        let hello = Hello { alpn, ..Hello::default() };
        login(port, door, &hello.config(papers), &Login::default()).map(|_| ())
    };
    assert_eq!(come(Door::Direct, &[b"postgresql"]), Ok(()));
    assert_eq!(come(Door::Direct, &[b"h2", b"postgresql"]), Ok(()));
    let refusal = come(Door::Direct, &[]).expect_err("it was let in");
    assert!(refusal.starts_with("FATAL 08P01 direct TLS needs the ALPN"), "{refusal}");
    assert!(come(Door::Direct, &[b"h2"]).expect_err("it was let in").starts_with("no TLS"));
    assert_eq!(come(Door::Asked, &[]), Ok(()));
    assert!(come(Door::Asked, &[b"h2"]).expect_err("it was let in").starts_with("no TLS"));
}

/// B260, CVE-2021-23214.
fn nothing_in_the_clear_is_taken_for_encrypted(world: &World) {
    let port = proxy(world, "prefer", None).port;
    let ssl = frontend::ssl_request();
    for behind in [Login::default().packet(), frontend::query("select 1"), vec![0x16], frontend::ssl_request()] {
        let mut client = Client::dial(port).expect("connect");
        client.send(&[ssl.clone(), behind].concat()).expect("send");
        let (reply, trouble) = client.recv_until(b'\0', 1);
        assert_eq!(reply.letters(), "E(08P01)");
        assert_eq!(trouble.expect("an end").to_string(), "EOF");
    }
    // Behind what is answered N everything is in the clear, before and after.
    let mut client = Client::dial(port).expect("connect");
    client.send(&[frontend::gssenc_request(), ssl].concat()).expect("send");
    assert_eq!(client.recv_byte().expect("an answer"), b'N');
    assert_eq!(client.recv_byte().expect("an answer"), b'S');
}

fn nothing_is_asked_for_inside(world: &World) {
    let (papers, port) = (world.papers(), proxy(world, "prefer", None).port);
    for request in [frontend::ssl_request(), frontend::gssenc_request()] {
        let mut client = enter(port, Door::Asked, &Hello::default().config(papers)).expect("TLS");
        client.send(&request).expect("send");
        assert_eq!(client.recv_until(b'E', 1).0.letters(), "E(0A000)");
    }
}

/// B265: names that match no certificate, none at all, an address.
fn any_server_name_will_do(world: &World) {
    let port = proxy(world, "prefer", None).port;
    for host in ["host=localhost", "host=localhost.", "host=foo.invalid", "host=127.0.0.1", "host=localhost sslsni=0"] {
        assert_eq!(psql(world, port, &format!("{host} sslmode=require"), "select 1").as_deref(), Ok("1"), "{host}");
    }
}

/// B240, B241 with libpq's own implementation.
fn psql_verifies_and_binds(world: &World) {
    let papers = world.papers();
    let verifier = Verifier::from_password(b"secret").to_string();
    // One proxy knows the password itself, the other what is kept of it.
    let stored = format!("{{ name: app, password: \"{verifier}\" }}, {{ name: postgres, password: secret }}");
    let servers = "  stored: { dbname: app, nodes: [{nodes}], server_user: app, server_password: secret }\n";
    let top = tls(&[towards_clients(papers, "require", None)]);
    let setup = Setup::default().size(2).top(&top);
    let by_password = world.proxy(&setup);
    let by_verifier = world.proxy(&setup.databases(servers).users(&stored));
    let (ca, other) = (shown(&papers.ca.cert), shown(&papers.other.cert));
    for (port, dbname) in [(by_password.port, "app"), (by_verifier.port, "stored")] {
        for binding in ["require", "prefer", "disable"] {
            let conninfo = format!(
                "host=localhost dbname={dbname} sslmode=verify-full sslrootcert={ca} channel_binding={binding}"
            );
            assert_eq!(psql(world, port, &conninfo, "select 1").as_deref(), Ok("1"), "{conninfo}");
        }
        for (conninfo, words) in [
            (format!("host=localhost sslmode=verify-full sslrootcert={other}"), "certificate verify failed"),
            (format!("host=127.0.0.1 sslmode=verify-full sslrootcert={ca}"), "does not match host name"),
            ("host=localhost sslmode=disable".to_owned(), "connections without TLS are not accepted"),
        ] {
            let refused =
                psql(world, port, &format!("{conninfo} dbname={dbname}"), "select 1").expect_err("it was let in");
            assert!(refused.contains(words), "{conninfo}: {refused}");
        }
        // libpq's allow begins in the clear and comes again.
        let conninfo = format!("host=localhost dbname={dbname} sslmode=allow");
        assert_eq!(psql(world, port, &conninfo, "select 1").as_deref(), Ok("1"));
        let wrong = psql(world, port, "host=localhost sslmode=require user=bob password=x", "select 1")
            .expect_err("it was let in");
        assert!(wrong.contains("password authentication failed for user \"bob\""), "{wrong}");
    }
    let clear = world.proxy(&Setup::default().size(2)).port;
    let refused = psql(world, clear, "host=localhost channel_binding=require", "select 1").expect_err("it was let in");
    assert!(refused.contains("channel binding"), "{refused}");
}

/// B241: whoever says that we offer no binding, though we do, has somebody in between.
fn bindings_are_negotiated_honestly(world: &World) {
    let (papers, port) = (world.papers(), proxy(world, "prefer", None).port);
    let config = Hello::default().config(papers);
    for (door, mechanism, first, expected) in [
        (Door::Clear, "SCRAM-SHA-256", "n,,n=,r=abc", "R"),
        (Door::Clear, "SCRAM-SHA-256", "y,,n=,r=abc", "R"),
        (Door::Clear, "SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc", "E(08P01)"),
        (Door::Asked, "SCRAM-SHA-256", "n,,n=,r=abc", "R"),
        (Door::Asked, "SCRAM-SHA-256", "y,,n=,r=abc", "E(08P01)"),
        (Door::Asked, "SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc", "R"),
        (Door::Asked, "SCRAM-SHA-256-PLUS", "p=tls-unique,,n=,r=abc", "E(08P01)"),
        (Door::Asked, "SCRAM-SHA-256-PLUS", "n,,n=,r=abc", "E(08P01)"),
    ] {
        let mut client = enter(port, door, &config).expect("TLS");
        client.send(&Login::default().packet()).expect("send");
        let offer = client.recv().expect("an offer");
        let plus = offer.body.windows(18).any(|part| part == b"SCRAM-SHA-256-PLUS");
        assert_eq!(plus, door != Door::Clear, "PLUS is offered over TLS and only there");
        client.send(&frontend::sasl_initial(mechanism, first.as_bytes())).expect("send");
        let answer = client.recv().expect("an answer").render(crate::backend::Detail::Letters);
        assert!(answer.starts_with(expected), "{door:?} {mechanism} {first}: {answer}");
    }
}

fn certificates_say_who_it_is(world: &World) {
    let papers = world.papers();
    let top = tls(&[towards_clients(papers, "prefer", Some(&papers.ca))]);
    let setup = Setup::default().size(2).top(&top);
    let by_method = world.proxy(&setup.clone().auth("cert"));
    let hba = papers.dir.join("hba.conf");
    std::fs::write(&hba, "hostssl all bob all cert\nhostssl all all all cert\n").expect("write");
    let by_line = world.proxy(&setup.auth(&format!("hba_file: {hba:?}")));
    let (app, bob) = (Some(&papers.app), Some(&papers.bob));
    for (door, certificate, user, expected) in [
        (Door::Asked, app, "app", "in"),
        (Door::Direct, app, "app", "in"),
        (Door::Asked, bob, "bob", "in"),
        (Door::Asked, bob, "app", "FATAL 28000 certificate authentication failed for user \"app\""),
        (Door::Asked, app, "App", "FATAL 28000 certificate authentication failed for user \"App\""),
        (Door::Asked, None, "app", "FATAL 28000 connection requires a valid client certificate"),
        (Door::Asked, Some(&papers.stranger), "app", "no TLS"),
    ] {
        for proxy in [&by_method, &by_line] {
            let hello = Hello { certificate, ..Hello::default() };
            let came = login(proxy.port, door, &hello.config(papers), &Login::default().user(user));
            let got = came.map_or_else(
                |words| words,
                |mut client| {
                    assert_eq!(client.value("select current_user"), user);
                    assert!(
                        client.greeting.iter().all(|m| m.tag != b'R' || m.body == [0; 4]),
                        "no password is asked for"
                    );
                    "in".to_owned()
                },
            );
            assert_eq!(got.get(..expected.len()), Some(expected), "{door:?} {user}: {got}");
        }
    }
    let clear = |proxy: &Proxy| {
        login(proxy.port, Door::Clear, &Hello::default().config(papers), &Login::default()).expect_err("it was let in")
    };
    assert_eq!(clear(&by_method), "FATAL 28000 connection requires a valid client certificate");
    assert!(clear(&by_line).starts_with("FATAL 28000 no pg_hba.conf entry"), "{}", clear(&by_line));
    let paper = format!("sslcert={} sslkey={}", shown(&papers.app.cert), shown(&papers.app.key));
    let conninfo = format!("host=localhost sslmode=require {paper}");
    assert_eq!(psql(world, by_method.port, &conninfo, "select current_user").as_deref(), Ok("app"));
}

/// As PostgreSQL's: no TLS there, and what is asked of TCP clients is not asked of them.
fn unix_sockets_stay_as_they_are(world: &World) {
    let papers = world.papers();
    let proxy = proxy(world, "verify", Some(&papers.ca));
    let dir = proxy.config.with_extension("sockets");
    std::fs::create_dir_all(&dir).expect("a directory");
    let text = std::fs::read_to_string(&proxy.config).expect("the configuration");
    let (config, log) = (proxy.config.with_extension("both.yaml"), proxy.config.with_extension("both.log"));
    let port = pgsluice::cli::demo::cluster::free_ports(2).expect("ports");
    let text = text
        .replace(
            &format!("listen: 127.0.0.1:{}\n", proxy.port),
            &format!("listen: [\"127.0.0.1:{}\", {dir:?}]\n", port[0]),
        )
        .replace(&format!("127.0.0.1:{}\"", proxy.admin), &format!("127.0.0.1:{}\"", port[1]));
    std::fs::write(&config, text).expect("write");
    let arguments = ["run".as_ref(), "-c".as_ref(), config.as_os_str()];
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_pgsluice"));
    let again = pgsluice::cli::demo::Tethered::start(binary, &arguments, &log).expect("start");
    let socket = |conninfo: &str| {
        let mut command = world.cluster().binaries().command("psql");
        command.env("PGPASSWORD", "secret").args(["-XAtq", "-c", "select 1"]);
        command.arg(format!("host={} port={} dbname=app user=app {conninfo}", dir.display(), port[0]));
        let out = command.output().expect("run psql");
        String::from_utf8_lossy(if out.status.success() { &out.stdout } else { &out.stderr }).trim().to_owned()
    };
    eventually("the socket", || dir.join(format!(".s.PGSQL.{}", port[0])).exists());
    eventually("an answer", || socket("") == "1");
    // libpq does not even ask.
    assert_eq!(socket("sslmode=require"), "1");
    let mut bare = std::os::unix::net::UnixStream::connect(dir.join(format!(".s.PGSQL.{}", port[0]))).expect("connect");
    bare.set_read_timeout(Some(crate::client::PATIENCE)).expect("a timeout");
    let mut answer = [0; 1];
    bare.write_all(&frontend::ssl_request()).and_then(|()| bare.read_exact(&mut answer)).expect("an answer");
    assert_eq!(answer, *b"N");
    drop(again);
}

/// CancelRequest over TLS, and in the clear where TLS is required, as libpq before 17 sends it.
fn cancel_in_any_way(world: &World) {
    let papers = world.papers();
    let proxy = proxy(world, "require", None);
    let config = Hello::default().config(papers);
    for door in [Door::Asked, Door::Direct, Door::Clear] {
        let mut client = login(proxy.port, Door::Asked, &config, &Login::default()).expect("login");
        client.send(&frontend::query("select pg_sleep(30)")).expect("send");
        eventually("it to sleep", || {
            let running =
                "select count(*) from pg_stat_activity where query = 'select pg_sleep(30)' and state = 'active'";
            world.cluster().nodes().iter().any(|node| world.ask(node, "postgres", running) != "0")
        });
        let mut other = enter(proxy.port, door, &config).expect("a second connection");
        other.send(&frontend::cancel_request(client.pid, &client.key)).expect("send");
        assert!(matches!(other.recv(), Err(Trouble::Eof)), "nothing is said");
        assert_eq!(client.recv_until(b'Z', 1).0.sqlstate().as_deref(), Some("57014"), "{door:?}");
        assert_eq!(client.value("select 1"), "1");
    }
}
