//! The small readers, one line per case.

use std::time::Duration;

use super::{Secret, hostport, value, verifier};

#[test]
fn durations() {
    let check = |text: &str, ms: Option<u64>| {
        assert_eq!(value::duration(text), ms.map(Duration::from_millis), "{text}");
    };
    check("250ms", Some(250));
    check("5s", Some(5_000));
    check("5 s", Some(5_000));
    check("10m", Some(600_000));
    check("1h", Some(3_600_000));
    check("0", Some(0));
    check("0ms", Some(0));
    for wrong in
        ["", "5", "s", "-1s", "1.5s", "1d", "1S", "1s1", "5s ", "18446744073709551615h", "99999999999999999999s"]
    {
        check(wrong, None);
    }
}

#[test]
fn sizes() {
    let check = |text: &str, bytes: Option<u64>| assert_eq!(value::size(text), bytes, "{text}");
    check("0", Some(0));
    check("1000", Some(1000));
    check("64KiB", Some(65_536));
    check("16MiB", Some(16_777_216));
    check("1GiB", Some(1_073_741_824));
    for wrong in ["", "KiB", "1kib", "1KB", "1.5MiB", "-1", "18446744073709551615GiB"] {
        check(wrong, None);
    }
}

#[test]
fn hosts_and_ports() {
    let check = |text: &str, expected: Option<(&str, u16)>| assert_eq!(hostport::split(text), expected, "{text}");
    check("db1:5432", Some(("db1", 5432)));
    check("10.0.0.1:1", Some(("10.0.0.1", 1)));
    check("[::1]:5432", Some(("::1", 5432)));
    for wrong in
        ["", ":", "db1", ":5432", "db1:", "db1:65536", "db1:+1", "::1:5432", "[db1]:5432", "[::1]", "a b:1", "a/b:1"]
    {
        check(wrong, None);
    }
    for (text, expected) in [("*:1", "0.0.0.0:1"), ("localhost:0", "127.0.0.1:0"), ("[::]:6432", "[::]:6432")] {
        assert_eq!(hostport::listener(text).map(|address| address.to_string()).as_deref(), Some(expected));
    }
    assert_eq!(hostport::listener("example.org:6432"), None);
}

#[test]
fn secrets() {
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let kind = |text: &str| match verifier::secret(text) {
        Ok(Secret::Password(_)) => "password",
        Ok(Secret::Verifier(_)) => "verifier",
        Ok(Secret::Md5(_)) => "md5",
        Ok(Secret::None) => "none",
        Err(_) => "fault",
    };
    assert_eq!(kind(&format!("SCRAM-SHA-256$4096:AAAA${key}:{key}")), "verifier");
    for broken in [
        format!("SCRAM-SHA-256$0:AAAA${key}:{key}"),
        format!("SCRAM-SHA-256$x:AAAA${key}:{key}"),
        format!("SCRAM-SHA-256$4096:${key}:{key}"),
        format!("SCRAM-SHA-256$4096:!${key}:{key}"),
        format!("SCRAM-SHA-256$4096:AAAA$AAAA:{key}"),
        format!("SCRAM-SHA-256$4096:AAAA${key}:AAAA"),
        format!("SCRAM-SHA-256$4096:AAAA${key}"),
        "SCRAM-SHA-256$".to_owned(),
        String::new(),
    ] {
        assert_eq!(kind(&broken), "fault", "{broken}");
    }
    assert_eq!(kind("md5c4ca4238a0b923820dcc509a6f75849b"), "md5");
    // As PostgreSQL reads it: not 32 digits, so a password that begins with md5.
    assert_eq!(kind("md5c4ca4238a0b923820dcc509a6f75849"), "password");
    assert_eq!(kind("md5C4CA4238A0B923820DCC509A6F75849B"), "password");
}
