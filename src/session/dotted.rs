//! Names with a dot in a text: a server does not list parameters of that kind, so they can only be asked for by name.

/// Most names taken from one transaction.
pub(super) const MOST: usize = 64;
/// PostgreSQL's `NAMEDATALEN` bounds an identifier; a parameter's name has at least two.
const LONGEST: usize = 127;

/// Every run of the form `a.b` or `a.b.c` in `text`, in lower case, whatever it stands for there.
pub(super) fn names(text: &[u8]) -> impl Iterator<Item = Box<str>> {
    text.split(|byte| !is_inner(*byte))
        .filter(|run| is_name(run))
        .filter_map(|run| std::str::from_utf8(run).ok().map(|name| name.to_ascii_lowercase().into()))
}

/// Is it such a name?
pub(super) fn is_name(run: &[u8]) -> bool {
    let whole = |part: &[u8]| part.first().is_some_and(|first| !first.is_ascii_digit() && *first != b'$');
    run.len() <= LONGEST
        && run.contains(&b'.')
        && run.iter().all(|b| is_inner(*b))
        && run.split(|b| *b == b'.').all(whole)
}

fn is_inner(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.') || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_dot_are_found() {
        for (text, found) in [
            ("select sets('App.Tenant', 'mine')", &["app.tenant"][..]),
            ("do $$ begin set app.x = '1'; set app.y.z to 2; end $$", &["app.x", "app.y.z"]),
            ("set a.b=1;reset c.d", &["a.b", "c.d"]),
            ("select 1.5, .5, a., .b, t.*, 1.a, a..b, $1.x", &[]),
            ("", &[]),
        ] {
            let names: Vec<_> = names(text.as_bytes()).collect();
            assert_eq!(names.iter().map(|n| &**n).collect::<Vec<_>>(), found, "{text}");
        }
        assert_eq!(names(format!("{}.b", "a".repeat(LONGEST)).as_bytes()).count(), 0);
        assert_eq!(names(b"\0\0\x08app.x\0\0\0\x01y").collect::<Vec<_>>(), ["app.x".into()]);
    }
}
