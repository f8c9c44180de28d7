//! `search_path`, as PostgreSQL reads it (SplitIdentifierString in utils/adt/varlena.c).

/// Where unqualified names are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SearchPath {
    /// `None`: not known, so anywhere.
    schemas: Option<Box<[Box<str>]>>,
    user: Box<str>,
}

impl SearchPath {
    /// That of what PostgreSQL deparses: every other name is qualified.
    pub(super) fn system() -> Self {
        Self { schemas: Some(Box::new(["pg_catalog".into()])), user: Box::default() }
    }

    /// A value of the parameter for this user; `None`: not known.
    pub(super) fn new(value: Option<&str>, user: &str) -> Self {
        let schemas = value.and_then(split).map(|names| {
            let named = names.into_iter().map(|name| if *name == *"$user" { user.into() } else { name });
            named.collect::<Vec<Box<str>>>()
        });
        let schemas = schemas.map(|mut schemas| {
            if !schemas.iter().any(|schema| **schema == *"pg_catalog") {
                schemas.insert(0, "pg_catalog".into());
            }
            schemas.into()
        });
        Self { schemas, user: user.into() }
    }

    pub(super) fn schemas(&self) -> Option<&[Box<str>]> {
        self.schemas.as_deref()
    }

    pub(super) fn includes(&self, schema: &str) -> bool {
        self.schemas.as_ref().is_none_or(|schemas| schemas.iter().any(|name| **name == *schema))
    }

    /// Is anything looked for before the system's own names?
    pub(super) fn hides_system(&self) -> bool {
        self.schemas.as_ref().is_none_or(|schemas| schemas.first().is_none_or(|first| **first != *"pg_catalog"))
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }
}

/// The names in a list of identifiers; `None` if it is none.
fn split(value: &str) -> Option<Vec<Box<str>>> {
    let mut names = Vec::new();
    let mut rest = value.trim_start();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_name(quoted)?,
            None => {
                let end = rest.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                if name.is_empty() {
                    return None;
                }
                (name.to_ascii_lowercase(), after)
            }
        };
        names.push(name.into());
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(names);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

/// Up to the closing quote; two of them stand for one.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        name.push_str(rest.get(..end)?);
        rest = rest.get(end + 1..)?;
        match rest.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_the_server_reads_them() {
        let read = |value: Option<&str>| match SearchPath::new(value, "ann").schemas() {
            Some(schemas) => schemas.join("|"),
            None => "anywhere".to_owned(),
        };
        for (value, expected) in [
            (Some("\"$user\", public"), "pg_catalog|ann|public"),
            (Some("$user"), "pg_catalog|ann"),
            (Some("Public,\"B c\" , \"d\"\"e\""), "pg_catalog|public|B c|d\"e"),
            (Some("public, pg_catalog"), "public|pg_catalog"),
            (Some(""), "pg_catalog"),
            (Some("\"\""), "pg_catalog|"),
            (Some("a b"), "anywhere"),
            (Some("a,"), "anywhere"),
            (Some("\"a"), "anywhere"),
            (None, "anywhere"),
        ] {
            assert_eq!(read(value), expected, "{value:?}");
        }
    }
}
