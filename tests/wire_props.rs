//! Properties of the wire room: what is written is read back, and no bytes make it panic or read too far.

use std::sync::Arc;

use pgsluice::wire::{
    Frames, Head,
    backend::{self, Authentication, BackendKeyData, DataRow, ErrorFields, NegotiateProtocolVersion, RowDescription},
    frontend::{
        self, Bind, BindPrefix, Close, Describe, Execute, FunctionCall, Parse, Query, SaslInitial, What,
        bind_with_names,
    },
    next_head,
    scram::{ChannelBinding, MAX_SASL_MESSAGE, Nonce, Verifier, client, server},
    startup::{First, MAX_STARTUP, next_first, split_options},
};
use proptest::{collection::vec, option, prelude::*};

const CAP: u32 = 1 << 20;

/// Bytes without a zero: what a name or a text may hold.
fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(1u8.., 0..40)
}

/// The body of the single message in `out`.
fn body(out: &[u8]) -> &[u8] {
    match Frames::new(out, CAP).next() {
        Some(Ok(frame)) if frame.raw.len() == out.len() => frame.body,
        other => panic!("not one message: {other:?}"),
    }
}

/// A Bind as a client would write it.
fn bind(portal: &[u8], statement: &[u8], values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut body = [portal, b"\0", statement, b"\0\0\0"].concat();
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        let len = value.as_ref().map_or(-1, |v| v.len() as i32);
        body.extend_from_slice(&len.to_be_bytes());
        body.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    body.extend_from_slice(&[0, 0]);
    body
}

proptest! {
    #[test]
    fn frames_cover_what_they_consume(buf in vec(any::<u8>(), 0..300)) {
        let mut frames = Frames::new(&buf, CAP);
        let raw: Vec<u8> = frames.by_ref().filter_map(Result::ok).flat_map(|frame| frame.raw.to_vec()).collect();
        prop_assert_eq!(&raw[..], &buf[..frames.consumed()]);
    }

    #[test]
    fn a_stream_is_the_same_however_it_is_cut(bodies in vec(vec(any::<u8>(), 0..50), 0..10), cut in any::<prop::sample::Index>()) {
        let mut out = Vec::new();
        bodies.iter().for_each(|body| backend::copy_data(&mut out, body));
        let cut = cut.index(out.len() + 1);
        let mut front = Frames::new(&out[..cut], CAP);
        let mut seen: Vec<Vec<u8>> = front.by_ref().map(|frame| frame.unwrap().body.to_vec()).collect();
        seen.extend(Frames::new(&out[front.consumed()..], CAP).map(|frame| frame.unwrap().body.to_vec()));
        prop_assert_eq!(seen, bodies);
    }

    #[test]
    fn frontend_messages_round_trip(a in name(), b in name(), oids in vec(any::<u32>(), 0..9), rows in any::<i32>()) {
        let mut out = Vec::new();
        frontend::query(&mut out, &a);
        prop_assert_eq!(Query::parse(body(&out)), Ok(&a[..]));
        out.clear();
        frontend::parse(&mut out, &a, &b, &oids);
        let parse = Parse::parse(body(&out)).unwrap();
        prop_assert_eq!((parse.name, parse.text, parse.oids.iter().collect()), (&a[..], &b[..], oids));
        let mut renamed = Vec::new();
        frontend::parse_renamed(&mut renamed, &parse, b"other");
        prop_assert_eq!(Parse::parse(body(&renamed)), Ok(Parse { name: b"other", ..parse }));
        for what in [What::Statement, What::Portal] {
            out.clear();
            frontend::describe(&mut out, what, &a);
            prop_assert_eq!(Describe::parse(body(&out)), Ok(Describe { what, name: &a }));
            out.clear();
            frontend::close(&mut out, what, &a);
            prop_assert_eq!(Close::parse(body(&out)), Ok(Close { what, name: &a }));
        }
        out.clear();
        frontend::execute(&mut out, &a, rows);
        prop_assert_eq!(Execute::parse(body(&out)), Ok(Execute { portal: &a, max_rows: rows }));
        out.clear();
        frontend::sasl_initial(&mut out, "SCRAM-SHA-256", &b);
        prop_assert_eq!(SaslInitial::parse(body(&out)).unwrap().response, Some(&b[..]));
    }

    #[test]
    fn a_bind_keeps_its_values_under_any_name(
        (portal, old, new) in (name(), name(), name()),
        values in vec(option::of(vec(any::<u8>(), 0..30)), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = bind(&portal, &old, &values);
        let names = portal.len() + old.len() + 2;
        let cut = cut.index(whole.len() + 1);
        let prefix = BindPrefix::parse(&whole[..cut]).unwrap();
        prop_assert_eq!(prefix.is_some(), cut >= names, "as soon as both names are there");
        if let Some(prefix) = prefix {
            let mut out = Vec::new();
            let head = Head { tag: frontend::tag::BIND, len: 4 + whole.len() as u32 };
            let rest = bind_with_names(&mut out, head, &prefix, &new).unwrap();
            out.extend_from_slice(&whole[rest..]);
            let renamed = Bind::parse(body(&out)).unwrap();
            prop_assert_eq!((renamed.portal, renamed.statement), (&portal[..], &new[..]));
            let read: Vec<_> = renamed.values().map(|v| v.map(<[u8]>::to_vec)).collect();
            prop_assert_eq!(read, values);
        }
    }

    #[test]
    fn rows_round_trip(columns in vec(option::of(vec(any::<u8>(), 0..30)), 0..9)) {
        let borrowed: Vec<_> = columns.iter().map(Option::as_deref).collect();
        let mut out = Vec::new();
        backend::data_row(&mut out, &borrowed);
        let read: Result<Vec<_>, _> = DataRow::parse(body(&out)).unwrap().columns().collect();
        prop_assert_eq!(read, Ok(borrowed));
    }

    #[test]
    fn startup_round_trips(
        user in "[a-z]{1,20}",
        database in "[a-z]{1,20}",
        others in vec(("x[a-z]{0,9}", "[ -~]{0,20}"), 0..5),
    ) {
        let mut pairs = vec![("user", user.as_str()), ("database", database.as_str())];
        pairs.extend(others.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        let mut out = Vec::new();
        frontend::startup(&mut out, 196_608, &pairs);
        let Ok(Some((First::Startup(message), consumed))) = next_first(&out) else { panic!("not read: {out:?}") };
        prop_assert_eq!(consumed, out.len());
        prop_assert_eq!((message.user, message.database, message.parameters), (user, database, others));
    }

    #[test]
    fn options_round_trip(pairs in vec(("[a-z][a-z_.]{0,9}", "[ -~\t]{0,12}"), 0..5)) {
        let escape = |value: &str| value.chars().fold(String::new(), |mut out, c| {
            if c == '\\' || c.is_ascii_whitespace() { out.push('\\'); }
            out.push(c);
            out
        });
        let text: Vec<_> = pairs.iter().map(|(n, v)| format!("-c {n}={}", escape(v))).collect();
        prop_assert_eq!(split_options(&text.join(" ")), Ok(pairs));
    }

    #[test]
    fn the_first_packet_never_asks_for_more_than_its_cap(bytes in vec(any::<u8>(), 0..64)) {
        if let Ok(Some((_, consumed))) = next_first(&bytes) {
            prop_assert!(consumed <= bytes.len() && consumed <= 4 + MAX_STARTUP);
        }
    }

    #[test]
    fn nothing_panics(body in vec(any::<u8>(), 0..200)) {
        let _ = next_head(&body, CAP);
        let _ = (Query::parse(&body), Parse::parse(&body), BindPrefix::parse(&body), Describe::parse(&body));
        let _ = (Close::parse(&body), Execute::parse(&body), FunctionCall::parse(&body), SaslInitial::parse(&body));
        let _ = Bind::parse(&body).map(|bind| bind.values().count());
        let _ = (Authentication::parse(&body), BackendKeyData::parse(&body), NegotiateProtocolVersion::parse(&body));
        let _ = ErrorFields::parse(&body).map(|fields| (fields.sqlstate(), fields.iter().count()));
        let _ = RowDescription::parse(&body).map(|rows| rows.fields().count());
        let _ = DataRow::parse(&body).map(|row| row.columns().count());
    }

    #[test]
    fn any_password_logs_in_and_only_with_itself(password in ".{0,20}", other in ".{0,20}", bound in any::<bool>()) {
        let binding = if bound { ChannelBinding::ServerEndPoint(vec![1; 32]) } else { ChannelBinding::Unavailable };
        let verifier = Verifier::derive(password.as_bytes(), b"salt", 2);
        let given_fits = Verifier::derive(other.as_bytes(), b"salt", 2) == verifier;
        for (given, fits) in [(&password, true), (&other, given_fits)] {
            let opening = client::open(&binding, Nonce::random());
            let server = server::AwaitFirst::new(Arc::new(verifier.clone()), binding.clone(), Nonce::random());
            let (server, first) = server.client_first(opening.mechanism.as_bytes(), &opening.message).unwrap();
            let secret = client::ClientSecret::Password { password: given.as_bytes(), known: None };
            let (client, last) = opening.next.server_first(&first, secret).unwrap();
            match server.client_final(&last) {
                Ok(accepted) => {
                    prop_assert!(fits);
                    prop_assert!(client.server_final(&accepted.message).is_ok());
                }
                Err(fault) => {
                    prop_assert!(!fits);
                    prop_assert_eq!(fault, server::ClientFault::WrongProof);
                }
            }
        }
    }

    #[test]
    fn a_hostile_scram_peer_is_refused(message in vec(any::<u8>(), 0..MAX_SASL_MESSAGE + 9)) {
        let verifier = Arc::new(Verifier::derive(b"x", b"salt", 1));
        let await_first = || server::AwaitFirst::new(verifier.clone(), ChannelBinding::Unavailable, Nonce::random());
        let _ = await_first().client_first(b"SCRAM-SHA-256", &message);
        let (server, _) = await_first().client_first(b"SCRAM-SHA-256", b"n,,n=,r=abc").unwrap();
        prop_assert!(server.client_final(&message).is_err());
    }
}
