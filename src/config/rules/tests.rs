//! Rule files in, faults out.

use super::RuleFile;

fn faults(text: &str) -> String {
    match RuleFile::parse("r.yaml", text) {
        Ok(_) => String::new(),
        Err(faults) => {
            // What stands at the place, up to the next mark, and what is said of it.
            let at = |fault: &crate::config::Fault| {
                let line = text.lines().nth(fault.at.line - 1).unwrap_or_default();
                let rest: String = line.chars().skip(fault.at.column - 1).collect();
                let word = rest.split([' ', ',', '}', ']']).next().unwrap_or_default().to_owned();
                format!("{word} ~ {}", fault.message)
            };
            faults.0.iter().map(at).collect::<Vec<_>>().join("\n")
        }
    }
}

#[test]
fn every_fault_is_told_with_its_place() {
    for (text, expected) in [
        ("", ""),
        ("firewall: []", ""),
        ("firewal: []", "firewal: ~ unknown key `firewal`"),
        ("firewall: [{ name: a, when: { statement: delete }, deny: {} }]", ""),
        ("firewall: [{ name: a, when: { statement: delet }, deny: {} }]", "delet ~ `delet` does not fit here"),
        ("firewall: [{ name: a, when: { kind: reed }, deny: {} }]", "reed ~ `reed` does not fit here"),
        ("firewall: [{ name: a, wen: {}, deny: {} }]", "wen: ~ unknown key `wen`"),
        ("firewall: [{ when: {}, deny: {} }]", "{ ~ `name` is missing"),
        ("firewall: [{ name: a }]", "a ~ rule `a` does nothing"),
        (
            "firewall: [{ name: a, deny: {}, limit: { rows: 1 } }]",
            "{ ~ `limit` beside `deny`: what is refused has no result",
        ),
        ("firewall: [{ name: a, limit: {} }]", "{ ~ this limits nothing"),
        ("firewall: [{ name: a, deny: { sqlstate: x } }]", "x ~ `x` is no SQLSTATE of an error"),
        ("firewall: [{ name: a, deny: { sqlstate: '00000' } }]", "'00000' ~ `00000` is no SQLSTATE of an error"),
        ("firewall: [{ name: a, deny: {}, mode: on }]", "on ~ `on` does not fit here"),
        (
            "firewall: [{ name: a, deny: {} }, { name: a, deny: {} }]",
            "a ~ firewall rule `a` stands here again, first on line 1",
        ),
        ("firewall: [{ name: a, when: { user: 'a[' }, deny: {} }]", "'a[' ~ `a[` is no glob: invalid range pattern"),
        (
            "firewall: [{ name: a, when: { client: 10.0.0.0/33 }, deny: {} }]",
            "10.0.0.0/33 ~ `10.0.0.0/33` is no address block",
        ),
        (
            "firewall: [{ name: a, when: { text: '(' }, deny: {} }]",
            "'(' ~ this is no regular expression: unclosed group",
        ),
        ("firewall: [{ name: a, when: { shape: x }, deny: {} }]", "x ~ `x` is no fingerprint"),
        ("firewall: [{ name: a, when: { where: maybe }, deny: {} }]", "maybe ~ `maybe` does not fit here"),
        ("\u{feff}firewall: [{ name: a, when: { kind: read }, deny: {} }]", ""),
        ("firewall: [{ name: a, when: { user: , kind: read }, deny: {} }]", "user: ~ `user` has no value"),
        ("firewall: [{ name: a, when: , deny: {} }]", "when: ~ `when` has no value"),
        (
            "firewall: [{ name: a, when: { object: [ROLE, roel] }, deny: {} }]",
            "roel ~ `roel` is no glob: no kind of object is called so",
        ),
        (
            "firewall: [{ name: a, when: { tables: a.b.c }, deny: {} }]",
            "a.b.c ~ `a.b.c` is no glob: a name has a schema at most before it",
        ),
        ("routing: [{ name: a }]", "a ~ rule `a` does nothing"),
        ("firewall: [{ name: \"a\\nb\", deny: {} }]", "\"a\\nb\" ~ this can not be the name of a rule"),
        ("firewall: [{ name: \"a\\u2028b\", deny: {} }]", "\"a\\u2028b\" ~ this can not be the name of a rule"),
        ("firewall: [{ name: a, when: { user: &u x, statement: *u }, deny: {} }]", "*u ~ `x` does not fit here"),
        (
            "firewall: [{ name: a, when: { user: &u [x, y], statement: *u }, deny: {} }]",
            "x ~ `x` does not fit here\ny ~ `y` does not fit here",
        ),
        (
            "firewall: [{ name: &n a, deny: {} }, { name: *n, deny: {} }]",
            "*n ~ firewall rule `a` stands here again, first on line 1",
        ),
        ("routing: [{ name: a, timeout: 5s }]", ""),
        ("routing: [{ name: a, timeout: 0s }]", "0s ~ no statement ends in no time at all"),
        ("routing: [{ name: a, route: { to: nowhere } }]", "nowhere ~ `nowhere` does not fit here"),
        ("routing: [{ name: a, route: { to: primary, tags: [x] } }]", "[x ~ `tags` is about replicas"),
        ("routing: [{ name: a, route: { to: replica, tags: [x], max_lag: 5m, unsafe: true } }]", ""),
        ("functions: [{ name: a.b }]", "a.b ~ function `a.b` must either only read or write something"),
        ("functions: [{ name: a.b, read_only: true }, { name: c, writes: [t] }]", ""),
        ("cache: [{ name: a, when: { reads: [t] } }]", "{ ~ `cache` is missing"),
        ("cache: [{ name: a, when: { reads: [t] }, cache: { ttl: 5s } }]", ""),
        ("rewrite: [{ name: a, rewrite: {} }]", "a ~ rule `a` changes nothing"),
        ("rewrite: [{ name: a, rewrite: { rename_table: { a: b } } }]", ""),
        (
            "firewall:\n  - { name: a, when: { statement: x }, deny: {} }\n  - { name: b, when: { text: '(' }, deny: {} }",
            "x ~ `x` does not fit here\n'(' ~ this is no regular expression: unclosed group",
        ),
    ] {
        assert_eq!(faults(text), expected, "{text}");
    }
}
