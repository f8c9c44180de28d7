use std::net::IpAddr;

use super::{HbaMethod, Way, read};
use crate::config::{fault::Findings, hba::Hba};

fn hba(text: &str) -> Hba {
    let mut findings = Findings::new("hba");
    let hba = read(text, &mut findings);
    findings.close(Some(hba)).expect("no faults").0
}

fn read_faults(text: &str) -> String {
    let mut findings = Findings::new("hba");
    let hba = read(text, &mut findings);
    findings.close(Some(hba)).map_or_else(|faults| faults.to_string(), |_| String::new())
}

/// `-`: a Unix socket; `tls:` in front: encrypted.
fn way(text: &str) -> Way {
    match text {
        "-" => Way::Local,
        text => {
            let bare = text.strip_prefix("tls:");
            let from: IpAddr = bare.unwrap_or(text).parse().expect("an address");
            Way::Tcp { from, encrypted: bare.is_some() }
        }
    }
}

#[test]
fn the_first_line_that_matches_decides() {
    let text = "
        # who comes by the socket
        local   all             root                                    trust
        local   app,shop        all                                     md5     # a comment
        host    \"all\"           all             127.0.0.1/32            reject
        host    app             bad             0.0.0.0/0               reject
        hostssl app             all             10.0.0.0 255.0.0.0      password
        hostnossl app           all             10.1.0.0/16             md5
        host    app, shop, \\
                \"quoted name\"   alice,\"+bob\"  10.9.0.7/16             scram-sha-256
        host    sameuser        all             2001:db8::/32           trust
        host    replication     all             all                     trust
        host    last            all             all                     md5
        hostssl certs           all             all                     cert";
    let hba = hba(text);
    for (from, database, user, wanted) in [
        ("-", "anything", "root", Some((3, HbaMethod::Trust))),
        ("-", "shop", "app", Some((4, HbaMethod::Md5))),
        ("-", "other", "app", None),
        ("127.0.0.1", "all", "app", Some((5, HbaMethod::Reject))),
        ("127.0.0.1", "any", "app", None),
        ("192.168.1.1", "app", "bad", Some((6, HbaMethod::Reject))),
        ("::1", "app", "bad", None),
        ("tls:10.1.2.3", "app", "alice", Some((7, HbaMethod::Password))),
        ("10.1.2.3", "app", "alice", Some((8, HbaMethod::Md5))),
        ("::ffff:10.1.2.3", "app", "alice", Some((8, HbaMethod::Md5))),
        ("10.9.255.255", "shop", "alice", Some((9, HbaMethod::ScramSha256))),
        ("10.9.255.255", "quoted name", "+bob", Some((9, HbaMethod::ScramSha256))),
        ("10.9.255.255", "shop", "bob", None),
        ("10.10.0.0", "shop", "alice", None),
        ("2001:db8:ffff::1", "carol", "carol", Some((11, HbaMethod::Trust))),
        ("2001:db9::1", "carol", "carol", None),
        ("2001:db8::1", "app", "carol", None),
        ("tls:1.2.3.4", "replication", "carol", None),
        ("tls:1.2.3.4", "last", "carol", Some((13, HbaMethod::Md5))),
        ("tls:1.2.3.4", "certs", "carol", Some((14, HbaMethod::Cert))),
        ("1.2.3.4", "certs", "carol", None),
    ] {
        let found = hba.line(way(from), database, user).map(|line| (line.number, line.method));
        assert_eq!(found, wanted, "{from} {database} {user}");
    }
}

#[test]
fn blocks_of_any_width_are_compared_bit_by_bit() {
    for (block, inside, outside) in [
        ("0.0.0.0/0", "255.255.255.255", "::"),
        ("10.0.0.1/32", "10.0.0.1", "10.0.0.0"),
        ("10.0.0.128/25", "10.0.0.255", "10.0.0.127"),
        ("::/0", "ffff::", "1.2.3.4"),
        ("::1/128", "::1", "::2"),
        ("fe80::/10", "febf::1", "fec0::1"),
        ("10.0.0.1 255.0.0.255", "10.9.9.1", "10.9.9.2"),
    ] {
        let hba = hba(&format!("host all all {block} trust"));
        assert!(hba.line(way(inside), "d", "u").is_some(), "{inside} is in {block}");
        assert!(hba.line(way(outside), "d", "u").is_none(), "{outside} is not in {block}");
    }
}

#[test]
fn every_fault_is_told_with_its_place() {
    let text = "hots all all all trust
host all
host all all
host all all 10.0.0.0/33 md5
host all all 10.0.0.1 md5
host all all 10.0.0.1 ::ffff md5
host all all db.example md5
host all all samehost md5
host all all all gss
host all all all psk
host all,samerole +staff,@file,/^re all trust
local all all
local all all trust map=x
host all all 10.0.0.0/8,11.0.0.0/8 md5
host all all all ldap ldapbindpasswd=hidden
include other.conf
host all all all trust extra ldapbindpasswd=hidden
host all all all cert
local all all cert";
    let all = read_faults(text);
    let told: Vec<&str> = all.lines().filter(|line| !line.starts_with(' ')).collect();
    let places: Vec<&str> = told.iter().map(|line| line.split(": ").next().expect("a place")).collect();
    let wanted = [
        "hba:1:1",
        "hba:2:9",
        "hba:3:13",
        "hba:4:14",
        "hba:5:23",
        "hba:6:23",
        "hba:7:14",
        "hba:8:14",
        "hba:9:18",
        "hba:10:18",
        "hba:11:10",
        "hba:11:19",
        "hba:11:26",
        "hba:11:32",
        "hba:12:14",
        "hba:13:21",
        "hba:14:25",
        "hba:15:18",
        "hba:16:1",
        "hba:17:24",
        "hba:18:18",
        "hba:19:15",
    ];
    assert_eq!(places, wanted, "\n{}", told.join("\n"));
    assert!(!all.contains("hidden"), "{all}");
    assert!(all.contains("\n    hots all all all trust\n    ^"), "{all}");
}
