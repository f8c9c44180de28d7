//! Before and during login: methods, refusals, odd packets, and clients that never finish.

use std::time::{Duration, Instant};

use crate::{
    Case,
    backend::Msg,
    cases,
    client::{Client, Login, Trouble, V3},
    frontend,
    world::{Setup, World},
};

pub fn cases() -> Vec<Case> {
    let mut all = Vec::from(cases!("login", Nothing:
        by_scram, wrong_password_and_unknown_user_look_the_same, encryption_is_refused_in_one_byte,
        versions_are_negotiated, parameters_are_reported, a_reset_tells_what_startup_asked_for, rubbish_before_login, rubbish_after_login,
        terminate_instead_of_a_password));
    all.extend(cases!("login", Pgsluice:
        by_md5_and_trust, gssapi_is_refused_in_one_byte, unknown_database, a_silent_client_is_cut, silent_clients_keep_nobody_out, too_many_clients));
    all
}

fn refusal(port: u16, login: &Login) -> String {
    match Client::login(port, login) {
        Err(Trouble::Refused(msg)) => {
            format!("{} {}", msg.field(b'S').unwrap_or_default(), msg.sqlstate().unwrap_or_default())
        }
        Err(other) => other.to_string(),
        Ok(_) => "let in".to_owned(),
    }
}

fn by_scram(world: &World) {
    let mut client = world.proxy(&Setup::default()).login();
    assert_eq!(client.value("select current_user"), "app");
    assert!(client.greeting.iter().any(|m| m.body.starts_with(&10i32.to_be_bytes())), "no SASL was asked for");
    assert_ne!(client.pid, 0, "no BackendKeyData");
}

fn by_md5_and_trust(world: &World) {
    for (method, request) in [("md5", 5i32), ("trust", 0)] {
        let proxy = world.proxy(&Setup::default().auth(method));
        let mut client = proxy.login();
        assert_eq!(client.value("select current_user"), "app");
        assert!(
            client.greeting.iter().any(|m| m.tag == b'R' && m.body.starts_with(&request.to_be_bytes())),
            "{method}"
        );
    }
    assert_eq!(
        refusal(world.proxy(&Setup::default().auth("md5")).port, &Login::default().password("x")),
        "FATAL 28P01"
    );
}

fn wrong_password_and_unknown_user_look_the_same(world: &World) {
    let port = world.proxy(&Setup::default()).port;
    for login in
        [Login::default().password("wrong"), Login::default().password(""), Login::default().user("nobody_like_that")]
    {
        assert_eq!(refusal(port, &login), "FATAL 28P01", "{login:?}");
    }
}

fn unknown_database(world: &World) {
    let port = world.proxy(&Setup::default()).port;
    assert_eq!(refusal(port, &Login::default().database("nosuch")), "FATAL 3D000");
}

fn encryption_is_refused_in_one_byte(world: &World) {
    let port = world.proxy(&Setup::default()).port;
    let mut client = Client::dial(port).expect("connect");
    client.send(&frontend::ssl_request()).expect("send");
    assert_eq!(client.recv_byte().expect("an answer"), b'N');
    client.send(&Login::default().packet()).expect("send");
    assert_eq!(client.recv().expect("a request for a password").tag, b'R');
}

/// libpq asks for GSSAPI first, then for TLS, then logs in, all on one connection.
fn gssapi_is_refused_in_one_byte(world: &World) {
    let mut client = Client::dial(world.proxy(&Setup::default()).port).expect("connect");
    for request in [frontend::gssenc_request(), frontend::ssl_request()] {
        client.send(&request).expect("send");
        assert_eq!(client.recv_byte().expect("an answer"), b'N');
    }
    client.send(&Login::default().packet()).expect("send");
    assert_eq!(client.recv().expect("a request for a password").tag, b'R');
}

/// B049: a newer minor version and unknown `_pq_` options are answered, not refused and never passed on as settings.
fn versions_are_negotiated(world: &World) {
    let port = world.proxy(&Setup::default()).port;
    let newer = |version: u32| Login::default().version(version).param("_pq_.test_protocol_negotiation", "1");
    for version in [V3 + 9999, V3 + 1] {
        let client = Client::login(port, &newer(version)).unwrap_or_else(|t| panic!("3.{}: {t}", version - V3));
        let negotiated = client.greeting.first().expect("a first message");
        assert_eq!(negotiated.tag, b'v', "NegotiateProtocolVersion comes first");
        assert!(negotiated.body.ends_with(b"_pq_.test_protocol_negotiation\0"), "{negotiated:?}");
    }
    assert_eq!(refusal(port, &Login::default().version(4 << 16)), "FATAL 0A000");
}

fn parameters_are_reported(world: &World) {
    let proxied = world
        .proxy(&Setup::default())
        .login_as(&Login::default().param("application_name", "me").param("TimeZone", "Asia/Seoul"));
    let login = Login::default().param("application_name", "me").param("TimeZone", "Asia/Seoul");
    let native = Client::login(world.cluster().primary().port(), &login).expect("login");
    let sorted = |client: &Client| {
        let mut all = client.parameters.clone();
        all.sort();
        all
    };
    assert_eq!(sorted(&proxied), sorted(&native));
}

/// A client that believes what it is told (pgjdbc its time zone) must be told its own default, not that of the server it was lent.
fn a_reset_tells_what_startup_asked_for(world: &World) {
    let asked = Login::default().param("application_name", "mine").param("TimeZone", "Asia/Seoul");
    let mut client = world.proxy(&Setup::default()).login_as(&asked);
    let mut told = client.parameters.clone();
    let says = [
        "reset application_name",
        "set timezone = 'UTC'",
        "reset timezone",
        "set application_name = 'x'; set timezone = 'Asia/Tokyo'",
        "begin; reset all; commit",
        "set application_name = ''",
        "discard all",
    ];
    for sql in says {
        let mut said = client.query(sql).0;
        // What is told behind ReadyForQuery comes before the next answer.
        said.extend(client.query("select 1").0);
        for (name, value) in said.iter().filter_map(Msg::parameter) {
            told.iter_mut().find(|(n, _)| *n == name).expect("a parameter reported at login").1 = value;
        }
        for name in ["application_name", "TimeZone"] {
            let known = told.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
            assert_eq!(known, Some(client.value(&format!("show {name}"))), "{name} after {sql}");
        }
    }
}

/// Whatever comes before login, the answer is an error or the end of the connection, and others go on.
fn rubbish_before_login(world: &World) {
    let proxy = world.proxy(&Setup::default());
    let long = [0u8; 20_000];
    let table: &[(&str, &[u8])] = &[
        ("an HTTP request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("a TLS hello without SSLRequest", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        ("length zero", b"\0\0\0\0\0\0\0\0"),
        ("length below the least", b"\0\0\0\x07\0\x03\0\0"),
        ("length negative", b"\xff\xff\xff\xff\0\x03\0\0"),
        ("length above the cap", b"\0\x10\0\0\0\x03\0\0"),
        ("no user", b"\0\0\0\x09\0\x03\0\0\0"),
        ("a name without end", b"\0\0\0\x0e\0\x03\0\0userxx"),
        ("a name without value", b"\0\0\0\x0e\0\x03\0\0user\0\0"),
        ("an unknown code", b"\0\0\0\x08\x04\xd2\x16\x2a"),
        ("a cancel request cut short", b"\0\0\0\x0a\x04\xd2\x16\x2e\0\0"),
        ("many zeros", &long),
    ];
    for (what, bytes) in table {
        let mut client = Client::dial(proxy.port).expect("connect");
        // It may be closed before all is written.
        let _ = client.send(bytes);
        let _ = client.half_close();
        let (reply, trouble) = client.recv_until(b'\0', 1);
        assert!(reply.0.iter().all(|m| m.tag == b'E'), "{what}: {}", reply.letters());
        assert_eq!(trouble.expect("an end").to_string(), "EOF", "{what}");
        assert_eq!(proxy.login().value("select 1"), "1", "after {what}");
    }
}

/// Malformed messages of a client that is in: 08P01, and nobody else notices.
fn rubbish_after_login(world: &World) {
    let proxy = world.proxy(&Setup::default());
    let table: &[(&str, &[u8])] = &[
        ("an unknown type", b"y\0\0\0\x04"),
        ("a password out of place", b"p\0\0\0\x06x\0"),
        ("length zero", b"Q\0\0\0\0"),
        ("length three", b"Q\0\0\0\x03"),
        ("length negative", b"Q\xff\xff\xff\xff"),
        ("a query without end", b"Q\0\0\0\x08sele"),
        ("Parse without end", b"P\0\0\0\x06xyS\0\0\0\x04"),
        ("Bind cut short", b"B\0\0\0\x06\0\0S\0\0\0\x04"),
        ("Bind with more values than it has", b"B\0\0\0\x0a\0\0\0\0\0\x7fS\0\0\0\x04"),
        ("Describe of neither", b"D\0\0\0\x06x\0S\0\0\0\x04"),
        ("Close of neither", b"C\0\0\0\x06x\0S\0\0\0\x04"),
        ("Execute cut short", b"E\0\0\0\x06\0\0S\0\0\0\x04"),
        ("Sync with a body", b"S\0\0\0\x05x"),
    ];
    let mut other = proxy.login();
    for (what, bytes) in table {
        let mut client = proxy.login();
        client.send(bytes).expect("send");
        let _ = client.half_close();
        let (reply, trouble) = client.recv_until(b'\0', 1);
        let first = reply.0.iter().find(|m| m.tag == b'E');
        let state = first.and_then(|m| m.sqlstate());
        assert!(reply.0.iter().all(|m| b"EZ1".contains(&m.tag)), "{what}: {}", reply.letters());
        assert!(matches!(state.as_deref(), None | Some("08P01" | "26000")), "{what}: {state:?}");
        assert_eq!(trouble.expect("an end").to_string(), "EOF", "{what}");
        assert_eq!(other.value("select 1"), "1", "after {what}");
    }
}

fn terminate_instead_of_a_password(world: &World) {
    let mut client = Client::dial(world.proxy(&Setup::default()).port).expect("connect");
    client.send(&Login::default().packet()).expect("send");
    assert_eq!(client.recv().expect("a request").tag, b'R');
    client.send(&frontend::terminate()).expect("send");
    let (reply, trouble) = client.recv_until(b'\0', 1);
    assert!(reply.0.iter().all(|m| m.tag == b'E'), "{}", reply.letters());
    assert_eq!(trouble.expect("an end").to_string(), "EOF");
}

/// D140: one byte and then nothing must not hold a socket longer than `limits.login`.
fn a_silent_client_is_cut(world: &World) {
    let proxy = world.start_proxy(&Setup::default().top("limits: { login: 1s }"), world.cluster());
    for said in [&b""[..], b"\0", &Login::default().packet()] {
        let began = Instant::now();
        let mut client = Client::dial(proxy.port).expect("connect");
        client.send(said).expect("send");
        let (_, trouble) = client.recv_until(b'\0', 1);
        assert_eq!(trouble.expect("an end").to_string(), "EOF", "{said:?}");
        assert!(began.elapsed() < Duration::from_secs(5), "{said:?}: {:?}", began.elapsed());
    }
}

fn silent_clients_keep_nobody_out(world: &World) {
    let proxy = world.proxy(&Setup::default());
    let silent: Vec<Client> = (0..200).map(|_| Client::dial(proxy.port).expect("connect")).collect();
    assert_eq!(proxy.login().value("select 1"), "1");
    drop(silent);
}

fn too_many_clients(world: &World) {
    let proxy = world.start_proxy(&Setup::default().top("limits: { clients: 3 }"), world.cluster());
    let mut held: Vec<Client> = (0..3).map(|_| proxy.login()).collect();
    assert_eq!(refusal(proxy.port, &Login::default()), "FATAL 53300");
    assert_eq!(held[0].value("select 1"), "1");
    held.truncate(2);
    crate::world::eventually("a place to become free", || Client::login(proxy.port, &Login::default()).is_ok());
}
