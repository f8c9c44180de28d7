//! Messages that are longer than anybody wants to hold.

use super::{
    cuts::Taking,
    words::{encode, learnt, message, owing},
};
use crate::relay::{Feed, Violation};

const MIB: usize = 1 << 20;

/// Feeds 64 KiB at a time; gives the client's bytes and the most that ever waited.
fn stream(feed: &mut Feed, server: &[u8], taking: Taking) -> Result<(Vec<u8>, usize), Violation> {
    let (mut client, mut out, mut rest, mut waiting) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for piece in server.chunks(64 * 1024) {
        rest.extend_from_slice(piece);
        if taking == Taking::AtOnce {
            client.append(&mut out);
        }
        let fed = feed.feed(&rest, &mut out)?;
        if taking == Taking::AtOnce {
            client.append(&mut out);
            client.extend_from_slice(&rest[fed.direct]);
        } else {
            out.extend_from_slice(&rest[fed.direct]);
        }
        rest.drain(..fed.consumed);
        waiting = waiting.max(rest.len());
    }
    client.append(&mut out);
    Ok((client, waiting))
}

/// `front`, a message of `tag` with 3 MiB, `behind`: does it pass whole, how much was held at most, and what is learnt?
fn check(owed: &str, tag: u8, (front, behind): (&str, &str), passes: bool, held: usize, notes: &str) {
    let long = message(tag, &vec![b'x'; 3 * MIB]);
    let server = [encode(front), long.clone(), encode(behind)].concat();
    for taking in [Taking::AtOnce, Taking::Never] {
        let mut feed = owing(owed);
        let (client, waiting) = stream(&mut feed, &server, taking).unwrap();
        let expected = if passes { server.clone() } else { Vec::new() };
        assert!(client == expected, "{owed}, {}: {} of {} bytes", char::from(tag), client.len(), expected.len());
        assert!(waiting <= held, "{owed}, {}: {waiting} held", char::from(tag));
        assert_eq!(learnt(&feed), notes, "{owed}, {}", char::from(tag));
    }
}

#[test]
fn long_messages_stream_through() {
    let around = ("T:x", "C:SELECT Z:I");
    check("query", b'D', around, true, 4, "I delivered");
    check("query", b'd', ("H:x", "c C:COPY Z:I"), true, 4, "I delivered");
    check("query", b'V', ("", "Z:I"), true, 64 * 1024, "I delivered");
    check("query", b'N', around, true, 64 * 1024, "I delivered");
    check("query", b'T', ("", "C:SELECT Z:I"), true, 64 * 1024, "I delivered");
    check("execute sync", b'E', ("D:1", "Z:I"), true, 64 * 1024, "I delivered error=XX000");
}

#[test]
fn long_messages_for_nobody_are_thrown_away_as_they_come() {
    check("~query", b'N', ("", "Z:I"), false, 64 * 1024, "I");
    check("~query", b'D', ("T:x", "C:SELECT Z:I"), false, 64 * 1024, "I");
}

#[test]
fn a_message_in_the_middle_is_known_to_be_one() {
    let mut feed = owing("query");
    let row = message(b'D', &[0; 100]);
    stream(&mut feed, &row[..50], Taking::AtOnce).unwrap();
    assert_eq!(learnt(&feed), "delivered mid_message owed=1");
    assert!(!feed.is_settled());
    feed.abandon();
    assert!(!feed.is_mid_message());
}

#[test]
fn what_must_be_read_whole_is_never_long() {
    for (owed, tag) in [("query", b'Z'), ("query", b'C'), ("query", b'S'), ("=query", b'D')] {
        let len = 2 << 20;
        let head = [&[tag], &u32::to_be_bytes(len)[..]].concat();
        let found = stream(&mut owing(owed), &head, Taking::AtOnce).map(|_| ());
        assert_eq!(found, Err(Violation::BadLength { tag, len }));
    }
}

#[test]
fn a_message_that_waits_is_held_up_to_a_mebibyte() {
    let mut feed = owing("query");
    let server = message(b'T', &vec![b'x'; MIB - 5]);
    let (client, waiting) = stream(&mut feed, &server, Taking::AtOnce).unwrap();
    assert!(client == server && waiting > MIB / 2, "{waiting}");
}

#[test]
fn rows_kept_for_ourselves_are_capped() {
    let mut feed = owing("=query");
    let row = message(b'D', &vec![b'x'; 100 * 1024]);
    stream(&mut feed, &row.repeat(100), Taking::AtOnce).unwrap();
    let kept: usize = feed.rows.iter().map(Vec::len).sum();
    assert!((MIB..MIB + 200 * 1024).contains(&kept), "{kept}");
}
