//! Views against hostile bodies; encoders against views.

use super::*;
use crate::wire::Frames;

/// The body of the one message `write` makes, whose tag must be `tag`.
fn body(tag: u8, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    let frame = Frames::new(&out, 1 << 20).next().unwrap().unwrap();
    assert_eq!((frame.head.tag, frame.raw.len()), (tag, out.len()));
    frame.body.to_vec()
}

#[test]
fn authentication_reads_what_it_writes() {
    fn check(write: impl FnOnce(&mut Vec<u8>), expected: Authentication<'_>) {
        assert_eq!(Authentication::parse(&body(tag::AUTHENTICATION, write)), Ok(expected));
    }
    check(authentication_ok, Authentication::Ok);
    check(authentication_cleartext_password, Authentication::CleartextPassword);
    check(|out| authentication_md5_password(out, [1, 2, 3, 4]), Authentication::Md5Password { salt: [1, 2, 3, 4] });
    let offer = Authentication::Sasl { mechanisms: b"A-PLUS\0A\0\0" };
    check(|out| authentication_sasl(out, &["A-PLUS", "A"]), offer);
    check(|out| authentication_sasl_continue(out, b"r=x"), Authentication::SaslContinue { message: b"r=x" });
    check(|out| authentication_sasl_final(out, b"v=x"), Authentication::SaslFinal { message: b"v=x" });
    assert_eq!(Authentication::parse(b"\0\0\0\x07"), Ok(Authentication::Other { code: 7 }));
    assert!(offer.offers("A") && offer.offers("A-PLUS") && !offer.offers("A-PLU"));

    for bad in [&b""[..], b"\0\0\0", b"\0\0\0\0x", b"\0\0\0\x05abc", b"\0\0\0\x0aA\0", b"\0\0\0\x0aA\0\0x"] {
        assert!(Authentication::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn cancel_keys_have_4_to_256_bytes() {
    for (len, good) in [(0, false), (3, false), (4, true), (32, true), (256, true), (257, false)] {
        let key = vec![7; len];
        let body = body(tag::BACKEND_KEY_DATA, |out| backend_key_data(out, 42, &key));
        let read = BackendKeyData::parse(&body);
        assert_eq!(read.is_ok(), good, "{len}");
        assert!(read.is_err() || read == Ok(BackendKeyData { pid: 42, key: &key }));
    }
    assert!(BackendKeyData::parse(b"\0\0").is_err());
    assert!(!format!("{:?}", BackendKeyData { pid: 1, key: b"secret" }).contains("115"), "keys are not logged");
}

#[test]
fn errors_carry_their_fields() {
    let text = ErrorText {
        severity: Severity::Fatal,
        sqlstate: SqlState::PROTOCOL_VIOLATION,
        message: "no\0thing",
        detail: Some("d"),
        hint: Some("h"),
        routine: Some("r"),
    };
    let error = body(tag::ERROR_RESPONSE, |out| error_response(out, &text));
    assert_eq!(error, b"SFATAL\0VFATAL\0C08P01\0Mno\0Dd\0Hh\0Rr\0\0");
    let fields = ErrorFields::parse(&error).unwrap();
    assert_eq!(fields.sqlstate(), Some(SqlState::PROTOCOL_VIOLATION));
    assert_eq!((fields.severity(), fields.message()), (Some(&b"FATAL"[..]), Some(&b"no"[..])));
    assert_eq!(fields.field(b'X'), None);
    let short = ErrorText::new(Severity::Warning, SqlState::SUCCESS, "m");
    assert_eq!(body(tag::NOTICE_RESPONSE, |out| notice_response(out, &short)), b"SWARNING\0VWARNING\0C00000\0Mm\0\0");

    for bad in [&b""[..], b"S", b"SERROR", b"SERROR\0", b"SERROR\0\0x"] {
        assert!(ErrorFields::parse(bad).is_err(), "{bad:?}");
    }
    let odd = ErrorFields::parse(b"C08\0SFEHLER\0\0").unwrap();
    assert_eq!((odd.sqlstate(), odd.severity()), (None, Some(&b"FEHLER"[..])));
    let translated = ErrorFields::parse(b"SFEHLER\0VERROR\0\0").unwrap();
    assert_eq!(translated.severity(), Some(&b"ERROR"[..]), "V is never translated");
}

#[test]
fn status_is_one_of_three() {
    for status in [TxStatus::Idle, TxStatus::InTransaction, TxStatus::Failed] {
        assert_eq!(TxStatus::parse(&body(tag::READY_FOR_QUERY, |out| ready_for_query(out, status))), Ok(status));
    }
    for bad in [&b""[..], b"X", b"i", b"II"] {
        assert!(TxStatus::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn rows_read_what_they_write() {
    let row = body(tag::DATA_ROW, |out| data_row(out, &[Some(b"a"), None, Some(b"")]));
    let columns: Result<Vec<_>, _> = DataRow::parse(&row).unwrap().columns().collect();
    assert_eq!(columns, Ok(vec![Some(&b"a"[..]), None, Some(&b""[..])]));
    for bad in [&b"\0\x01"[..], b"\0\x02\0\0\0\x01a", b"\0\x01\xff\xff\xff\xfe", b"\0\x01\0\0\0\0x"] {
        let columns: Result<Vec<_>, _> = DataRow::parse(bad).unwrap().columns().collect();
        assert!(columns.is_err(), "{bad:?}");
    }
    assert_eq!(DataRow::parse(b"\xff\xff").unwrap().columns().count(), 1, "ends at the first error");

    let description = body(tag::ROW_DESCRIPTION, |out| row_description_text(out, &["node", "role"]));
    let read = RowDescription::parse(&description).unwrap();
    let fields: Vec<_> = read.fields().map(|f| (f.name, f.type_oid, f.type_size, f.type_modifier, f.format)).collect();
    assert_eq!(fields, [(&b"node"[..], 25, -1, -1, 0), (&b"role"[..], 25, -1, -1, 0)]);
    assert!(RowDescription::parse(&description[..description.len() - 1]).is_err());
    assert!(RowDescription::parse(&[&description[..], b"x"].concat()).is_err());

    let oids = body(tag::PARAMETER_DESCRIPTION, |out| parameter_description(out, &[23, 25]));
    assert_eq!(ParameterDescription::parse(&oids).unwrap().iter().collect::<Vec<_>>(), [23, 25]);
    assert!(ParameterDescription::parse(b"\0\x02\0\0\0\x17").is_err());
    assert_eq!(CopyResponse::parse(b"\x01\0\x01\0\x01"), Ok(CopyResponse { format: 1, columns: b"\0\x01" }));
    assert!(CopyResponse::parse(b"\0\0\x02\0\0").is_err());
}

#[test]
fn small_messages_read_what_they_write() {
    let status = body(tag::PARAMETER_STATUS, |out| parameter_status(out, b"TimeZone", b"UTC"));
    assert_eq!(ParameterStatus::parse(&status), Ok(ParameterStatus { name: b"TimeZone", value: b"UTC" }));
    assert!(ParameterStatus::parse(b"TimeZone\0UTC").is_err());
    let command = body(tag::COMMAND_COMPLETE, |out| command_complete(out, "INSERT 0 1"));
    assert_eq!(CommandComplete::parse(&command), Ok(CommandComplete { tag: b"INSERT 0 1" }));
    let unknown = ["_pq_.a".to_owned(), "_pq_.b".to_owned()];
    let negotiate = body(tag::NEGOTIATE_PROTOCOL_VERSION, |out| negotiate_protocol_version(out, 196_608, &unknown));
    assert_eq!(negotiate, b"\0\x03\0\0\0\0\0\x02_pq_.a\0_pq_.b\0");
    let read = NegotiateProtocolVersion { newest: 196_608, unknown: b"_pq_.a\0_pq_.b\0" };
    assert_eq!(NegotiateProtocolVersion::parse(&negotiate), Ok(read));
    assert!(NegotiateProtocolVersion::parse(b"\0\x03\0\0\xff\xff\xff\xff").is_err());
    let notification = Notification { pid: 1, channel: b"c", payload: b"" };
    assert_eq!(Notification::parse(b"\0\0\0\x01c\0\0"), Ok(notification));

    assert_eq!(body(tag::PARSE_COMPLETE, parse_complete), b"");
    assert_eq!(body(tag::BIND_COMPLETE, bind_complete), b"");
    assert_eq!(body(tag::CLOSE_COMPLETE, close_complete), b"");
    assert_eq!(body(tag::NO_DATA, no_data), b"");
    assert_eq!(body(tag::EMPTY_QUERY_RESPONSE, empty_query_response), b"");
    assert_eq!(body(tag::PORTAL_SUSPENDED, portal_suspended), b"");
    assert_eq!(body(tag::COPY_DONE, copy_done), b"");
    assert_eq!(body(tag::COPY_DATA, |out| copy_data(out, b"1\t2\n")), b"1\t2\n");
}
