use super::*;
use crate::sql::facts::PrimaryReason;

fn read(text: &str) -> Facts {
    facts(text.as_bytes(), &Functions::built_in().unwrap_or_else(|e| panic!("{e}")))
}

/// Runs on a stack of the size that threads have by default.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
    assert!(thread.is_ok_and(|t| t.join().is_ok()));
}

/// Ways to make a tree one level deeper with each repetition: before, in the middle, after.
const CHAINS: &[(&str, &str, &str)] = &[
    ("select ", "(", "1"),
    ("select ", "- ", "1"),
    ("select ", "not ", "true"),
    ("select 1", "+1", ""),
    ("select 1", "::int", ""),
    ("select 'a'", "||'a'", ""),
    ("select a", "[1]", ""),
    ("select a", " is null", ""),
    ("select a", " collate x", ""),
    ("select ", "case when true then ", "1"),
    ("select ", "case when true and a then ", "1"),
    ("select ", "array[", "1"),
    ("select ", "f(1, ", "1"),
    ("select ", "not a between 1 and (", "1"),
    ("select 1", " + (a).where", ""),
    ("select 1", " + (a).and", ""),
    ("select 1", "::timestamp with time zone", ""),
    ("select 1", " + values", ""),
    ("select a", " is distinct from not b", ""),
    ("select 1", " < not b", ""),
    ("select ", "not a is distinct from (", "1"),
    ("select ", "- case when a then 1 else ", "1"),
    ("select 1", " union select 1", ""),
    ("select * from t", " natural join t", ""),
    ("select * from t", " join t on a and b", ""),
    ("select * from ", "(select * from ", "t"),
    ("select ", "(select ", "1"),
    ("", "with x as (", "select 1"),
    ("", "explain ", "select 1"),
    ("select ", "exists (select ", "1"),
    ("select 1 where a", " and a", ""),
    ("select 1 where a", " or not a", ""),
];

fn close(text: &mut String) {
    let mut open = Vec::new();
    for c in text.chars() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            ')' | ']' => {
                open.pop();
            }
            _ => {}
        }
    }
    let cases = text.matches("case").count();
    if open.is_empty() {
        text.extend(std::iter::repeat_n(" end", cases));
    }
    text.extend(open.into_iter().rev());
}

fn chain((before, middle, after): (&str, &str, &str), times: usize) -> String {
    let mut text = before.to_owned();
    text.extend(std::iter::repeat_n(middle, times));
    text += after;
    close(&mut text);
    text
}

#[test]
fn deep_texts_are_refused_and_never_crash() {
    on_a_small_stack(|| {
        for &form in CHAINS {
            for times in [100_000, 20_000] {
                let facts = read(&chain(form, times));
                let flat = matches!(form.1, " and a" | " or not a");
                assert!(flat || facts.error.is_some(), "{form:?}");
                assert!(flat || facts.primary == Some(PrimaryReason::Unparsable), "{form:?}");
            }
        }
    });
}

#[test]
fn the_deepest_texts_let_through_fit_on_the_stack() {
    on_a_small_stack(|| {
        for &form in CHAINS {
            for refused in [depth::Depth::TooDeep, depth::Depth::Deep] {
                let mut times = 600;
                while depth::of(chain(form, times).as_bytes()) >= refused {
                    times -= 1;
                }
                assert!(times > 0, "{form:?} {refused:?} at {times}");
                let facts = read(&chain(form, times));
                assert!(facts.error.as_deref() != Some("nested too deep"), "{form:?}");
            }
        }
    });
}

#[test]
fn wide_texts_are_not_deep() {
    let many = |one: &str, between: &str| std::iter::repeat_n(one, 1000).collect::<Vec<_>>().join(between);
    let join = " left join s.t as t2 on t2.id = t1.other_id and t2.a is not null";
    for text in [
        format!("select * from t as t1 {} where t1.a = 1", join.repeat(150)),
        format!("select * from t where a in ({})", many("1", ", ")),
        format!("select * from t where {}", many("a = 1", " and ")),
        format!("select * from t where {}", many("(a = 1 and b = -2)", " or ")),
        format!("select {}", many("case when a then 1 else 2 end", ", ")),
        format!("select {}", many("coalesce(a, (select max(b) from t where c = -1))", ", ")),
        format!("values {}", many("(-1, 'x', null, now() + interval '1 day')", ", ")),
        many("select 1 + 1", "; "),
    ] {
        let facts = read(&text);
        assert_eq!(facts.error, None);
        assert!(facts.proven_read_only);
    }
}

#[test]
fn texts_the_parser_must_not_see() {
    for (text, error) in [
        (&b"select 1\0"[..], "zero byte in the text"),
        (b"select '\xff'", "not UTF-8, which client_encoding must be for that"),
    ] {
        let facts = facts(text, &Functions::built_in().unwrap_or_else(|e| panic!("{e}")));
        assert_eq!((facts.error.as_deref(), facts.proven_read_only), (Some(error), false));
    }
}

#[test]
fn fingerprints_ignore_values() {
    assert_eq!(fingerprint(b"select * from t where a = 1"), fingerprint(b"SELECT * FROM t WHERE a = 2"));
    assert_ne!(fingerprint(b"select * from t"), fingerprint(b"select * from u"));
    assert_eq!(fingerprint(b"selec 1"), None);
    assert_eq!(fingerprint(&b"(".repeat(100_000)), None);
}
