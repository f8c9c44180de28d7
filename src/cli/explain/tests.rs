//! Statements in, routes out.

use super::*;

const IDLE: Setting = Setting { phase: Phase::Idle, preference: CAREFUL, parse: 1000 };
const CAREFUL: Preference =
    Preference { reads: Reads::Replica, unknown_functions: UnknownFunctions::Primary, rule: None };

fn check(setting: Setting, sql: &str, expected: &str) {
    let mut explainer = Explainer::new(setting, Sender::default()).expect("the built-in functions are readable");
    let route = explainer.explain(sql.as_bytes()).route;
    assert_eq!(format!("{} ({})", route.to, route.reason), expected, "{sql}");
}

#[test]
fn routes_of_an_idle_session() {
    for (sql, expected) in [
        ("select 1", "replica (proven-read)"),
        ("", "replica (proven-read)"),
        ("insert into t values (1)", "primary (writes)"),
        ("select 1 from t for share", "primary (locks-rows)"),
        ("select nextval('s')", "primary (volatile-function)"),
        ("select f()", "primary (unknown-function)"),
        ("select 1; select 2", "replica (proven-read)"),
        ("select 1; delete from t", "primary (multi-statement)"),
        ("selec 1", "primary (unparsable)"),
        ("/* pgsluice: primary */ select 1", "primary (hint)"),
        ("/* pgsluice: replica */ delete from t", "primary (writes)"),
        ("begin", "primary (transaction-control)"),
        ("begin read only", "replica (read-only-transaction)"),
        ("/* pgsluice: primary */ begin read only", "primary (hint)"),
        ("begin isolation level serializable, read only", "primary (serializable)"),
        ("commit", "primary (transaction-control)"),
    ] {
        check(IDLE, sql, expected);
    }
    check(IDLE, &format!("select '{}'", "x".repeat(1000)), "primary (unparsable)");
}

#[test]
fn routes_under_other_settings() {
    let held = Setting { phase: Phase::InTransaction, ..IDLE };
    for sql in ["select 1", "delete from t", "commit", "selec"] {
        check(held, sql, "held (in-transaction)");
    }
    let primary = Setting { preference: Preference { reads: Reads::Primary, ..CAREFUL }, ..IDLE };
    check(primary, "select 1", "primary (configured)");
    check(primary, "/* pgsluice: replica */ select 1", "primary (configured)");
    check(primary, "begin read only", "primary (configured)");
    let daring =
        Setting { preference: Preference { unknown_functions: UnknownFunctions::TryReplica, ..CAREFUL }, ..IDLE };
    check(daring, "select f()", "replica (unknown-function)");
    check(daring, "/* pgsluice: primary */ select f()", "primary (unknown-function)");
    check(daring, "select nextval('s')", "primary (volatile-function)");
    check(
        Setting { preference: Preference { reads: Reads::Primary, ..daring.preference }, ..daring },
        "select f()",
        "primary (unknown-function)",
    );
}

#[test]
fn statements_end_at_nul() {
    let check = |input: &[u8], cap: usize, expected: &[&[u8]]| {
        for capacity in [1, 3, 100] {
            let mut statements = input::Statements::new(BufReader::with_capacity(capacity, input), cap);
            let mut found: Vec<Vec<u8>> = Vec::new();
            while let Some(text) = statements.next().expect("a slice can be read") {
                found.push(text.to_vec());
            }
            assert_eq!(found, expected, "{input:?} by {capacity}");
        }
    };
    check(b"", 10, &[]);
    check(b"a", 10, &[b"a"]);
    check(b"a\0", 10, &[b"a"]);
    check(b"a\0b", 10, &[b"a", b"b"]);
    check(b"a\0\0b\0", 10, &[b"a", b"", b"b"]);
    check(b"\0", 10, &[b""]);
    check(b"abcdefgh\0i", 3, &[b"abcd", b"i"]);
    check(b"\xff\xfe\0i", 3, &[b"\xff\xfe", b"i"]);
}

fn args(words: &[&str]) -> ExplainArgs {
    use clap::Parser as _;
    let words = ["pgsluice", "explain"].iter().chain(words);
    match crate::cli::args::CommandLine::try_parse_from(words).map(|line| line.command) {
        Ok(Some(crate::cli::args::Command::Explain(args))) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn json_has_every_key_in_order_and_goes_on_after_a_bad_statement() {
    let mut out = Vec::new();
    let input: &[u8] = b"select lower(name) from s.products\0selec\0\xff\0insert into t select 1";
    explain(&args(&["--stdin0"]), input, &mut out).expect("writing to memory");
    let out = String::from_utf8(out).expect("JSON is UTF-8");
    let lines: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("one object per line")).collect();
    assert_eq!(lines.len(), 4);
    let mut rest = out.lines().next().unwrap_or_default();
    for key in [
        "statement",
        "kind",
        "proven_read_only",
        "reads",
        "writes",
        "functions",
        "shape",
        "fingerprint",
        "rules",
        "rewritten",
        "firewall",
        "route",
        "cache",
        "error",
    ] {
        rest = rest.split_once(&format!("\"{key}\":")).map(|(_, rest)| rest).unwrap_or_else(|| panic!("{key}: {out}"));
    }
    for line in &lines {
        assert_eq!(line.as_object().map(|object| object.len()), Some(14));
    }
    assert_eq!(lines[0]["reads"], serde_json::json!(["s.products"]));
    assert_eq!(lines[0]["functions"], serde_json::json!(["lower"]));
    assert_eq!(lines[0]["error"], serde_json::Value::Null);
    assert!(lines[0]["fingerprint"].is_string());
    for bad in &lines[1..3] {
        assert_eq!(bad["route"], serde_json::json!({ "to": "primary", "reason": "unparsable" }));
        assert!(bad["error"].is_string() && bad["fingerprint"].is_null(), "{bad}");
    }
    assert_eq!(lines[3]["writes"], serde_json::json!(["t"]));
}
