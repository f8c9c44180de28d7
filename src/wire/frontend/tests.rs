//! Views against hostile bodies; encoders against views.

use super::{super::Head, *};
use crate::wire::Frames;

const TRUNCATED: WireError = WireError::Truncated;
const UNTERMINATED: WireError = WireError::Unterminated;
const TRAILING: WireError = WireError::Trailing;

/// `read` must answer each body with the error beside it.
fn refuses<'a, T: std::fmt::Debug>(read: impl Fn(&'a [u8]) -> Result<T, WireError>, table: &[(&'a [u8], WireError)]) {
    for (body, error) in table {
        assert_eq!(read(body).err(), Some(*error), "{body:?}");
    }
}

#[test]
fn strings_hold_no_zero_and_end_with_one() {
    assert_eq!(Query::parse(b"select 1\0"), Ok(&b"select 1"[..]));
    assert_eq!(Query::parse(b"\0"), Ok(&b""[..]));
    for read in [Query::parse, CopyFail::parse, Password::parse] {
        refuses(read, &[(b"", UNTERMINATED), (b"a", UNTERMINATED), (b"a\0b\0", TRAILING), (b"a\0\0", TRAILING)]);
    }
}

#[test]
fn parse_is_read_whole() {
    let parse = Parse::parse(b"s\0select $1\0\0\x02\0\0\0\x17\0\0\0\0").unwrap();
    assert_eq!((parse.name, parse.text), (&b"s"[..], &b"select $1"[..]));
    assert_eq!(parse.oids.iter().collect::<Vec<_>>(), [23, 0]);
    refuses(
        Parse::parse,
        &[
            (b"", UNTERMINATED),
            (b"s\0select", UNTERMINATED),
            (b"s\0select\0", TRUNCATED),
            (b"s\0select\0\0", TRUNCATED),
            (b"s\0select\0\0\x01\0\0\0", TRUNCATED),
            (b"s\0select\0\xff\xff\0\0\0\x17", TRUNCATED),
            (b"s\0select\0\0\0x", TRAILING),
            (b"s\0a\0b\0\0\0", TRUNCATED),
        ],
    );
}

#[test]
fn bind_is_read_whole() {
    let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02hi\xff\xff\xff\xff\0\x01\0\0";
    let bind = Bind::parse(body).unwrap();
    assert_eq!((bind.portal, bind.statement, bind.count), (&b"p"[..], &b"s"[..], 2));
    assert_eq!((bind.formats, bind.result_formats), (&b"\0\x01"[..], &b"\0\0"[..]));
    assert_eq!(bind.values().collect::<Vec<_>>(), [Some(&b"hi"[..]), None]);
    refuses(
        Bind::parse,
        &[
            (b"", UNTERMINATED),
            (b"p\0", UNTERMINATED),
            (b"\0\0", TRUNCATED),
            (b"\0\0\0\0\0\x01\0\0\0\x05abc", TRUNCATED),
            (b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0", TRUNCATED),
            (b"\0\0\0\0\0\x01\x80\0\0\0\0\0", TRUNCATED),
            (b"\0\0\0\0\xff\xff\0\0", TRUNCATED),
            (b"\0\0\0\x02\0\0\0\0\0\x01\0\0\0\0\0\0", WireError::FormatCount { formats: 2, parameters: 1 }),
            (b"\0\0\0\0\0\0\0\0x", TRAILING),
        ],
    );
}

#[test]
fn bind_names_are_read_as_soon_as_they_are_there() {
    let body = b"portal\0stmt\0\0\0\0\0\0\0";
    for end in 0..12 {
        assert_eq!(BindPrefix::parse(&body[..end]), Ok(None), "{end}");
    }
    for end in 12..=body.len() {
        let prefix = BindPrefix { portal: b"portal", statement: b"stmt", rest: 12 };
        assert_eq!(BindPrefix::parse(&body[..end]), Ok(Some(prefix)), "{end}");
    }
    let long = WireError::LongName { cap: NAME_CAP };
    let name = |len: usize| [vec![b'n'; len], vec![0]].concat();
    assert_eq!(BindPrefix::parse(&name(NAME_CAP)), Ok(None));
    assert_eq!(BindPrefix::parse(&name(NAME_CAP + 1)), Err(long));
    assert_eq!(BindPrefix::parse(&vec![b'n'; NAME_CAP]), Ok(None));
    assert_eq!(BindPrefix::parse(&[&b"p\0"[..], &name(NAME_CAP + 1)].concat()), Err(long));
}

#[test]
fn a_renamed_bind_is_the_same_bind() {
    let body = b"p\0old\0\0\0\0\x01\0\0\0\x02hi\0\0";
    let head = Head { tag: tag::BIND, len: 4 + body.len() as u32 };
    let prefix = BindPrefix::parse(&body[..8]).unwrap().unwrap();
    let mut out = Vec::new();
    let rest = bind_with_names(&mut out, head, &prefix, b"quite_new").unwrap();
    out.extend_from_slice(&body[rest..]);
    let frame = Frames::new(&out, 1000).next().unwrap().unwrap();
    assert_eq!(frame.raw.len(), out.len());
    let bind = Bind::parse(frame.body).unwrap();
    assert_eq!((bind.portal, bind.statement), (&b"p"[..], &b"quite_new"[..]));
    assert_eq!(bind.values().collect::<Vec<_>>(), [Some(&b"hi"[..])]);

    let mut untouched = Vec::new();
    assert_eq!(bind_with_names(&mut untouched, Head { tag: tag::BIND, len: 9 }, &prefix, b"x"), Err(TRUNCATED));
    assert_eq!(bind_with_names(&mut untouched, head, &prefix, b"x\0y"), Err(TRAILING));
    assert!(bind_with_names(&mut untouched, Head { tag: tag::BIND, len: u32::MAX }, &prefix, b"longer").is_err());
    assert_eq!(untouched, b"");
}

#[test]
fn small_messages_are_read_whole() {
    assert_eq!(Describe::parse(b"Sx\0"), Ok(Describe { what: What::Statement, name: b"x" }));
    assert_eq!(Close::parse(b"P\0"), Ok(Close { what: What::Portal, name: b"" }));
    refuses(
        Describe::parse,
        &[
            (b"", TRUNCATED),
            (b"S", UNTERMINATED),
            (b"X\0", WireError::BadValue { what: "DESCRIBE message subtype", value: 88 }),
            (b"S\0\0", TRAILING),
        ],
    );
    refuses(Close::parse, &[(b"s\0", WireError::BadValue { what: "CLOSE message subtype", value: 115 })]);
    assert_eq!(Execute::parse(b"p\0\0\0\0\x05"), Ok(Execute { portal: b"p", max_rows: 5 }));
    refuses(Execute::parse, &[(b"p\0\0\0\0", TRUNCATED), (b"p\0\0\0\0\x05x", TRAILING)]);
    let call = b"\0\0\x03\xbb\0\x01\0\x01\0\x01\0\0\0\x01x\0\x01";
    assert_eq!(FunctionCall::parse(call), Ok(FunctionCall { function: 955, count: 1 }));
    refuses(FunctionCall::parse, &[(&call[..16], TRUNCATED), (b"\0\0\0\x01\0\0\xff\xff\0\0", TRUNCATED)]);
    let sasl = SaslInitial { mechanism: b"M", response: Some(b"n,,") };
    assert_eq!(SaslInitial::parse(b"M\0\0\0\0\x03n,,"), Ok(sasl));
    assert_eq!(SaslInitial::parse(b"M\0\xff\xff\xff\xff").map(|m| m.response), Ok(None));
    refuses(SaslInitial::parse, &[(b"M\0\0\0\0\x04n,,", TRUNCATED), (b"M\0\0\0\0\x02n,,", TRAILING)]);
}

#[test]
fn encoders_write_what_the_protocol_says() {
    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &[u8]) {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(out, expected);
    }
    check(|out| query(out, b"select 1"), b"Q\0\0\0\x0dselect 1\0");
    check(|out| query(out, b"select\0 1"), b"Q\0\0\0\x0bselect\0");
    check(|out| parse(out, b"s", b"t", &[23]), b"P\0\0\0\x0es\0t\0\0\x01\0\0\0\x17");
    check(
        |out| parse_renamed(out, &Parse::parse(b"s\0t\0\0\x01\0\0\0\x17").unwrap(), b"ab"),
        b"P\0\0\0\x0fab\0t\0\0\x01\0\0\0\x17",
    );
    check(|out| bind_texts(out, &[b"ab"]), b"B\0\0\0\x12\0\0\0\0\0\x01\0\0\0\x02ab\0\0");
    check(|out| describe(out, What::Portal, b""), b"D\0\0\0\x06P\0");
    check(|out| close(out, What::Statement, b"s"), b"C\0\0\0\x07Ss\0");
    check(|out| execute(out, b"", 0), b"E\0\0\0\x09\0\0\0\0\0");
    check(sync, b"S\0\0\0\x04");
    check(flush, b"H\0\0\0\x04");
    check(terminate, b"X\0\0\0\x04");
    check(|out| copy_fail(out, "no"), b"f\0\0\0\x07no\0");
    check(|out| password(out, b"pw"), b"p\0\0\0\x07pw\0");
    check(|out| sasl_initial(out, "M", b"n,,"), b"p\0\0\0\x0dM\0\0\0\0\x03n,,");
    check(|out| sasl_response(out, b"c=biws"), b"p\0\0\0\x0ac=biws");
    check(|out| cancel_request(out, 1, &[1, 2, 3, 4]), b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\x01\x02\x03\x04");
    check(ssl_request, b"\0\0\0\x08\x04\xd2\x16\x2f");
    check(gssenc_request, b"\0\0\0\x08\x04\xd2\x16\x30");
    check(|out| startup(out, 196_608, &[("user", "u"), ("", "x")]), b"\0\0\0\x10\0\x03\0\0user\0u\0\0");
}
