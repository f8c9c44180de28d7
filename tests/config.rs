//! Configuration files in, findings out. `UPDATE_EXPECT=1` writes the expectations anew.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use pgsluice::config::Config;
use proptest::prelude::*;

#[path = "pg/certs.rs"]
#[allow(unreachable_pub, dead_code, reason = "shared with the black-box tests")]
mod certs;

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn yaml_files(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory(name)).expect("the directory is in the tree");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(!files.is_empty());
    files
}

fn env(name: &str) -> Option<String> {
    let value = match name {
        "APP_PASSWORD" | "SERVER_PASSWORD" | "ADMIN_TOKEN" => "geheim",
        "PORT" => "6432",
        "EMPTY" => "",
        _ => return None,
    };
    Some(value.to_owned())
}

/// What an operator would read, and the configuration itself if there is one.
fn findings(text: &str, name: &str) -> String {
    match Config::parse(text, name, &env) {
        Ok((config, warnings)) => {
            let warnings: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
            format!("{warnings}{config:#?}\n")
        }
        Err(faults) => format!("{faults}\n"),
    }
}

#[test]
fn files_give_the_expected_findings() {
    let mut wrong = Vec::new();
    for path in yaml_files("tests/data/config") {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let found = findings(&fs::read_to_string(&path).expect("readable"), &name);
        assert!(!found.contains("geheim") && !found.contains("gehäim"), "{name} shows a secret:\n{found}");
        let expect = path.with_extension("expect");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&expect, &found).expect("writable");
        }
        let expected = fs::read_to_string(&expect).unwrap_or_default();
        if found != expected {
            wrong.push(format!("== {name}\n-- expected\n{expected}-- found\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn examples_pass() {
    for path in yaml_files("examples") {
        if let Err(faults) = Config::load(&path) {
            panic!("{faults}");
        }
    }
}

/// Runs the program; returns its exit status and what it printed.
fn pgsluice(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_pgsluice"))
        .args(arguments)
        .current_dir(directory(""))
        .output()
        .expect("the program starts");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn check_speaks_and_exits() {
    let (status, out) = pgsluice(&["check", "-c", "examples/minimal.yaml"]);
    assert_eq!(
        (status, out.as_str()),
        (Some(0), "examples/minimal.yaml: ok: 1 listener, 1 database, 2 nodes, 1 user\n")
    );
    let (status, out) = pgsluice(&["check", "--config", "tests/data/config/ten-faults.yaml"]);
    assert_eq!(status, Some(1));
    assert!(out.ends_with("\n10 faults\n"), "{out}");
    let (status, out) = pgsluice(&["check", "-c", "no-such.yaml"]);
    assert_eq!(status, Some(1));
    assert!(out.starts_with("no-such.yaml: can not be read"), "{out}");
}

#[test]
fn explain_believes_the_configuration() {
    let explain =
        |words: &[&str]| pgsluice(&[&["explain", "-c", "examples/pools.yaml"], words, &["select 1"]].concat());
    let (status, out) = explain(&[]);
    assert_eq!((status, out.lines().next()), (Some(0), Some("route        replica (proven-read)")));
    let (status, out) = explain(&["--database", "legacy", "--user", "app", "--application", "x", "--client", "::1"]);
    assert_eq!((status, out.lines().next()), (Some(0), Some("route        primary (configured)")));
    let (status, out) = explain(&["--database", "nope"]);
    assert_eq!(status, Some(1));
    assert_eq!(out, "--database: the configuration knows no `nope`; allowed: app, legacy, reports\n");
    let (status, out) = explain(&["--user", "nope"]);
    assert_eq!((status, out.as_str()), (Some(1), "--user: the configuration knows no `nope`; allowed: app, bi\n"));
    let (status, out) = pgsluice(&["explain", "-c", "tests/data/config/ten-faults.yaml", "select 1"]);
    assert_eq!(status, Some(1));
    assert!(out.contains("ten-faults.yaml:1:9: can not listen"), "{out}");
}

#[test]
fn the_schema_knows_every_key_of_the_examples() {
    let (status, out) = pgsluice(&["schema"]);
    assert_eq!(status, Some(0));
    let schema: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    for path in yaml_files("examples") {
        let text = fs::read_to_string(&path).expect("readable");
        let file: serde_json::Value = serde_yaml::from_str(&text).expect("YAML");
        let file = file.as_object().expect("a map");
        for (key, value) in file {
            let described = &schema["properties"][key];
            assert!(described["description"].is_string(), "{key} of {}", path.display());
            for inner in value.as_object().into_iter().flat_map(|map| map.keys()) {
                let inner = &described["properties"][inner];
                let named = &described["additionalProperties"];
                let option = &described["anyOf"];
                assert!(inner.is_object() || named.is_object() || option.is_array(), "{key} of {}", path.display());
            }
        }
    }
    assert_eq!(schema["properties"]["limits"]["properties"]["login"]["default"], "60s");
    assert!(schema["$defs"]["rules"]["properties"]["firewall"].is_object());
}

#[test]
fn rule_files_are_looked_at() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        fs::write(&path, text).expect("writable");
        path.to_string_lossy().into_owned()
    };
    let base = fs::read_to_string(directory("examples").join("minimal.yaml")).expect("readable");
    let check = |rules: &str| {
        let path = write("pgsluice.yaml", &format!("{base}rules: {rules}\n"));
        let (status, out) = pgsluice(&["check", "-c", &path]);
        (status, out.replace(&format!("{}/", place.path().display()), ""))
    };
    write("empty.yaml", "# nothing yet\n");
    write("some.yaml", "# ${NOT_A_VARIABLE}\nrouting:\n  - { name: '${x}' }\nfirewal: []\n");
    write(
        "good.yaml",
        "firewall:\n  - { name: a, when: { statement: truncate }, deny: {}, examples: { match: [truncate t] } }\n",
    );
    write(
        "bad.yaml",
        "firewall:\n  - { name: b, when: { statement: vacuum }, deny: {}, examples: { match: [select 1] } }\n",
    );

    let (status, out) = check("[empty.yaml]");
    assert_eq!((status, out.as_str()), (Some(0), "pgsluice.yaml: ok: 1 listener, 1 database, 2 nodes, 1 user\n"));
    let (status, out) = check("some.*");
    assert_eq!(status, Some(1));
    assert!(out.starts_with("some.yaml:3:13: rule `${x}` does nothing"), "{out}");
    assert!(out.contains("some.yaml:4:1: unknown key `firewal`"), "{out}");
    let (status, out) = check("good.yaml");
    assert_eq!(status, Some(0));
    assert_eq!(out, "pgsluice.yaml: ok: 1 listener, 1 database, 2 nodes, 1 user, 1 rule\n");
    let (status, out) = check("bad.yaml\nnonsense: 1");
    assert_eq!(status, Some(1));
    // What the rules mean is told with what is wrong elsewhere.
    assert!(
        out.contains("bad.yaml:2:75: rule `b` does not match this") && out.contains("unknown key `nonsense`"),
        "{out}"
    );
    assert!(out.contains("\n2 faults\n"), "{out}");
    let (status, out) = check("missing.yaml");
    assert_eq!(status, Some(1));
    assert!(out.contains("there is no file `missing.yaml`"), "{out}");
    write("tags.yaml", "routing:\n  - { name: far, when: { kind: read }, route: { to: replica, tags: [nowhere] } }\n");
    let (status, out) = check("tags.yaml");
    assert_eq!(status, Some(0));
    assert!(out.contains("tags.yaml:2:13: rule `far`: no node has the tag `nowhere`"), "{out}");
    let (status, out) = check("missing/*.yaml");
    assert_eq!(status, Some(0));
    assert!(out.contains("warning:") && out.contains("finds no file"), "{out}");
    let (status, out) = check("'a***'");
    assert_eq!(status, Some(1));
    assert!(out.contains("is no glob"), "{out}");

    let file = |name: &str| place.path().join(name).to_string_lossy().into_owned();
    assert_eq!(pgsluice(&["test", &file("empty.yaml")]), (Some(0), "0 passed, 0 failed\n".to_owned()));
    assert_eq!(pgsluice(&["test", &file("good.yaml")]), (Some(0), "1 passed, 0 failed\n".to_owned()));
    let (status, out) = pgsluice(&["test", &file("good.yaml"), &file("bad.yaml")]);
    assert_eq!(status, Some(1));
    assert!(out.contains("2:75: rule `b` does not match this") && out.ends_with("1 passed, 1 failed\n"), "{out}");
    let (status, out) = pgsluice(&["test", &file("some.yaml"), &file("missing.yaml")]);
    assert_eq!(status, Some(1));
    assert!(out.ends_with("0 passed, 3 failed\n"), "{out}");
}

#[test]
fn the_rules_that_come_along_hold() {
    let (status, out) = pgsluice(&["test", "rules"]);
    assert_eq!(status, Some(0), "{out}");
    let passed: usize = out.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default();
    assert!(passed > 100, "{out}");
}

#[test]
fn certificates_are_looked_at() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let dir = place.path();
    let ca = certs::authority(dir, "ca");
    certs::server(dir, "server", &ca, "DNS:localhost");
    certs::server(dir, "other", &ca, "DNS:localhost");
    fs::write(dir.join("empty.pem"), "").expect("writable");
    fs::create_dir(dir.join("directory")).expect("writable");
    let base = fs::read_to_string(directory("examples").join("minimal.yaml")).expect("readable");
    let lines = base.lines().count();
    let check = |tls: &str| {
        let path = dir.join("pgsluice.yaml");
        fs::write(&path, format!("{base}tls: {tls}\n")).expect("writable");
        let (status, out) = pgsluice(&["check", "-c", &path.to_string_lossy()]);
        (status, out.replace(&format!("{}/", dir.display()), ""))
    };
    let ok = "pgsluice.yaml: ok: 1 listener, 1 database, 2 nodes, 1 user\n";
    // Relative names start where the configuration lies; absolute ones do not.
    let absolute = dir.join("ca.crt").display().to_string();
    for good in [
        "{ client: { mode: prefer, cert: server.crt, key: server.key } }",
        "{ client: { mode: verify, cert: server.crt, key: server.key, ca: ca.crt }, server: { mode: verify-ca, ca: ca.crt } }",
        &format!("{{ server: {{ mode: verify-full, ca: \"{absolute}\" }} }}"),
        "{ server: { mode: verify-full } }",
        "{ server: { mode: require } }",
    ] {
        assert_eq!(check(good), (Some(0), ok.to_owned()), "{good}");
    }
    let client = "{ client: { mode: verify, cert: ";
    let at =
        |text: &str, part: &str| format!("pgsluice.yaml:{}:{}: ", lines + 1, 6 + text.find(part).expect("it is there"));
    for (rest, part, words) in [
        ("missing.crt, key: server.key, ca: ca.crt } }", "missing.crt", "`missing.crt` can not be read: No such file"),
        ("directory, key: server.key, ca: ca.crt } }", "directory", "`directory` can not be read: Is a directory"),
        ("server.crt, key: other.key, ca: ca.crt } }", "other.key", "`other.key` does not belong to the certificate"),
        ("server.crt, key: server.crt, ca: ca.crt } }", "server.crt, ca", "`server.crt` holds no private key"),
        ("server.key, key: server.key, ca: ca.crt } }", "server.key, key", "`server.key` holds no certificate"),
        ("server.crt, key: server.key, ca: empty.pem } }", "empty.pem", "`empty.pem` holds no certificate"),
        ("server.crt, key: server.key } }", "verify", "certificates of clients can not be verified without `ca`"),
        ("server.crt, ca: ca.crt } }", "verify", "TLS towards clients needs `key`"),
    ] {
        let tls = format!("{client}{rest}");
        let (status, out) = check(&tls);
        let words_at = format!("{}{}", at(&tls, part), words);
        assert!(status == Some(1) && out.contains(&words_at), "{tls}\n{words_at}\n{out}");
    }
    let (status, out) = check("{ server: { mode: verify-full, ca: server.key } }");
    assert!(status == Some(1) && out.contains("`server.key` holds no certificate"), "{out}");
}

/// A file that holds nearly every construct, as the ground for changes.
const GROUND: &str = include_str!("data/config/everything.yaml");
/// What tends to mean something to a YAML reader.
const SPICE: &[&str] = &[
    "\n",
    "  ",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a ",
    "*a",
    "!t ",
    "|",
    ">",
    "\"",
    "'",
    "#",
    "---\n",
    "...\n",
    "%",
    "? ",
    "${",
    "}",
    "$${",
    "\t",
    "\u{feff}",
    "ä",
    "\u{0}",
    "null",
    "~",
    "-1",
    "99999999999999999999",
    "[[[[[[[[",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn changed_files_never_panic(
        changes in prop::collection::vec((0..GROUND.len(), 0..40usize, 0..SPICE.len()), 1..6)
    ) {
        let mut text = GROUND.to_owned();
        for (start, length, spice) in changes {
            let floor = |index: usize| (0..=index.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            let range = floor(start)..floor(start.saturating_add(length));
            text.replace_range(range, SPICE[spice]);
        }
        findings(&text, "x.yaml");
    }

    #[test]
    fn any_text_never_panics(text in "\\PC{0,200}") {
        findings(&text, "x.yaml");
    }

    #[test]
    fn text_of_yaml_marks_never_panics(words in prop::collection::vec(0..SPICE.len(), 0..40)) {
        let text: String = words.iter().map(|word| SPICE[*word]).collect();
        findings(&text, "x.yaml");
    }
}
