use proptest::prelude::*;

use super::*;

fn classifier(entries: usize) -> Classifier {
    let functions = Arc::new(Functions::built_in().unwrap_or_else(|e| panic!("{e}")));
    Classifier::new(ShapeKey::random(), functions, Arc::new(Misroutes::new(100)), Caps { parse: 10_000, entries })
}

fn ask(classifier: &mut Classifier, text: &str) -> Classified {
    classifier.classify(text.as_bytes(), StringRules::default())
}

#[test]
fn a_shape_is_parsed_once() {
    let mut all = classifier(10);
    let first = ask(&mut all, "select * from t where a = 1");
    let second = ask(&mut all, "SELECT * FROM t WHERE a = 2 /* pgsluice: primary */");
    assert_eq!((first.path, second.path), (ClassifyPath::Parse, ClassifyPath::Table));
    assert!(Rc::ptr_eq(&first.known, &second.known));
    assert_eq!(ask(&mut all, "select 'a'").path, ClassifyPath::Parse);
}

#[test]
fn facts_that_hang_on_literals_are_not_believed_by_shape() {
    let mut all = classifier(10);
    for (text, name) in [("a.b", "a.b"), ("c.d", "c.d"), ("a.b", "a.b")] {
        let known = ask(&mut all, &format!("select set_config('{text}', 'x', false)")).known;
        let expected = crate::sql::facts::Effect::SetParameter { name: name.into(), local: false };
        assert_eq!(*known.facts.effects, [expected]);
    }
    assert_eq!(ask(&mut all, "select set_config('a.b', 'x', false)").path, ClassifyPath::Table);
    assert!(ask(&mut all, "explain (analyze 0) delete from t").known.facts.proven_read_only);
    assert!(!ask(&mut all, "explain (analyze 1) delete from t").known.facts.proven_read_only);
    assert!(ask(&mut all, "select current_setting('work_mem')").known.facts.proven_read_only);
    assert!(!ask(&mut all, "select current_setting('transaction_read_only')").known.facts.proven_read_only);
}

#[test]
fn what_cannot_be_read_is_not_remembered_by_shape() {
    let mut all = classifier(10);
    assert_eq!(ask(&mut all, "select 1::float(99)").path, ClassifyPath::Unparsable);
    assert_eq!(ask(&mut all, "select 1::float(9)").path, ClassifyPath::Parse);
    let long = format!("select '{}'", "x".repeat(10_000));
    assert_eq!(ask(&mut all, &long).path, ClassifyPath::Unparsable);
    assert!(!ask(&mut all, &long).known.facts.proven_read_only);
    let off = StringRules { standard_conforming_strings: false, ..StringRules::default() };
    assert_eq!(all.classify(b"select 'a'", off).path, ClassifyPath::Parse);
    assert_eq!(all.classify(br"select '\'", off).path, ClassifyPath::Unparsable);
    assert_eq!(all.classify(b"select 'b'", off).path, ClassifyPath::Table);
    let sjis = StringRules { encoding: Encoding::of("sjis"), ..StringRules::default() };
    assert_eq!(all.classify("select 'ぃ'".as_bytes(), sjis).path, ClassifyPath::Unparsable);
    assert_eq!(all.classify("select 'ぃ'".as_bytes(), StringRules::default()).path, ClassifyPath::Parse);
    assert_eq!(all.classify(b"select 'b'", sjis).path, ClassifyPath::Table);
}

/// Whether a sibling in ASCII was seen before or not.
#[test]
fn another_encoding_is_read_as_far_as_it_is_certain() {
    let latin1 = StringRules { encoding: Encoding::of("latin1"), ..StringRules::default() };
    for (text, sibling, read) in [
        (&b"delete from t where a = '\xe9'"[..], &b"delete from t where a = 'e'"[..], true),
        (b"select 1 -- \xe9", b"select 1", true),
        (b"select 1 from caf\xe9", b"select 1 from cafe", false),
        (b"select 1 from \"caf\xe9\"", b"select 1 from \"cafe\"", false),
        // In UTF-8 this is another name than the server will see.
        ("select 1 from café".as_bytes(), b"select 1 from cafe", false),
        (b"do $$ begin perform '\xe9'; end $$", b"do $$ begin perform 'e'; end $$", false),
        (b"select set_config('\xe9', '', false)", b"select set_config('e', '', false)", false),
        (b"select '\xe9' or 1 = 1", b"select 'x' or 1 = 1", true),
    ] {
        let shown = String::from_utf8_lossy(text);
        let first = classifier(10).classify(text, latin1).known;
        let mut all = classifier(10);
        ask(&mut all, std::str::from_utf8(sibling).expect("ASCII"));
        let second = all.classify(text, latin1).known;
        assert_eq!(first.facts.error.is_none(), read, "{shown}");
        assert_eq!(second.facts.error.is_none(), read, "{shown} behind its sibling");
        assert_eq!(first.facts.acts, second.facts.acts, "{shown}");
    }
}

#[test]
fn the_memory_is_bounded() {
    let mut all = classifier(16);
    for n in 0..1000 {
        ask(&mut all, &format!("select a{n} from t"));
        ask(&mut all, &format!("selec {n}"));
    }
    assert_eq!((all.shapes.values_mut().count(), all.texts.values_mut().count()), (16, 2));
}

#[test]
fn a_misrouted_shape_is_a_writer_from_then_on() {
    let mut all = classifier(10);
    let known = ask(&mut all, "select * from v where a = 1").known;
    assert!(known.facts.proven_read_only && !known.is_misrouted());
    all.memory.learn(known.route);
    let learned = ask(&mut all, "select * from v where a = 2").known;
    assert!(learned.is_misrouted() && !learned.facts.proven_read_only);
    assert_eq!(learned.facts.primary, Some(PrimaryReason::UnknownFunction));
    assert_eq!(all.refresh(&known), learned);
    assert!(!ask(&mut all, "select * from w where a = 2").known.is_misrouted());
    // A shape learned elsewhere before it is first seen here.
    let mut other = Classifier::new(all.key.clone(), all.functions.clone(), all.memory.clone(), all.caps);
    assert!(ask(&mut other, "select * from v where a = 3").known.is_misrouted());
    all.memory.forget(known.route);
    assert_eq!(ask(&mut all, "select * from v where a = 2").known, known);
    assert_eq!(all.refresh(&learned), known);
}

/// A literal in any of its spellings.
fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        // Those that conditions are made of, and that make them fail.
        prop::sample::select(vec![
            "0",
            "1",
            "2",
            "1.5",
            "9223372036854775807",
            "'1'",
            "'x'",
            "'t'",
            "''",
            "'%'",
            "B'1'"
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec!["0", "1", "1.5", "'1'", "'x'"]).prop_map(str::to_owned),
        any::<u32>().prop_map(|n| n.to_string()),
        (0u32..999, 0u32..999).prop_map(|(a, b)| format!("{a}.{b}e{a}")),
        "[a-z ;*/\\-\\\\]{0,12}".prop_map(|s| format!("'{s}'")),
        "[a-z ;'-]{0,12}".prop_map(|s| format!("'{}'", s.replace('\'', "''"))),
        "[a-z ;*/]{0,8}".prop_map(|s| format!("$x${s}$x$")),
        "[a-z ;-]{0,8}(\\\\'|\\\\\\\\)?".prop_map(|s| format!("E'{s}'")),
        "[01]{1,8}".prop_map(|s| format!("B'{s}'")),
    ]
}

/// A statement with holes for literals of the given kinds.
fn template() -> impl Strategy<Value = String> {
    let expression = prop_oneof![
        Just("a = ?".to_owned()),
        Just("f(?) and a <> ?".to_owned()),
        Just("a in (?, ?)".to_owned()),
        Just("lower(?) = b".to_owned()),
        Just("exists (select ? from u for share)".to_owned()),
        Just("a = (select current_setting(?))".to_owned()),
        Just("set_config(?, ?, ?) is null".to_owned()),
        Just("nextval(?) > ?".to_owned()),
        Just("a /* ' */ = ? -- it's".to_owned()),
        Just("? = ?".to_owned()),
        Just("a = ? or ? = ?".to_owned()),
        Just("not (a = ? and ? <> ?)".to_owned()),
        Just("case when ? = ? then true else a = ? end".to_owned()),
        Just("a is not null and (a = ? or ? in (?, ?) or b = a)".to_owned()),
        Just("(select ? = ?)".to_owned()),
        Just("exists (select ? where ? > ?)".to_owned()),
        Just("a + ? = a + ?".to_owned()),
        Just("(a < ? or a >= ?) and ? is not null".to_owned()),
        Just("coalesce(? = ?, a)".to_owned()),
        Just("length(?) = ? or ?::text = ?::text".to_owned()),
        comparison(),
        (comparison(), comparison()).prop_map(|(a, b)| format!("a = ? or ({a}) is not unknown or not ({b})")),
        comparison().prop_map(|a| format!("case when {a} then b = ? else true end")),
        comparison().prop_map(|a| format!("case when {a} and b = ? then false else true end")),
        comparison().prop_map(|a| format!("coalesce(({a}), b = ?, true)")),
        comparison().prop_map(|a| format!("coalesce({a}, null, a = ?) is true")),
        comparison().prop_map(|a| format!("exists (select ? where {a})")),
    ];
    let statement = prop_oneof![
        Just("select ? from t where "),
        Just("update t set a = ? where "),
        Just("with x as (delete from t where a = ?) select * from u where "),
        Just("explain (analyze ?) select ? from t where "),
        Just("set transaction_read_only = ?; select 1 where "),
        Just("copy (select ?) to stdout; select * from \"q'\" where "),
        Just("begin; select ? where "),
        Just("do ?; delete from t where "),
        Just("copy t from ?; select 1 where "),
        Just("copy t (a) to ?; delete from t where "),
        Just("create function f() returns int language ? as ?; select 1 where "),
        Just("create function f() returns int language sql as ?; select 1 from t join u on ? = ? where "),
    ];
    (statement, expression).prop_map(|(a, b)| format!("{a}{b}"))
}

/// A comparison with holes, some literals for which cannot be worked out.
fn comparison() -> impl Strategy<Value = String> {
    let operand = prop::sample::select(vec![
        "?",
        "?::int",
        "?::numeric",
        "?::float8",
        "?::bool",
        "?::text",
        "?::date",
        "?::varchar(?)",
        "? / ?",
        "? + ?",
        "- ?",
        "? || ?",
        "abs(?)",
        "chr(?)",
        "lower(?)",
        "round(?, ?)",
        "f(?)",
        "coalesce(?::int, ?)",
        "coalesce(null, ?)",
        "coalesce(?::int + null, a)",
        "nullif(?, ?)",
        "greatest(?, ?)",
        "row(?, ?)",
        "(a, ?)",
        "array[?]",
        "a + ?",
        "a::float(?)",
        "(select ?::int)",
        "(? = ?)",
        "(? is null)",
        "case ? when ? then ? end",
        "null",
        "true",
        "a",
        "$1",
        "now()",
    ]);
    let operator = prop::sample::select(vec![
        "=",
        "<>",
        ">",
        "<=",
        "is distinct from",
        "is not distinct from",
        "like",
        "not ilike",
        "||",
    ]);
    prop_oneof![
        (operand.clone(), operator.clone(), operand.clone()).prop_map(|(a, o, b)| format!("{a} {o} {b}")),
        (operand.clone(), operator).prop_map(|(a, o)| format!("{a} {o} {a}")),
        operand.clone().prop_map(|a| format!("{a} = ? or {a} <> ?")),
        operand.clone().prop_map(|a| format!("{a} is null")),
        operand.clone().prop_map(|a| format!("{a} is not null or a = ?")),
        operand.clone().prop_map(|a| format!("({a}) is not true")),
        operand.clone().prop_map(|a| format!("({a})::bool")),
        operand.clone().prop_map(|a| a.to_owned()),
        (operand.clone(), operand.clone()).prop_map(|(a, b)| format!("{a} in ({b}, ?)")),
        (operand.clone(), operand.clone()).prop_map(|(a, b)| format!("{a} between {b} and ?")),
        (operand.clone(), operand.clone()).prop_map(|(a, b)| format!("{a} = any (array[{b}])")),
        (operand.clone(), operand.clone()).prop_map(|(a, b)| format!("{a} <> all (array[{b}, ?])")),
        (operand.clone(), operand).prop_map(|(a, b)| format!("{a} in (select {b})")),
    ]
}

fn filled(template: &str, literals: &[String]) -> String {
    let mut literals = literals.iter().cycle();
    let mut text = String::new();
    for part in template.split_inclusive('?') {
        text += part.trim_end_matches('?');
        if part.ends_with('?') {
            text += literals.next().map_or("1", |l| l);
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever was seen before, the facts are those of the text alone.
    #[test]
    fn a_hit_and_a_miss_give_the_same_facts(
        templates in prop::collection::vec((template(), prop::collection::vec(literal(), 5)), 1..12)
    ) {
        let mut warm = classifier(64);
        for (template, literals) in templates {
            for shift in 0..literals.len() {
                let mut turned = literals.clone();
                turned.rotate_left(shift);
                let text = filled(&template, &turned);
                let alone = parse::facts(text.as_bytes(), &warm.functions);
                let found = ask(&mut warm, &text);
                // A text the server will refuse to parse may share the shape of one that it takes: nothing of it runs.
                if alone.error.is_none() {
                    prop_assert_eq!(&*found.known.facts, &alone, "{}", text);
                }
            }
        }
    }

    #[test]
    fn no_bytes_crash_the_reader(text in prop::collection::vec(any::<u8>(), 0..200), conform in any::<bool>()) {
        let rules = StringRules { standard_conforming_strings: conform, ..StringRules::default() };
        let mut last = 0;
        for token in crate::sql::lexer::Tokens::new(&text, rules) {
            prop_assert!(last <= token.start && token.start < token.end && token.end <= text.len());
            last = token.end;
        }
        classifier(8).classify(&text, rules);
    }

    #[test]
    fn no_soup_of_tokens_crashes_the_reader(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "select", "'", "\"", "$", "$a$", "/*", "*/", "--", "\n", "\\", "E'", "U&'", "U&\"", "uescape", "(", ")", "1", ".",
            "e", "0x", ";", "from", "t", "case", "end", "x", "-", "+", "@", "not", "é", ",", "with", "as", "begin",
        ]), 0..40),
        conform in any::<bool>(),
    ) {
        let text = tokens.concat();
        let rules = StringRules { standard_conforming_strings: conform, ..StringRules::default() };
        let mut warm = classifier(8);
        let first = warm.classify(text.as_bytes(), rules);
        let second = warm.classify(text.as_bytes(), rules);
        prop_assert_eq!(first.known, second.known);
    }
}
