use super::*;
use crate::base::Lsn;

pub(crate) fn sample(role: &str, started: &str, lsn: u64, begun: u64) -> Sample {
    Sample {
        in_recovery: role == "replica",
        lsn: Some(Lsn(lsn)),
        insert: Some(Lsn(lsn)),
        timeline: Some(1),
        started: started.to_owned(),
        wal_segment: 16 << 20,
        system: Some("7".to_owned()),
        begun: Duration::from_millis(begun),
        ended: Duration::from_millis(begun + 1),
    }
}

/// `same|anew <role> <start> <lsn>`, `doubt`, `crowded`, `fail`; one step per 10 ms.
fn run(script: &str) -> String {
    let mut track = Track::new(1);
    for (step, line) in script.split(',').enumerate() {
        let ms = 10 * (step as u64 + 1);
        let words: Vec<&str> = line.split_whitespace().collect();
        let event = match words[..] {
            ["same", role, started, lsn] => Event::Answered(sample(role, started, lsn.parse().unwrap(), ms)),
            ["anew", role, started, lsn] => Event::AnsweredAnew(sample(role, started, lsn.parse().unwrap(), ms)),
            // Asked before the doubt of the step before it was raised.
            ["late", role, started, lsn] => Event::Answered(sample(role, started, lsn.parse().unwrap(), ms - 11)),
            ["doubt"] => Event::Doubted,
            ["crowded"] => Event::Crowded,
            ["fail"] => Event::Failed,
            _ => panic!("{line}"),
        };
        track.apply(event, Duration::from_millis(ms));
    }
    let lsn = track.position().map_or("-".to_owned(), |position| position.lsn.0.to_string());
    let doubt = if track.suspicion() == Suspicion::Suspect { " suspect" } else { "" };
    format!("{} epoch {} at {lsn}{doubt}", track.health.as_str(), track.epoch)
}

#[test]
fn an_epoch_is_one_process_in_one_role() {
    let cases = [
        ("anew replica t1 5", "up epoch 1 at 5"),
        ("anew replica t1 5, same replica t1 9", "up epoch 1 at 9"),
        ("anew replica t1 5, same primary t1 9", "up epoch 2 at 9"),
        ("anew replica t1 5, anew replica t2 9", "up epoch 2 at 9"),
        ("anew replica t1 5, anew replica t1 9", "up epoch 2 at 9"),
        ("anew replica t1 5, same replica t1 4", "up epoch 2 at 4"),
        ("fail", "down epoch 2 at -"),
        ("fail, fail, fail", "down epoch 2 at -"),
        ("fail, anew replica t1 5", "up epoch 2 at 5"),
        ("anew replica t1 5, fail, anew replica t1 7", "up epoch 2 at 7"),
        ("anew replica t1 5, fail, anew replica t2 7", "up epoch 3 at 7"),
        ("crowded", "down epoch 2 at -"),
        ("anew replica t1 5, crowded", "up epoch 1 at 5"),
    ];
    for (script, expected) in cases {
        assert_eq!(run(script), expected, "{script}");
    }
}

#[test]
fn doubt_ends_with_an_answer_asked_for_after_it() {
    let cases = [
        ("anew replica t1 5, doubt", "up epoch 1 at 5 suspect"),
        ("anew replica t1 5, doubt, late replica t1 6", "up epoch 1 at 6 suspect"),
        ("anew replica t1 5, doubt, same replica t1 6", "up epoch 1 at 6"),
        ("anew replica t1 5, doubt, crowded", "up epoch 1 at 5 suspect"),
        ("anew replica t1 5, doubt, fail", "down epoch 2 at - suspect"),
    ];
    for (script, expected) in cases {
        assert_eq!(run(script), expected, "{script}");
    }
}
