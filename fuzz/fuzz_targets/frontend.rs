//! Any bytes as a client's messages; what was read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgsluice::wire::{
    Frames,
    frontend::{
        Bind, BindPrefix, Close, CopyFail, Describe, Execute, FunctionCall, Parse, Password, Query, SaslInitial,
        bind_with_names, parse_renamed, query, tag,
    },
};

fuzz_target!(|buf: &[u8]| {
    for frame in Frames::new(buf, 1 << 20).flatten() {
        let body = frame.body;
        match frame.head.tag {
            tag::QUERY => {
                if let Ok(text) = Query::parse(body) {
                    let mut out = Vec::new();
                    query(&mut out, text);
                    assert_eq!(out, frame.raw);
                }
            }
            tag::PARSE => {
                if let Ok(parse) = Parse::parse(body) {
                    let mut out = Vec::new();
                    parse_renamed(&mut out, &parse, parse.name);
                    assert_eq!(out, frame.raw);
                    assert_eq!(parse.oids.iter().count(), parse.oids.count());
                }
            }
            tag::BIND => {
                let bind = Bind::parse(body);
                let prefix = BindPrefix::parse(body);
                if let (Ok(bind), Ok(Some(prefix))) = (&bind, prefix) {
                    assert_eq!((bind.portal, bind.statement), (prefix.portal, prefix.statement));
                    assert_eq!(bind.values().count(), usize::from(bind.count));
                    let mut out = Vec::new();
                    if let Ok(rest) = bind_with_names(&mut out, frame.head, &prefix, prefix.statement) {
                        out.extend_from_slice(&body[rest..]);
                    }
                    assert_eq!(out, frame.raw);
                }
                assert!(bind.is_err() || matches!(BindPrefix::parse(body), Ok(Some(_)) | Err(_)));
            }
            tag::DESCRIBE => {
                let _ = Describe::parse(body);
            }
            tag::CLOSE => {
                let _ = Close::parse(body);
            }
            tag::EXECUTE => {
                let _ = Execute::parse(body);
            }
            tag::FUNCTION_CALL => {
                let _ = FunctionCall::parse(body);
            }
            tag::COPY_FAIL => {
                let _ = CopyFail::parse(body);
            }
            tag::PASSWORD => {
                let _ = Password::parse(body);
                let _ = SaslInitial::parse(body);
            }
            other => {
                let _ = tag::is_known(other);
            }
        }
    }
});
