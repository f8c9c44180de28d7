use super::*;

const OFF: StringRules = StringRules { standard_conforming_strings: false, encoding: Encoding::Utf8 };

fn tokens(text: &str, rules: StringRules) -> Vec<&str> {
    Tokens::new(text.as_bytes(), rules).filter_map(|t| text.get(t.start..t.end)).collect()
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(tokens(text, StringRules::default()), expected, "{text}");
}

#[test]
fn literals_end_where_the_server_ends_them() {
    check(r"select '\'; delete from t; --'", &["select", r"'\'", ";", "delete", "from", "t", ";", "--'"]);
    check(r"select E'\'; delete from t; --'", &["select", r"E'\'; delete from t; --'"]);
    check("select 'it''s' , ''", &["select", "'it''s'", ",", "''"]);
    check("select 'a'\n  'b' 'c'", &["select", "'a'\n  'b'", "'c'"]);
    check("select 'a' -- x\n -- y\n 'b'", &["select", "'a' -- x\n -- y\n 'b'"]);
    check("select 'a' -- x", &["select", "'a'", "-- x"]);
    check("select 'a' - 1", &["select", "'a'", "-", "1"]);
    check("select 'a' /* x */\n 'b'", &["select", "'a'", "/* x */", "'b'"]);
    check(r"select E'a'", &["select", "E'a'"]);
    check("select E'a\\\\', U&'d!0027' uescape '!'", &["select", "E'a\\\\'", ",", "U&'d!0027'", "uescape", "'!'"]);
    check("select b'01', X'1F', n'x', xE'a'", &["select", "b'01'", ",", "X'1F'", ",", "n'x'", ",", "xE", "'a'"]);
    check("select 'open", &["select", "'open"]);
}

#[test]
fn a_backslash_escapes_when_strings_do_not_conform() {
    let text = r"select '\'; delete from t; --'";
    assert_eq!(tokens(text, OFF), ["select", r"'\'; delete from t; --'"]);
    let mut stream = Tokens::new(text.as_bytes(), OFF);
    assert!(stream.by_ref().count() == 2 && stream.saw_escape_in_plain_string());
    let mut stream = Tokens::new(br"select 'x', E'\n'", OFF);
    assert!(stream.by_ref().count() == 4 && !stream.saw_escape_in_plain_string());
}

#[test]
fn dollar_quotes() {
    check("select $foo$a $bar$ ; $bar$ b$foo$;", &["select", "$foo$a $bar$ ; $bar$ b$foo$", ";"]);
    check("select $1||$$;$$", &["select", "$1", "||", "$$;$$"]);
    check("select a$b$c from t", &["select", "a$b$c", "from", "t"]);
    check("select $é$x;$é$", &["select", "$é$x;$é$"]);
    check("select 1$$x$$", &["select", "1", "$$x$$"]);
    check("select $a$x$b$a$ , $2x$", &["select", "$a$x$b$a$", ",", "$2", "x$"]);
    check("select $a$ open", &["select", "$a$ open"]);
    check("select $ 1", &["select", "$", "1"]);
}

#[test]
fn names_and_comments() {
    check(r#"select "a""b;c", U&"d""#, &["select", r#""a""b;c""#, ",", r#"U&"d""#]);
    check("select /* a /* b */ ; */ 1 -- ;\n;", &["select", "/* a /* b */ ; */", "1", "-- ;", ";"]);
    check("update\"t\"set a=1", &["update", "\"t\"", "set", "a", "=", "1"]);
    check("insert/**/into t", &["insert", "/**/", "into", "t"]);
    check("select 1 /* open /* */", &["select", "1", "/* open /* */"]);
    check("select ünï", &["select", "ünï"]);
}

#[test]
fn operators_and_numbers() {
    check("a=-1", &["a", "=", "-", "1"]);
    check("a@-1", &["a", "@-", "1"]);
    check("1+--x\n2", &["1", "+", "--x", "2"]);
    check("1*/*x*/2", &["1", "*", "/*x*/", "2"]);
    check("a::int[1:2]:=b", &["a", "::", "int", "[", "1", ":", "2", "]", ":=", "b"]);
    check("1.5e-3 .5 1. 1..10 1e", &["1.5e-3", ".5", "1.", "1", "..", "10", "1", "e"]);
    check("0x1F 0b10 0o7 1_000 0xg", &["0x1F", "0b10", "0o7", "1_000", "0", "xg"]);
    check("t.a->>'x'", &["t", ".", "a", "->>", "'x'"]);
}
