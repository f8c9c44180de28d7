//! What clients are told of their statements, what is asked of servers about them, and what they are called there.

use super::{
    cuts::{Taking, converse},
    words::{decode, encode, learnt, message, owing},
};
use crate::{
    base::SqlState,
    pool::StatementId,
    relay::{Asked, Feed, Misnamed},
    wire::backend::ResultType,
};

fn of(columns: &str, parameters: Option<&[u8]>) -> ResultType {
    let rows = encode(&format!("T:={columns}"));
    ResultType::new(Some(&rows[5..]), parameters.map(ResultType::parameters)).unwrap()
}

fn asked(must_be: Option<ResultType>) -> Asked {
    Asked { id: StatementId(7), must_be, is: None }
}

/// However the bytes are cut.
fn fed(make: impl Fn() -> Feed, server: &[u8], client: &str, notes: &str) -> Feed {
    let client = decode(&encode(client));
    for cut in 0..server.len() {
        let mut feed = make();
        let heard = converse(&mut feed, server, &[cut], Taking::AtOnce).unwrap();
        assert_eq!((&heard.client, &*learnt(&feed)), (&client, notes), "cut at {cut}");
    }
    let mut feed = make();
    converse(&mut feed, server, &[], Taking::AtOnce).unwrap();
    feed
}

#[test]
fn what_a_client_is_told_is_noted() {
    let server = encode("t:ab T:=a,b t:ab n T:=c 2 T:=d Z:I");
    let owed = "describe^3 describe portal^4 bind portal sync";
    let feed = fed(|| owing(owed), &server, "t:ab T:=a,b t:ab n T:=c 2 T:=d Z:I", "I");
    let told: Vec<u32> = feed.told.iter().map(|(number, _)| *number).collect();
    assert_eq!(told, [3, 4]);
    assert!(feed.told[0].1.is(of("a,b", Some(b"ab"))) && !feed.told[0].1.is(of("a,b", Some(b"xy"))));
    assert!(feed.told[1].1.is(of("c", Some(b"whatever"))), "a portal's parameters are not described");
    // Nobody is told what cannot be read.
    assert!(fed(|| owing("portal^1"), &encode("T:xyz"), "T:xyz", "").told.is_empty());
}

#[test]
fn what_is_asked_is_answered() {
    let ask = || {
        let mut feed = owing("~parse#7 ~describe*0 bind sync");
        feed.asked.push(asked(None));
        feed
    };
    let feed = fed(ask, &encode("1 t:ab T:=a 2 Z:I"), "2 Z:I", "I");
    assert!(feed.asked[0].is.is_some_and(|is| is.is(of("a", Some(b"ab")))));
    // It could not be made: that is what the client's own request has to say.
    let feed = fed(ask, &encode("E:42P01 Z:I"), "E:42P01 Z:I", "I delivered error=42P01 skipped#7 skipped*0");
    assert!(feed.asked[0].is.is_none());
}

#[test]
fn on_trial_a_difference_ends_the_attempt() {
    let trial = || {
        let mut feed = owing("~parse$7 ~describe*0 bind execute sync");
        feed.asked.push(asked(Some(of("a", Some(b"ab")))));
        feed
    };
    fed(trial, &encode("1 t:ab T:=a 2 D:x C:X Z:I"), "2 D:x C:X Z:I", "I delivered");
    for (server, notes) in [
        ("1 t:ab T:=a,b 2 D:x C:X Z:I", "misrouted not_here owed=4"),
        ("1 t:xy T:=a 2 D:x C:X Z:I", "misrouted not_here owed=4"),
        ("1 t:ab n 2 D:x C:X Z:I", "misrouted not_here owed=4"),
        ("E:42P01 Z:I", "misrouted not_here owed=5"),
    ] {
        let server = encode(server);
        for cut in 0..server.len() {
            let mut feed = trial();
            let heard = converse(&mut feed, &server, &[cut], Taking::AtOnce).unwrap();
            assert_eq!((&*heard.client, &*learnt(&feed)), ("", notes), "cut at {cut}");
            feed.give_up();
            let heard = converse(&mut feed, &heard.rest, &[], Taking::AtOnce).unwrap();
            assert_eq!((&*heard.client, feed.is_settled(), heard.rest.len()), ("", true, 0), "drained, cut at {cut}");
        }
    }
}

fn error(sqlstate: &str, text: &str, routine: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C{sqlstate}\0M{text}\0R{routine}\0\0").as_bytes())
}

#[test]
fn a_plan_that_is_out_of_date_is_told_from_what_is_not_supported() {
    let routine = |routine: &str| {
        let server = [error("0A000", "x", routine), encode("Z:I")].concat();
        let mut feed = owing("bind sync");
        converse(&mut feed, &server, &[], Taking::AtOnce).unwrap();
        feed.stale_plan
    };
    assert!(routine("RevalidateCachedQuery"));
    assert!(!routine("transformSetOperationTree"));
}

#[test]
fn what_could_not_be_lent_is_what_the_query_says() {
    let server = |query: &[u8]| [&error("42P01", "no t", "parserOpenTable"), &encode("Z:I")[..], query].concat();
    let owed = || owing("~close ~parse& ~close ~parse& ~sync query");
    let first = encode("3");
    let missing = [error("26000", "no q", ""), encode("Z:I")].concat();
    let mut feed = owed();
    let heard = converse(&mut feed, &[&first[..], &server(&missing)].concat(), &[], Taking::AtOnce).unwrap();
    assert_eq!((&*heard.client, feed.error), ("E:42P01 Z:I", SqlState::from_bytes(b"42P01")));
    // Whatever else is wrong with it is said as it is.
    let other = encode("T:x E:22012 Z:I");
    let heard = converse(&mut owed(), &[&first[..], &server(&other)].concat(), &[], Taking::AtOnce).unwrap();
    assert_eq!(heard.client, "T:x E:22012 Z:I");
}

#[test]
fn names_of_ours_are_marked() {
    let text = "\"pgsluice_0123456789abcdef0123456789abcdef_00000000\"";
    let server =
        [encode("2"), error("08P01", text, ""), encode("Z:I"), error("26000", text, ""), encode("Z:I")].concat();
    let mut feed = owing("bind@4 bind@5 execute sync describe sync");
    let mut out = encode("N:x");
    let before = out.len();
    feed.feed(&server, &mut out).unwrap();
    assert_eq!(out[before..], server[..]);
    let first = before + encode("2").len();
    let second = first + error("08P01", text, "").len() + encode("Z:I").len();
    let marks = [Misnamed { at: first, bound: Some(5) }, Misnamed { at: second, bound: None }];
    assert_eq!(feed.misnamed, marks);
    // What a client says itself is its own affair.
    let mut feed = owing("query");
    feed.feed(&error("42601", text, ""), &mut Vec::new()).unwrap();
    assert!(feed.misnamed.is_empty());
}
