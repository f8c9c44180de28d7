//! First packets, honest and hostile.

use super::*;
use crate::{
    base::{Report, SqlState},
    wire::frontend,
};

fn packet(protocol: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    frontend::startup(&mut out, protocol, parameters);
    out
}

/// A packet of this body with the right length in front.
fn raw(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn message(protocol: u32, parameters: &[(&str, &str)]) -> StartupMessage {
    match next_first(&packet(protocol, parameters)) {
        Ok(Some((First::Startup(message), _))) => message,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(bytes: &[u8], sqlstate: SqlState, words: &str) {
    let error = next_first(bytes).unwrap_err();
    assert_eq!((error.sqlstate(), error.to_client().as_ref()), (sqlstate, words));
}

#[test]
fn requests_before_login_are_told_apart() {
    let mut bytes = Vec::new();
    frontend::ssl_request(&mut bytes);
    assert_eq!(next_first(&bytes), Ok(Some((First::Ssl, 8))));
    bytes.extend_from_slice(b"injected");
    assert_eq!(next_first(&bytes), Ok(Some((First::Ssl, 8))), "the caller sees that more is there");
    bytes.clear();
    frontend::gssenc_request(&mut bytes);
    assert_eq!(next_first(&bytes), Ok(Some((First::Gssenc, 8))));
    for len in [4, 32, 256] {
        let key = vec![9; len];
        bytes.clear();
        frontend::cancel_request(&mut bytes, 77, &key);
        assert_eq!(next_first(&bytes), Ok(Some((First::Cancel(CancelRequest { pid: 77, key }), 12 + len))));
    }
}

#[test]
fn every_prefix_needs_more() {
    let bytes = packet(196_608, &[("user", "u"), ("database", "d")]);
    for end in 0..bytes.len() {
        assert_eq!(next_first(&bytes[..end]), Ok(None), "{end}");
    }
}

#[test]
fn impossible_lengths_are_refused_at_once() {
    const WORDS: &str = "invalid length of startup packet";
    let long = 4 + MAX_STARTUP as u32;
    for len in [0, 1, 3, 4, 7, long + 1, 0x7fff_ffff, u32::MAX] {
        refused(&len.to_be_bytes(), SqlState::PROTOCOL_VIOLATION, WORDS);
    }
    refused(b"GET / HTTP/1.1\r\n", SqlState::PROTOCOL_VIOLATION, WORDS);
    assert_eq!(next_first(&long.to_be_bytes()), Ok(None));
    refused(&raw(b"\x04\xd2\x16\x2fx"), SqlState::PROTOCOL_VIOLATION, WORDS);
    for len in [0, 3, 257] {
        let mut cancel = Vec::new();
        frontend::cancel_request(&mut cancel, 1, &vec![1; len]);
        refused(&cancel, SqlState::PROTOCOL_VIOLATION, WORDS);
    }
    refused(&raw(b"\x04\xd2\x16\x2e\0\0"), SqlState::PROTOCOL_VIOLATION, "insufficient data left in message");
}

#[test]
fn layouts_are_checked_to_the_last_byte() {
    const WORDS: &str = "invalid startup packet layout: expected terminator as last byte";
    for body in
        [&b""[..], b"user\0u\0", b"user\0u\0database", b"user\0u\0database\0d", b"user\0u\0\0x", b"user\0", b"user"]
    {
        refused(&raw(&[b"\0\x03\0\0", body].concat()), SqlState::PROTOCOL_VIOLATION, WORDS);
    }
    const NO_USER: &str = "no PostgreSQL user name specified in startup packet";
    refused(&packet(196_608, &[]), SqlState::INVALID_AUTHORIZATION, NO_USER);
    refused(&packet(196_608, &[("user", ""), ("database", "d")]), SqlState::INVALID_AUTHORIZATION, NO_USER);
    assert_eq!(next_first(&raw(b"\0\x03\0\0user\0\xff\0\0")), Err(StartupError::NotUtf8));
}

#[test]
fn parameters_are_sorted_out() {
    let m = message(
        196_608,
        &[
            ("user", "u"),
            ("application_name", "psql"),
            ("_pq_.x", "1"),
            ("options", "-c geqo=off"),
            ("Application_Name", "again"),
        ],
    );
    assert_eq!((m.user.as_str(), m.database.as_str()), ("u", "u"));
    assert_eq!(m.options.as_deref(), Some("-c geqo=off"));
    assert_eq!(m.option_settings(), Ok(vec![("geqo".to_owned(), "off".to_owned())]));
    assert_eq!(m.unknown_options, ["_pq_.x"]);
    assert_eq!(m.parameters.len(), 2);
    assert_eq!((m.parameter("application_name"), m.parameter("TimeZone")), (Some("again"), None));
    assert_eq!(message(196_608, &[("user", "u"), ("database", "")]).database, "u");
    assert_eq!(message(196_608, &[("user", "u"), ("user", "v"), ("database", "d")]).user, "v");
}

#[test]
fn replication_takes_postgresqls_booleans() {
    use Replication::{Logical, No, Physical};
    let check =
        |value, expected| assert_eq!(message(196_608, &[("user", "u"), ("replication", value)]).replication, expected);
    for (value, expected) in
        [("database", Logical), ("true", Physical), ("ON", Physical), ("y", Physical), ("1", Physical)]
    {
        check(value, expected);
    }
    for value in ["false", "f", "of", "OFF", "no", "0"] {
        check(value, No);
    }
    for value in ["", "o", "maybe", "truely"] {
        let bytes = packet(196_608, &[("user", "u"), ("replication", value)]);
        assert_eq!(next_first(&bytes), Err(StartupError::BadReplication), "{value}");
    }
}

#[test]
fn versions_are_negotiated_down_never_up() {
    let check = |asked: u32, option: &str, agreed, negotiates| {
        let m = message(asked, &[("user", "u"), (option, "x")]);
        assert_eq!((m.agreed().code(), m.needs_negotiation()), (agreed, negotiates), "{asked} {option}");
    };
    check(196_608, "a", 196_608, false);
    check(196_609, "a", 196_608, true);
    check(196_610, "a", 196_610, false);
    check(196_611, "a", 196_610, true);
    check(196_608 + 9999, "_pq_.test_protocol_negotiation", 196_610, true);
    check(196_608, "_pq_.x", 196_608, true);
    check(196_610, "_pq_.x", 196_610, true);
    refused(
        &packet(4 << 16, &[("user", "u")]),
        SqlState::FEATURE_NOT_SUPPORTED,
        "unsupported frontend protocol 4.0: server supports 3.0 to 3.2",
    );
    assert!(next_first(&packet(2 << 16, &[("user", "u")])).is_err());
}

#[test]
fn options_are_split_as_postgresql_does() {
    let check = |options: &str, expected: &[(&str, &str)]| {
        let expected = expected.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect::<Vec<_>>();
        assert_eq!(split_options(options), Ok(expected), "{options}");
    };
    check("", &[]);
    check(" \t ", &[]);
    check("-c a=b", &[("a", "b")]);
    check("-ca=b  --c-d=e", &[("a", "b"), ("c_d", "e")]);
    check(r"-c search_path=a,\ b", &[("search_path", "a, b")]);
    check(r"-c a=\\b\", &[("a", r"\b")]);
    check("-c a=b=c -c a=", &[("a", "b=c"), ("a", "")]);
    for bad in ["x", "-c", "-c a", "--a", "--", "-c =b", "-B 5", "-d5", "-c a=b c"] {
        let error = split_options(bad).unwrap_err();
        assert_eq!(error.sqlstate(), SqlState::INVALID_PARAMETER_VALUE, "{bad}");
    }
}
