//! RFC 7677's example, both sides against each other, and clients and servers that cheat.

use std::sync::Arc;

use super::{client::*, server::*, *};
use crate::base::{Report, SqlState};

const THEIRS: &str = "rOprNGfwEbeRWgbNEkqO";
const OURS: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const FINAL: &str =
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

fn pencil() -> Arc<Verifier> {
    let salt = BASE64_STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    Arc::new(Verifier::derive(b"pencil", &salt, 4096))
}

/// Two rounds, so that the tests are quick.
fn cheap(password: &str) -> Arc<Verifier> {
    Arc::new(Verifier::derive(password.as_bytes(), b"salt", 2))
}

fn server(verifier: Arc<Verifier>, binding: ChannelBinding) -> AwaitFirst {
    AwaitFirst::new(verifier, binding, Nonce::fixed(OURS).unwrap())
}

fn password(password: &str) -> ClientSecret<'_> {
    ClientSecret::Password { password: password.as_bytes(), known: None }
}

/// A whole login; what the server says, and what the client then thinks of the server.
fn login(
    verifier: Arc<Verifier>,
    secret: ClientSecret<'_>,
    (ours, theirs): (ChannelBinding, ChannelBinding),
) -> Result<ClientKeys, ClientFault> {
    let opening = open(&theirs, Nonce::random());
    let (server, first) = server(verifier, ours).client_first(opening.mechanism.as_bytes(), &opening.message)?;
    let (client, last) = opening.next.server_first(&first, secret).unwrap();
    let accepted = server.client_final(&last)?;
    assert_eq!(client.server_final(&accepted.message), Ok(accepted.keys.clone()));
    Ok(accepted.keys)
}

const UNBOUND: (ChannelBinding, ChannelBinding) = (ChannelBinding::Unavailable, ChannelBinding::Unavailable);

fn bound_to(ours: &[u8], theirs: &[u8]) -> (ChannelBinding, ChannelBinding) {
    (ChannelBinding::ServerEndPoint(ours.to_vec()), ChannelBinding::ServerEndPoint(theirs.to_vec()))
}

#[test]
fn rfc_7677_example() {
    let (server, first) =
        server(pencil(), ChannelBinding::Unavailable).client_first(b"SCRAM-SHA-256", FIRST.as_bytes()).unwrap();
    let expected = format!("r={THEIRS}{OURS},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
    assert_eq!(String::from_utf8(first), Ok(expected));
    let accepted = server.client_final(FINAL.as_bytes()).unwrap();
    assert_eq!(accepted.message, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn both_sides_agree() {
    for text in ["secret", "", " lead and trail ", "a,b=c", "\u{1}\t\u{7f}", "pässwörd", "I\u{ad}X\u{a0}", "\u{627}1"]
    {
        let keys = login(cheap(text), password(text), UNBOUND).unwrap();
        assert!(login(cheap(text), ClientSecret::Keys(&keys), UNBOUND).is_ok(), "{text:?}");
        assert_eq!(login(cheap(text), password("other"), UNBOUND).unwrap_err(), ClientFault::WrongProof, "{text:?}");
    }
}

#[test]
fn passwords_are_normalised_as_postgresql_does() {
    let same = |a: &[u8], b: &[u8]| Verifier::derive(a, b"salt", 1) == Verifier::derive(b, b"salt", 1);
    assert!(same("I\u{ad}Xé".as_bytes(), "IXé".as_bytes()), "mapped to nothing");
    assert!(same("\u{a0}é".as_bytes(), " é".as_bytes()), "mapped to a space");
    assert!(same("e\u{301}".as_bytes(), "é".as_bytes()), "composed");
    assert!(!same("é\u{7}".as_bytes(), "é".as_bytes()), "prohibited: taken raw");
    assert!(!same(b"\xff", b""), "not UTF-8: taken raw");
    assert!(!same("\u{ad}".as_bytes(), b""), "nothing left: taken raw");
}

#[test]
fn channels_are_bound_or_refused() {
    let plus = ChannelBinding::ServerEndPoint(vec![1]);
    assert!(login(cheap("x"), password("x"), bound_to(b"cert", b"cert")).is_ok());
    let moved = login(cheap("x"), password("x"), bound_to(b"cert", b"other")).unwrap_err();
    assert_eq!(moved, ClientFault::BindingMismatch);
    assert!(login(cheap("x"), password("x"), (plus.clone(), ChannelBinding::Unavailable)).is_ok(), "n is allowed");
    let stripped = login(cheap("x"), password("x"), (ChannelBinding::Unavailable, plus.clone())).unwrap_err();
    assert_eq!(stripped, ClientFault::Mechanism, "PLUS was not offered");
    assert!(login(cheap("x"), password("x"), (ChannelBinding::Unavailable, ChannelBinding::NotOffered)).is_ok());
    let taken_away = login(cheap("x"), password("x"), (plus.clone(), ChannelBinding::NotOffered)).unwrap_err();
    assert_eq!(taken_away, ClientFault::BindingNegotiation, "y, though PLUS was offered");
    assert_eq!(server(cheap("x"), plus).mechanisms(), ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]);
    assert_eq!(server(cheap("x"), ChannelBinding::Unavailable).mechanisms(), ["SCRAM-SHA-256"]);
}

#[test]
fn first_messages_are_checked() {
    let plus = || ChannelBinding::ServerEndPoint(vec![1]);
    let none = || ChannelBinding::Unavailable;
    let check = |binding: ChannelBinding, mechanism: &str, message: &[u8], expected: Option<ClientFault>| {
        let fault = server(cheap("x"), binding).client_first(mechanism.as_bytes(), message).err();
        assert_eq!(fault, expected, "{mechanism} {}", String::from_utf8_lossy(message));
    };
    check(none(), SCRAM_SHA_256, b"n,,n=,r=abc", None);
    check(none(), SCRAM_SHA_256, b"y,,n=u,r=abc", None);
    check(none(), SCRAM_SHA_256, b"n,,n=u,r=abc,x=ext", None);
    check(plus(), SCRAM_SHA_256, b"n,,n=,r=abc", None);
    check(plus(), SCRAM_SHA_256_PLUS, b"p=tls-server-end-point,,n=,r=abc", None);
    check(plus(), SCRAM_SHA_256, b"y,,n=,r=abc", Some(ClientFault::BindingNegotiation));
    check(plus(), SCRAM_SHA_256_PLUS, b"n,,n=,r=abc", Some(ClientFault::BindingNegotiation));
    check(plus(), SCRAM_SHA_256_PLUS, b"p=tls-unique,,n=,r=abc", Some(ClientFault::BindingType));
    check(none(), SCRAM_SHA_256, b"p=tls-unique,,n=,r=abc", Some(ClientFault::BindingNegotiation));
    check(none(), SCRAM_SHA_256_PLUS, b"n,,n=,r=abc", Some(ClientFault::Mechanism));
    check(none(), "SCRAM-SHA-1", b"n,,n=,r=abc", Some(ClientFault::Mechanism));
    check(none(), "", b"n,,n=,r=abc", Some(ClientFault::Mechanism));
    check(none(), SCRAM_SHA_256, b"n,a=root,n=,r=abc", Some(ClientFault::AuthorizationIdentity));
    check(none(), SCRAM_SHA_256, b"n,,m=x,n=,r=abc", Some(ClientFault::Extension));
    for message in [
        &b""[..],
        b"n",
        b"n,",
        b"n,,",
        b"n,,n=",
        b"n,,n=u",
        b"n,,n=u,r=",
        b"n,,r=abc,n=u",
        b"n,x,n=,r=abc",
        b"q,,n=,r=abc",
        b"n,,n=,r=a\tb",
        b"n,,n=,r=a\xc3\xa4",
        b"n,,n=,r=abc,ext",
        b"n,,n=,r=abc\0",
        b"n,,n=,r=abc\xff",
    ] {
        check(none(), SCRAM_SHA_256, message, Some(ClientFault::Malformed));
    }
    let long = [&b"n,,n=,r="[..], &vec![b'a'; MAX_SASL_MESSAGE]].concat();
    check(none(), SCRAM_SHA_256, &long, Some(ClientFault::TooLong));
}

#[test]
fn final_messages_are_checked() {
    let check = |message: &str, expected: ClientFault| {
        let (server, _) =
            server(pencil(), ChannelBinding::Unavailable).client_first(b"SCRAM-SHA-256", FIRST.as_bytes()).unwrap();
        assert_eq!(server.client_final(message.as_bytes()).err(), Some(expected), "{message}");
    };
    let (unproved, proof) = FINAL.rsplit_once(",p=").unwrap();
    check(&FINAL.replace("c=biws", "c=eSws"), ClientFault::BindingMismatch);
    check(&FINAL.replace("$k0", "$k1"), ClientFault::Nonce);
    check(&FINAL.replace(OURS, ""), ClientFault::Nonce);
    check(&FINAL.replace("p=dHz", "p=eHz"), ClientFault::WrongProof);
    check(&format!("{unproved},x=ext,p={proof}"), ClientFault::WrongProof);
    check(&format!("{unproved},ext,p={proof}"), ClientFault::Malformed);
    check(unproved, ClientFault::Malformed);
    check(&format!("{unproved},p="), ClientFault::Malformed);
    check(&format!("{unproved},p=AAAA"), ClientFault::Malformed);
    check(&format!("{FINAL},x=y"), ClientFault::Malformed);
    check("", ClientFault::Malformed);
    check(&format!(",p={proof}"), ClientFault::Malformed);
}

#[test]
fn unknown_users_look_like_any_other() {
    let secret = MockSecret::random();
    let mock = |user: &str| Arc::new(Verifier::mock(user, &secret, DEFAULT_ITERATIONS));
    assert_eq!(mock("nobody"), mock("nobody"), "a second try sees the same salt");
    assert_ne!(mock("nobody").salt, mock("somebody").salt);
    assert_ne!(mock("nobody").salt, Verifier::mock("nobody", &MockSecret::random(), DEFAULT_ITERATIONS).salt);
    assert_eq!(mock("nobody").salt.len(), Verifier::from_password(b"x").salt.len());
    let unknown = login(mock("nobody"), password("x"), UNBOUND).unwrap_err();
    let wrong = login(cheap("y"), password("x"), UNBOUND).unwrap_err();
    assert_eq!((unknown.sqlstate(), unknown.to_client()), (wrong.sqlstate(), wrong.to_client()));
    assert_eq!(unknown.sqlstate(), SqlState::INVALID_PASSWORD);
}

#[test]
fn a_mock_lets_nobody_in_even_with_its_keys() {
    let keys = ClientKeys::derive(b"x", b"salt", 2);
    let mut verifier = Verifier::of_keys(&keys);
    assert!(login(Arc::new(verifier.clone()), ClientSecret::Keys(&keys), UNBOUND).is_ok());
    verifier.standing = verifier::Standing::Mock;
    let fault = login(Arc::new(verifier), ClientSecret::Keys(&keys), UNBOUND).unwrap_err();
    assert_eq!(fault, ClientFault::WrongProof);
}

#[test]
fn verifiers_have_postgresqls_form() {
    let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let verifier: Verifier = text.parse().unwrap();
    assert_eq!(verifier, *pencil());
    assert_eq!(verifier.to_string(), text);
    for bad in [
        String::new(),
        "SCRAM-SHA-256".to_owned(),
        text.replace("SHA-256", "SHA-1"),
        text.replace("4096", "0"),
        text.replace("4096", "-1"),
        text.replace("4096", "4294967295"),
        text.replace("W22ZaJ0SNY7soEsUEjb6gQ==", ""),
        text.replace("W22Z", "*"),
        text.replace("WG5d", ""),
        text.replace(":wfPL", ""),
        format!("{text}="),
    ] {
        assert_eq!(bad.parse::<Verifier>(), Err(BadVerifier), "{bad}");
    }
}

#[test]
fn servers_are_checked() {
    let check = |message: &str, secret: ClientSecret<'_>, expected: ServerFault| {
        let next = open(&ChannelBinding::Unavailable, Nonce::fixed("abc").unwrap()).next;
        assert_eq!(next.server_first(message.as_bytes(), secret).err(), Some(expected), "{message}");
    };
    let any = password("x");
    check("r=abc,s=c2FsdA==,i=2", any, ServerFault::Nonce);
    check("r=abX,s=c2FsdA==,i=2", any, ServerFault::Nonce);
    check("r=abcd,s=c2FsdA==,i=1000001", any, ServerFault::Iterations(1_000_001));
    check("m=x,r=abcd,s=c2FsdA==,i=2", any, ServerFault::Extension);
    for message in [
        "",
        "r=abcd",
        "r=abcd,s=,i=2",
        "r=abcd,s=*,i=2",
        "r=abcd,s=c2FsdA==,i=0",
        "r=abcd,s=c2FsdA==,i=x",
        "s=c2FsdA==",
    ] {
        check(message, any, ServerFault::Malformed);
    }
    check(&format!("r=abcd,s=c2FsdA==,i={}", "1".repeat(MAX_SASL_MESSAGE)), any, ServerFault::TooLong);
    let keys = ClientKeys::derive(b"x", b"salt", 2);
    check("r=abcd,s=c2FsdB==,i=2", ClientSecret::Keys(&keys), ServerFault::Malformed);
    check("r=abcd,s=b3RoZXI=,i=2", ClientSecret::Keys(&keys), ServerFault::ForeignKeys);
    check("r=abcd,s=c2FsdA==,i=3", ClientSecret::Keys(&keys), ServerFault::ForeignKeys);

    let last = |message: &str| {
        let next = open(&ChannelBinding::Unavailable, Nonce::fixed("abc").unwrap()).next;
        let (next, _) = next.server_first(b"r=abcd,s=c2FsdA==,i=2", ClientSecret::Keys(&keys)).unwrap();
        next.server_final(message.as_bytes()).unwrap_err()
    };
    assert_eq!(last("e=other-error"), ServerFault::Refused("other-error".to_owned()));
    assert_eq!(last("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), ServerFault::WrongSignature);
    assert_eq!(last("v=AAAA"), ServerFault::Malformed);
    assert_eq!(last(""), ServerFault::Malformed);
}

#[test]
fn known_keys_are_used_only_where_they_fit() {
    let wrong_keys = ClientKeys { iterations: 2, salt: b"salt".to_vec(), ..ClientKeys::derive(b"other", b"x", 1) };
    let secret = ClientSecret::Password { password: b"x", known: Some(&wrong_keys) };
    assert_eq!(login(cheap("x"), secret, UNBOUND).unwrap_err(), ClientFault::WrongProof, "they are believed");
    let stale = ClientKeys { iterations: 3, ..wrong_keys };
    let secret = ClientSecret::Password { password: b"x", known: Some(&stale) };
    assert!(login(cheap("x"), secret, UNBOUND).is_ok(), "another round count: derived anew");
}

#[test]
fn secrets_are_not_printed() {
    let keys = ClientKeys { client_key: [0xab; 32], server_key: [0xab; 32], salt: vec![], iterations: 1 };
    assert!(!format!("{keys:?} {:?}", Verifier::of_keys(&keys)).contains("171"));
}
