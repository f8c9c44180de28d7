#![cfg(feature = "pg_query")]

use super::*;

fn bad(wanted: &Wanted) -> Vec<String> {
    Rewriting::compile(wanted).err().unwrap_or_default().iter().map(BadRewrite::to_string).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn entries_that_do_not_hold_are_all_told() {
    let wanted = Wanted {
        rename_table: pairs(&[("a.b.c", "d"), ("a", "b c"), ("a", "b")]),
        rename_column: pairs(&[("a", "b"), ("t.a", "t.b"), ("t.a", "b")]),
        add_where: pairs(&[
            ("t", "a ="),
            ("t", "a = $1"),
            ("t", "a = 1; drop table t"),
            ("t", "a = 1 limit 5"),
            ("t", "a = 1) or (true"),
            ("t", "a = (select 1)"),
            ("t", "t.a = 1"),
            ("t", "a = 1 -- x"),
            ("", "a = 1"),
            ("t", "a = 1 or b = 2"),
        ]),
        qualify_schema: Some("a.b".to_owned()),
    };
    assert_eq!(
        bad(&wanted),
        [
            "rename_table: a.b.c: not a name of a table, with or without schema",
            "rename_table: a: the new name is not a name of a table",
            "rename_column: a: not a column with its table, as in table.column",
            "rename_column: t.a: the new name is not a name of a column",
            "add_where: t: syntax error at end of input",
            "add_where: t: a condition has no parameters and no comments",
            "add_where: t: syntax error at or near \";\"",
            "add_where: t: syntax error at or near \"limit\"",
            "add_where: t: syntax error at or near \")\"",
            "add_where: t: a condition has no sub-select",
            "add_where: t: columns of a condition have no qualifier: each use of the table gets its own",
            "add_where: t: a condition has no parameters and no comments",
            "add_where: : not a name or pattern of tables, with or without schema",
            "qualify_schema: a.b: not a name of a schema",
        ]
    );
}

#[test]
fn columns_of_a_condition_are_qualified() {
    for (text, expected) in [
        ("tenant = 5", "x.tenant = 5"),
        (
            "current_setting('app.tenant')::int = tenant and not hidden",
            "current_setting('app.tenant')::int = x.tenant and not x.hidden",
        ),
        ("true", "true"),
        ("\"Owner\" in (a, 'b', \"C d\")", "x.\"Owner\" in (x.a, 'b', x.\"C d\")"),
    ] {
        let condition = Condition::read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(condition.on("x"), expected);
    }
    assert_eq!(
        Condition::read("a = 1").map(|condition| condition.on("Order")).ok().as_deref(),
        Some("\"Order\".a = 1")
    );
}

#[test]
fn positions_in_errors_are_those_of_the_client() {
    let wanted = Wanted { add_where: pairs(&[("orders", "tenant = 5")]), ..Wanted::default() };
    let rules = Rewriting::compile(&wanted).unwrap_or_else(|bad| panic!("{bad:?}"));
    let text = "select * from orders where nothing = 1 order by something";
    let new = rules.rewrite(text.as_bytes(), &["public"]).unwrap_or_else(|e| panic!("{e}"));
    let new = new.unwrap_or_else(|| panic!("the table is named"));
    for word in ["orders", "nothing", "something", "order by"] {
        let (there, here) = (new.text.find(word), text.find(word));
        assert_eq!(there.map(|at| new.map.original(at + 1)), here.map(|at| at + 1), "{word}");
    }
}
