use super::*;

/// What is found of a condition on the one table t: `always`, `widened`, `by-literals`.
fn found(condition: &str) -> String {
    let text = format!("select * from t where {condition}");
    let tree = pg_query::parse(&text, pg_query::ParserOptions::DEFAULT).unwrap_or_else(|e| panic!("{condition}: {e}"));
    let node = tree.protobuf.stmts[0].stmt.as_ref().and_then(|stmt| stmt.node.as_ref());
    let Some(NodeEnum::SelectStmt(query)) = node else { panic!("{condition}") };
    let table = match query.from_clause[0].node.as_ref() {
        Some(NodeEnum::RangeVar(table)) => Some(table),
        _ => None,
    };
    let judged = judge(
        query.where_clause.as_deref().unwrap_or_else(|| panic!("{condition}")),
        Known { only: table, ..Known::default() },
    );
    let words = [(judged.always, "always"), (judged.widened, "widened"), (judged.by_literals, "by-literals")];
    words.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

fn check(expected: &str, conditions: &[&str]) {
    for condition in conditions {
        assert_eq!(found(condition), expected, "{condition}");
    }
}

#[test]
fn always_true() {
    check(
        "always",
        &[
            "true",
            "not false",
            "not not true",
            "true and true",
            "id = id",
            "t.id = t.id",
            "t.id = id",
            "id <= id",
            "lower(name) = lower(name)",
            "id is not distinct from id",
            "not id <> id",
            "name like name",
            "$1 = $1",
            "id::text = id::text",
            "(a, b) = (a, b)",
            "id in (id)",
            "id = any (array[id])",
            "id between id and id",
            "null is null",
            "coalesce(true)",
            "coalesce(null, true)",
            "exists (select 1)",
            "exists (select 1 where true)",
            "exists (values (1))",
            "exists (select count(*) from t where false)",
            "(select true)",
            "case when true then true end",
            "case when false then false else true end",
            "true is true",
            "false is not true",
            "(null = 1) is unknown",
            "id in (select id from t)",
            "id in (select id from public.t)",
            "public.t.id = t.id",
            "true in (select true)",
            "ctid is not null",
            "xmin is not null",
            "id <> all (array[]::int[])",
            "true::boolean",
        ],
    );
    check(
        "always by-literals",
        &[
            "1 = 1",
            "1 = 1 -- ",
            "'a' = 'a'",
            "1 <> 2",
            "2 > 1",
            "1 in (1)",
            "1 in (2, 1)",
            "'t'",
            "'yes'::bool",
            "1::boolean",
            "1 + 1 = 2",
            "'a' || 'b' = 'ab'",
            "'1' = 1",
            "1.0 = 1",
            "-1 = - 1",
            "length('abc') = 3",
            "ascii('a') = 97",
            "1 between 0 and 2",
            "'x' is not distinct from 'x'",
            "'a'::text = 'a'::text",
            "'2020-01-01'::date = '2020-01-01'::date",
            "id + 1 = id + 1",
            "exists (select 1 where 1 = 1)",
            "(select 1) = 1",
            "not 1 = 2",
            "1 = 1 and 2 = 2",
            "(1 = 1) is true",
            "(1 = 1) = true",
            "1 = any (array[1])",
            "1 = all (array[1, 1])",
            "1 <> all (array[2])",
            "1 in (select 1)",
            "'abc' like '%'",
            "'abc' like 'a_c'",
            "'aXc' ilike 'A%C'",
            "'a' not like 'b'",
        ],
    );
}

#[test]
fn not_always_true() {
    check(
        "",
        &[
            "id = 1",
            "false",
            "null",
            "id = other",
            "id = u.id",
            "$1",
            "$1 = 1",
            "$1 = $2",
            "active",
            "not active",
            "id is null",
            "id is not null",
            "1 = 1 and id = 5",
            "true and id = 5",
            "id = 1 or id = 2",
            "$1 is null or id = $1",
            "$1::int is null or id = $1",
            "id in (1, 2, 3)",
            "id in (select id from u)",
            "id in (select other from t)",
            "id in (select id from t where a = 1)",
            "id in (select id from t limit 1)",
            "exists (select 1 from u)",
            "exists (select 1 where false)",
            "id <> id",
            "not true",
            "name like 'a%'",
            "random() = random()",
            "id between 1 and 5",
            "id = any ('{1,2}')",
            "coalesce(active, true)",
            "f() = 1",
            "now() > '2020-01-01'",
            "(a, b) = (1, 2)",
            "'5' is null or id = 5",
            "case when a then true else false end",
        ],
    );
    // Others of the shape could be worked out.
    check(
        "by-literals",
        &[
            "'x'::int = 1",
            "'x'::numeric = 1",
            "1 / 0 = 1",
            "9223372036854775807 + 1 > 1",
            "1.5::int = 1",
            "chr(-1) = 'x'",
            "f(1) = 2",
            "'q'::int is not null",
            "coalesce('a'::int, 1) = 1",
            "row(1) = row(1.5)",
            "(id, 1) = (id, 1.5)",
            "0.0",
            "case when 'a'::int = 1 then true end",
            "case when 1 = 2 and id = 5 then false else active end",
            "a = 1 or 'a'::int = 1",
            "a::float(10) = a::float(50)",
        ],
    );
    check("by-literals", &["1 = 2", "'f'", "1 > 2", "1 in (2)", "0 = 1", "id = 1 or 1 = 0", "a = 1 or 'f'::bool"]);
}

#[test]
fn widened() {
    check(
        "always widened",
        &[
            "id = 1 or true",
            "true or false",
            "id = 1 or id = id",
            "id = 1 or null is null",
            "id is null or id is not null",
            "id < $1 or id >= $1",
            "not (id = 1 and false)",
            "id = 1 or exists (select 1)",
            "a = b or not a = b",
            "not (a = b and c is null) or (a = b and c is null)",
            "a in (b, c) or a not in (b, c)",
            "a between b and c or a not between b and c",
            "name like $1 or name not like $1",
            "flag is true or flag is not true",
        ],
    );
    check(
        "always widened by-literals",
        &[
            "name = 'a' or 1 = 1",
            "name = '' or 'a' = 'a'",
            "name = 'a' or 'x' = 'x' --'",
            "id = 1 or 2 > 1",
            "id = 1 or id <> 1",
            "not (id = 1 and 1 = 0)",
            "id = 1 or 1 in (1)",
            "name = '' or ''=''",
        ],
    );
    check("widened", &["tenant = $1 and (id = 1 or true)", "(id = 1 or id = id) and a = b"]);
    check("widened by-literals", &["tenant = 5 and (name = 'x' or 1 = 1)"]);
}
