//! A server's bytes however they are cut, and a client that takes its own at once or never.

use proptest::{collection::vec, prelude::*, sample::Index};

use super::words::{decode, encode, learnt, owed};
use crate::relay::{Attempt, Feed, Violation, feed::Fed};

/// How the client takes what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// So that nothing waits in the buffer, and whole runs pass without being copied.
    AtOnce,
    /// So that everything piles up in the buffer.
    Never,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Heard {
    /// By the client.
    pub client: String,
    /// Server bytes that are not done with.
    pub rest: Vec<u8>,
}

/// Feeds `server`, cut before the given offsets, as the pump does.
pub(super) fn converse(feed: &mut Feed, server: &[u8], cuts: &[usize], taking: Taking) -> Result<Heard, Violation> {
    let (mut client, mut out, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    feed.say_locals(&mut out);
    let ends = cuts.iter().copied().chain([server.len()]);
    let mut start = 0;
    for end in ends {
        if taking == Taking::AtOnce {
            client.append(&mut out);
        }
        rest.extend_from_slice(&server[start..end]);
        start = end;
        if feed.misrouted {
            continue;
        }
        let Fed { consumed, direct } = feed.feed(&rest, &mut out)?;
        assert!(direct.is_empty() || out.is_empty(), "two parts, and no order between them");
        // What is not copied goes out at once or is put behind what waits.
        if taking == Taking::AtOnce {
            client.append(&mut out);
            client.extend_from_slice(&rest[direct]);
        } else {
            out.extend_from_slice(&rest[direct]);
        }
        rest.drain(..consumed);
    }
    client.append(&mut out);
    Ok(Heard { client: decode(&client), rest })
}

/// One request: what is owed for it, what the server says if all is well, and what of it the client hears.
fn request() -> impl Strategy<Value = (&'static str, &'static str, &'static str)> {
    prop_oneof![
        Just(("parse!", "1", "1")),
        Just(("bind", "2", "2")),
        Just(("close", "N:x 3", "N:x 3")),
        Just(("describe", "t T:abc", "t T:abc")),
        Just(("portal", "n", "n")),
        Just(("execute", "D:1 D:abcdefghijklmnopqrstuvwxyz C:SELECT", "D:1 D:abcdefghijklmnopqrstuvwxyz C:SELECT")),
        Just(("execute", "D:1 s", "D:1 s")),
        Just(("execute", "H:x d:1 c C:COPY", "H:x d:1 c C:COPY")),
        Just(("execute", "I", "I")),
        Just(("~parse#5", "1", "")),
        Just(("~close%6", "S:a=b 3", "")),
        Just(("local:1!", "", "1")),
        Just(("query", "T:x D:1 C:SELECT Z:I", "T:x D:1 C:SELECT Z:I")),
        Just(("~query", "C:SET Z:I", "")),
        Just(("=query", "D:1 C:SELECT Z:I", "")),
        Just(("sync", "Z:I", "Z:I")),
    ]
}

proptest! {
    /// Requests up to a Sync, one of them refused by the server or none, the bytes cut anywhere.
    #[test]
    fn the_client_hears_the_same_however_the_bytes_are_cut(
        requests in vec(request(), 0..12),
        refused in any::<Index>(),
        cuts in vec(any::<Index>(), 0..8),
        repeatable in any::<bool>(),
    ) {
        let (mut server, mut client) = (Vec::new(), Vec::new());
        let refused = refused.index(requests.len() + 1);
        let mut skipping = false;
        for (i, (owed, says, hears)) in requests.iter().chain([&("sync", "Z:T", "Z:T")]).enumerate() {
            skipping &= *owed != "sync";
            if skipping {
                continue;
            }
            let ours = owed.starts_with("local") || owed.ends_with("query") || *owed == "sync";
            if i == refused && !ours {
                server.push("E:22012");
                client.push("E:22012");
                skipping = true;
            } else {
                server.push(says);
                client.push(hears);
            }
        }
        let bytes = encode(&server.join(" "));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut first: Option<String> = None;
        for (cuts, taking) in [(&cuts[..], Taking::AtOnce), (&cuts[..], Taking::Never), (&[], Taking::AtOnce)] {
            let mut feed = Feed::default();
            feed.attempt = if repeatable { Attempt::Repeatable } else { Attempt::Final };
            requests.iter().for_each(|(word, ..)| feed.queue.push(owed(word)));
            feed.queue.push(owed("sync"));
            let heard = converse(&mut feed, &bytes, cuts, taking).unwrap();
            let words: Vec<&str> = client.iter().flat_map(|words| words.split_whitespace()).collect();
            prop_assert_eq!(&heard.client, &words.join(" "));
            prop_assert!(feed.is_settled());
            prop_assert!(heard.rest.is_empty());
            let notes = learnt(&feed);
            prop_assert_eq!(first.get_or_insert_with(|| notes.clone()), &notes);
        }
    }

    /// Whatever a server sends: an error or nothing bad, and never more consumed than there was.
    #[test]
    fn no_bytes_make_it_panic(
        requests in vec(request(), 0..6),
        server in vec(prop_oneof![any::<u8>(), Just(0), Just(5), Just(b'D'), Just(b'Z'), Just(b'E'), Just(b'S')], 0..200),
        cuts in vec(any::<Index>(), 0..4),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(server.len() + 1)).collect();
        cuts.sort_unstable();
        let mut whole = Feed::default();
        let mut cut = Feed::default();
        for (word, ..) in &requests {
            whole.queue.push(owed(word));
            cut.queue.push(owed(word));
        }
        let once = raw(&mut whole, &server, &[]);
        let pieces = raw(&mut cut, &server, &cuts);
        prop_assert_eq!(once, pieces);
        prop_assert_eq!(learnt(&whole), learnt(&cut));
    }
}

/// The client's bytes or the violation.
fn raw(feed: &mut Feed, server: &[u8], cuts: &[usize]) -> Result<Vec<u8>, Violation> {
    let (mut client, mut rest, mut start) = (Vec::new(), Vec::new(), 0);
    feed.say_locals(&mut client);
    for end in cuts.iter().copied().chain([server.len()]) {
        rest.extend_from_slice(&server[start..end]);
        start = end;
        let mut out = Vec::new();
        let Fed { consumed, direct } = feed.feed(&rest, &mut out)?;
        client.append(&mut out);
        client.extend_from_slice(&rest[direct]);
        rest.drain(..consumed);
    }
    Ok(client)
}
