//! What goes to the client and what is learnt, for one line of server messages.

use super::{
    cuts::{Taking, converse},
    words::{encode, learnt, owing},
};
use crate::{
    pool::{Found, Prepared, StatementId},
    relay::{Attempt, Feed, Violation},
};

/// Server messages that arrive whole, cut in two at every place, and byte by byte, must all give the same.
fn check_feed(make: impl Fn() -> Feed, server: &str, client: &str, notes: &str) {
    let bytes = encode(server);
    let mut cuts: Vec<Vec<usize>> = (0..bytes.len()).map(|at| vec![at]).collect();
    cuts.push((0..bytes.len()).collect());
    for cut in cuts {
        for taking in [Taking::AtOnce, Taking::Never] {
            let mut feed = make();
            let heard = converse(&mut feed, &bytes, &cut, taking).unwrap();
            assert_eq!((&*heard.client, &*learnt(&feed)), (client, notes), "{server} cut at {cut:?}, {taking:?}");
        }
    }
}

fn check(owed: &str, server: &str, client: &str, notes: &str) {
    check_feed(|| owing(owed), server, client, notes);
}

fn attempt(owed: &str) -> Feed {
    let mut feed = owing(owed);
    feed.attempt = Attempt::Repeatable;
    feed
}

fn check_attempt(owed: &str, server: &str, client: &str, notes: &str) {
    check_feed(|| attempt(owed), server, client, notes);
}

fn check_violation(owed: &str, server: &[u8], expected: Violation) {
    for piece in [1, server.len()] {
        let mut feed = owing(owed);
        let cuts: Vec<usize> = (0..server.len()).step_by(piece).collect();
        let found = converse(&mut feed, server, &cuts, Taking::AtOnce).map(|heard| heard.client);
        assert_eq!(found, Err(expected.clone()), "{owed}: {server:?}");
    }
}

#[test]
fn replies_of_the_client_pass() {
    check("query", "T:x D:1 D:2 C:SELECT Z:I", "T:x D:1 D:2 C:SELECT Z:I", "I delivered");
    check("query", "I Z:I", "I Z:I", "I delivered");
    check("query", "C:BEGIN C:SELECT Z:T", "C:BEGIN C:SELECT Z:T", "T delivered");
    check("query", "V:x Z:I", "V:x Z:I", "I delivered");
    check("parse bind portal execute sync", "1 2 T:x D:1 s Z:T", "1 2 T:x D:1 s Z:T", "T delivered");
    check("describe sync", "t T:x Z:I", "t T:x Z:I", "I");
    check("describe sync", "t n Z:I", "t n Z:I", "I");
    check("portal close sync", "n 3 Z:I", "n 3 Z:I", "I");
    check("parse! parse", "1", "1", "names=1 owed=1");
    check("sync sync", "Z:I", "Z:I", "I owed=1");
    check("execute", "D:1", "D:1", "delivered owed=1");
}

#[test]
fn what_belongs_to_nobody_passes() {
    check("", "N:x A:y S:TimeZone=UTC", "N:x A:y S:TimeZone=UTC", "TimeZone=UTC");
    check("parse", "N:x A:y S:a=b 1", "N:x A:y S:a=b 1", "a=b");
    check("~query", "N:x A:y S:a=b C:SET Z:I", "A:y", "I a=b");
}

#[test]
fn replies_of_ours_are_swallowed() {
    check("~query query", "T:x D:1 C:SET Z:T C:SELECT Z:T", "C:SELECT Z:T", "T delivered");
    check("~close ~parse#7 bind sync", "3 1 2 Z:I", "2 Z:I", "I");
    check("parse ~close bind", "1 3 2", "1 2", "");
    check("=query query", "T:x D:1 D:2 C:SELECT Z:I C:X Z:I", "C:X Z:I", "I delivered row=1 row=2");
    check("~query", "E:42501 Z:I", "", "I hidden=42501");
    check("=query", "D:1 E:42501 Z:I", "", "I hidden=42501 row=1");
    check("~sync", "E:23505 Z:I", "", "I hidden=23505");
}

#[test]
fn our_own_replies_come_in_turn() {
    check("local:1 bind sync", "2 Z:I", "1 2 Z:I", "I");
    check("parse! local:1! local:3! bind", "1 2", "1 1 3 2", "names=3");
    check("~parse#1 local:1 sync local:1", "1 Z:I", "1 Z:I 1", "I");
    check("query local:C:SHOW query", "Z:I Z:T", "Z:I C:SHOW Z:T", "T");
    check("parse local:1! sync", "E:42601 Z:I", "E:42601 Z:I", "I delivered error=42601");
}

#[test]
fn an_error_skips_to_the_sync() {
    check("parse bind execute sync", "E:42601 Z:I", "E:42601 Z:I", "I delivered error=42601");
    check("parse! bind execute", "E:42601", "E:42601", "delivered failed_parse skipping error=42601");
    check("parse bind query sync", "1 E:22P02 Z:E", "1 E:22P02 Z:E", "E delivered error=22P02");
    check("query sync", "E:22012 Z:I Z:I", "E:22012 Z:I Z:I", "I delivered error=22012");
    check("sync sync", "E:23505 Z:I Z:I", "E:23505 Z:I Z:I", "I delivered error=23505");
    check("execute sync parse", "D:1 E:22012 Z:I", "D:1 E:22012 Z:I", "I delivered error=22012 owed=1");
    check("bind sync bind sync", "E:42P01 Z:I E:42P02 Z:I", "E:42P01 Z:I E:42P02 Z:I", "I delivered error=42P01");
    // A Parse of ours is part of the client's request.
    check("~parse#4 bind execute sync", "E:42P01 Z:I", "E:42P01 Z:I", "I delivered error=42P01 skipped#4");
    check(
        "bind ~close%1 ~parse#2 parse?3 bind sync",
        "E:22P02 Z:I",
        "E:22P02 Z:I",
        "I delivered error=22P02 skipped%1 skipped#2 skipped?3",
    );
}

#[test]
fn poison_gives_the_error_of_ours() {
    check("parse ~close poison:E:42P05 sync", "1 3 E:26000 Z:I", "1 E:42P05 Z:I", "I delivered error=26000");
    check("poison:E:42P05 bind", "E:26000", "E:42P05", "delivered skipping error=26000");
    check("parse poison:E:42P05 sync", "E:42601 Z:E", "E:42601 Z:E", "E delivered error=42601");
}

#[test]
fn copies() {
    check("query", "G:x", "G:x", "copy_in delivered owed=1");
    check("query", "G:x C:COPY Z:I", "G:x C:COPY Z:I", "I delivered");
    check("query", "G:x E:22P04 Z:I", "G:x E:22P04 Z:I", "I delivered error=22P04");
    check("execute sync", "G:x E:22P04", "G:x E:22P04", "delivered error=22P04 owed=1");
    check("query", "H:x d:1 d:2 c C:COPY Z:I", "H:x d:1 d:2 c C:COPY Z:I", "I delivered");
    check("execute sync", "H:x d:1 c C:COPY Z:I", "H:x d:1 c C:COPY Z:I", "I delivered");
}

#[test]
fn last_words_are_kept() {
    check("query", "F:57P01", "", "fatal=57P01 owed=1");
    check("query", "T:x D:1 F:57P01", "T:x D:1", "delivered fatal=57P01 owed=1");
    check("~parse#1 bind sync", "P:XX000", "", "fatal=XX000 owed=3");
    check("", "F:57P01", "", "fatal=57P01");
    check("", "E:25P03", "", "fatal=25P03");
    let mut feed = owing("query");
    converse(&mut feed, &encode("F:57P01"), &[], Taking::AtOnce).unwrap();
    feed.abandon();
    assert_eq!(learnt(&feed), "", "the next server has said nothing yet");
}

#[test]
fn a_misrouted_attempt_ends_unseen() {
    for code in ["25006", "0A000", "55000"] {
        let notes = "misrouted owed=4";
        check_attempt("bind portal execute sync", &format!("E:{code} Z:I"), "", notes);
    }
    // What was said before is held by the pump, and dropped.
    check_attempt("parse bind execute sync", "1 2 E:25006 Z:I", "1 2", "misrouted owed=2");
    check_attempt("~query query", "C:SET Z:T T:x E:25006 Z:E", "T:x", "T misrouted owed=1");
    check_attempt("local:1 bind sync", "E:25006 Z:I", "1", "misrouted owed=2");
    // Behind a row there is no way back.
    let told = "I delivered error=25006";
    check_attempt("query", "T:x D:1 E:25006 Z:I", "T:x D:1 E:25006 Z:I", told);
    check_attempt("execute sync", "D:1 E:25006 Z:I", "D:1 E:25006 Z:I", told);
    check_attempt("query", "C:SELECT E:25006 Z:I", "C:SELECT E:25006 Z:I", "I delivered error=25006");
    // The client's own errors are the client's.
    check_attempt("query", "E:22012 Z:I", "E:22012 Z:I", "I delivered error=22012");
    check("query", "E:25006 Z:I", "E:25006 Z:I", told);
    // And a request of ours is none.
    check_attempt("~query query", "E:25006 Z:I C:X Z:I", "C:X Z:I", "I delivered hidden=25006");
}

#[test]
fn the_rest_of_an_attempt_is_not_heard() {
    let check = |owed: &str, misroute: &str, rest: &str, notes: &str| {
        for cut in 0..encode(rest).len() {
            let mut feed = attempt(owed);
            let heard = converse(&mut feed, &encode(misroute), &[], Taking::AtOnce).unwrap();
            assert!(feed.misrouted, "{misroute}");
            feed.give_up();
            let bytes = [heard.rest, encode(rest)].concat();
            let heard = converse(&mut feed, &bytes, &[bytes.len() - cut], Taking::AtOnce).unwrap();
            assert_eq!((&*heard.client, &*learnt(&feed)), ("", notes), "{owed}: {misroute}, {rest}");
            assert!(feed.is_settled());
        }
    };
    check("query", "E:25006", "Z:I", "I");
    check("parse bind execute sync", "1 E:25006", "Z:I", "I");
    check("bind parse#1 local:1! execute sync", "E:0A000", "Z:I", "I skipped#1");
    check(
        "parse bind sync local:1 parse bind execute sync",
        "E:0A000",
        "Z:I 1 2 D:1 D:2 C:X S:a=b N:x Z:I",
        "I delivered a=b",
    );
    check("bind sync execute sync", "E:0A000", "Z:I E:0A000 Z:I", "I");
    check("query", "E:25006", "F:57P01 Z:I", "I fatal=57P01");
}

#[test]
fn what_nobody_asked_for_is_a_violation() {
    let check = |owed: &str, server: &str, tag: u8, name: &'static str| {
        check_violation(owed, &encode(server), Violation::Unexpected { tag, owed: name });
    };
    check("", "Z:I", b'Z', "nothing");
    check("", "D:1", b'D', "nothing");
    check("query", "Z:I C:X", b'C', "nothing");
    check("query", "1", b'1', "the end of a query");
    check("query", "s", b's', "the end of a query");
    check("query", "W:x", b'W', "the end of a query");
    check("parse sync", "Z:I", b'Z', "ParseComplete");
    check("parse", "2", b'2', "ParseComplete");
    check("bind", "1", b'1', "BindComplete");
    check("close", "2", b'2', "CloseComplete");
    check("describe", "T:x", b'T', "ParameterDescription");
    check("describe", "t t", b't', "RowDescription");
    check("portal", "t", b't', "RowDescription");
    check("execute", "T:x", b'T', "the end of an Execute");
    check("sync", "C:X", b'C', "ReadyForQuery");
    check("~query", "G:x", b'G', "the end of a query");
    check("bind", "D:1", b'D', "BindComplete");
    check("bind", "d:1", b'd', "BindComplete");
    check("query", "R:x", b'R', "the end of a query");
    check("query", "K:x", b'K', "the end of a query");
}

#[test]
fn what_cannot_be_read_is_a_violation() {
    check_violation("query", b"Z\0\0\0\x05X", Violation::Malformed { tag: b'Z' });
    check_violation("query", b"Z\0\0\0\x04", Violation::Malformed { tag: b'Z' });
    check_violation("query", b"Z\0\0\0\x06II", Violation::Malformed { tag: b'Z' });
    check_violation("", b"S\0\0\0\x06ab", Violation::Malformed { tag: b'S' });
    for len in [0, 3, 0x4000_0001, u32::MAX] {
        for tag in [b'D', b'Z', b'T', 0] {
            let head = [&[tag], &len.to_be_bytes()[..]].concat();
            check_violation("query", &head, Violation::BadLength { tag, len });
        }
    }
    // Whatever else an error says, it is one.
    let mut feed = owing("query");
    let heard = converse(&mut feed, b"E\0\0\0\x05x", &[], Taking::AtOnce).map(|heard| heard.rest);
    assert_eq!((heard, &*learnt(&feed)), (Ok(Vec::new()), "delivered error=XX000 owed=1"));
}

#[test]
fn the_servers_statements_are_settled_with_what_was_skipped() {
    let id = StatementId;
    let mut prepared = Prepared::new(10);
    prepared.insert(id(1), Found::Something);
    prepared.insert(id(2), Found::Something);
    let mut unnamed = Some(id(3));
    // 3 takes the place of 1, and the client's Parse is unnamed; none of it happens.
    prepared.remove(id(1));
    let mut feed = owing("bind ~close%1 ~parse#2 parse?3 sync");
    converse(&mut feed, &encode("E:22P02 Z:I"), &[], Taking::AtOnce).unwrap();
    feed.settle_statements(&mut prepared, &mut unnamed);
    assert_eq!((prepared.touch(id(1)), prepared.touch(id(2)), unnamed), (Found::Something, Found::Nothing, None));
    assert!(feed.skipped.is_empty());
}

#[test]
fn what_was_skipped_is_undone_backwards() {
    for (skipped, there) in [
        ("~parse#1 ~close%1", Found::Nothing),
        ("~close%1 ~parse#1", Found::Something),
        ("~parse#1 ~close%1 ~parse#1", Found::Nothing),
        ("~close%1 ~parse$1 ~describe*0", Found::Something),
    ] {
        let mut prepared = Prepared::new(10);
        prepared.insert(StatementId(1), Found::Something);
        let mut feed = owing(&format!("bind {skipped} sync"));
        converse(&mut feed, &encode("E:22P02 Z:I"), &[], Taking::AtOnce).unwrap();
        feed.settle_statements(&mut prepared, &mut None);
        assert_eq!(prepared.touch(StatementId(1)), there, "{skipped}");
    }
}

#[test]
fn a_reset_keeps_only_what_outlives_an_exchange() {
    let mut feed = attempt("=query query");
    converse(&mut feed, &encode("D:1 C:X Z:T E:22012 Z:E"), &[], Taking::AtOnce).unwrap();
    feed.give_up();
    feed.reset();
    assert_eq!((learnt(&feed).as_str(), feed.attempt, feed.mute), ("E", Attempt::Final, false));
}
