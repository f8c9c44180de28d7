//! Changes in a text: what is outside of them stays as it was written.

use std::ops::Range;

use super::{
    facts::Name,
    places::{Changes, Derived, Filter, Form, Places},
};

/// A changed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The new text.
    pub text: Box<str>,
    /// From positions in it to positions in the old one.
    pub map: PositionMap,
}

/// A text cannot be changed, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CannotEdit(Box<str>);

impl CannotEdit {
    /// For this reason.
    pub fn new(why: impl Into<Box<str>>) -> Self {
        Self(why.into())
    }
}

/// From positions in a changed text to positions in the one that the client sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PositionMap {
    /// In the order of the text, in characters, as PostgreSQL counts in its errors.
    edits: Box<[Moved]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moved {
    old: Span,
    new: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
}

impl PositionMap {
    /// The position in the old text of a position in the new one, both counted in characters from 1. What stands in a
    /// changed part is said to be where that part was.
    pub fn original(&self, position: usize) -> usize {
        let at = position.saturating_sub(1);
        let before = self.edits.partition_point(|edit| edit.new.start <= at);
        let Some(edit) = before.checked_sub(1).and_then(|last| self.edits.get(last)) else { return position };
        if at < edit.new.end { edit.old.start + 1 } else { at - edit.new.end + edit.old.end + 1 }
    }
}

/// One part of a text that gives way to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What gives way.
    pub span: Range<usize>,
    /// What stands there then.
    pub text: String,
}

/// Applies edits that do not overlap; `None` if they do.
pub fn apply(text: &str, mut edits: Vec<Edit>) -> Option<Edited> {
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let (mut new, mut moved) = (String::with_capacity(text.len() + 64), Vec::with_capacity(edits.len()));
    let (mut at, mut old_chars, mut new_chars) = (0, 0, 0);
    for edit in edits {
        let kept = text.get(at..edit.span.start)?;
        let gone = text.get(edit.span.clone())?;
        new.push_str(kept);
        new.push_str(&edit.text);
        let chars = kept.chars().count();
        let old = Span { start: old_chars + chars, end: old_chars + chars + gone.chars().count() };
        let fresh = Span { start: new_chars + chars, end: new_chars + chars + edit.text.chars().count() };
        (old_chars, new_chars, at) = (old.end, fresh.end, edit.span.end);
        moved.push(Moved { old, new: fresh });
    }
    new.push_str(text.get(at..)?);
    Some(Edited { text: new.into(), map: PositionMap { edits: moved.into() } })
}

/// The edits that make `changes` in `text`; `None` if a change has no place.
pub fn edits(text: &str, places: &Places, changes: &Changes) -> Option<Vec<Edit>> {
    let mut edits = Vec::new();
    // What stands in a relation that a query replaces is changed in that query.
    let derived = |relation: usize| {
        let filter = changes.filters.iter().find(|(of, _)| *of == relation)?;
        match &places.relations.get(relation)?.filter {
            Filter::Derived(derived) => Some((derived, &*filter.1)),
            _ => None,
        }
    };
    for (index, new) in &changes.relations {
        if derived(*index).is_some() {
            continue;
        }
        let relation = places.relations.get(*index)?;
        edits.push(Edit { span: relation.span.clone()?, text: spelled(&new.name) });
        if let Some(alias) = &new.alias {
            let at = relation.alias_at?;
            edits.push(Edit { span: at..at, text: format!(" as {}", quoted(alias)) });
        }
    }
    for (index, name) in &changes.columns {
        let column = places.columns.get(*index)?;
        edits.push(Edit { span: column.span.clone()?, text: quoted(name) });
        if let Some(at) = column.title_at {
            edits.push(Edit { span: at..at, text: format!(" as {}", quoted(&column.name)) });
        }
    }
    for index in &changes.cut {
        let (whole, name) = places.columns.get(*index)?.qualifier.clone()?;
        edits.push(Edit { span: whole, text: text.get(name)?.to_owned() });
    }
    let mut added: Vec<Vec<&str>> = vec![Vec::new(); places.conditions.len()];
    for (index, condition) in &changes.filters {
        if let Some((derived, condition)) = derived(*index) {
            let rename = changes.relations.iter().find(|(of, _)| of == index).map(|(_, new)| &new.name);
            edits.push(replaced(text, places, *index, derived, condition, rename)?);
        } else if let Filter::Conditions(at) = &places.relations.get(*index)?.filter {
            for place in at {
                added.get_mut(*place)?.push(condition);
            }
        }
    }
    for (place, conditions) in places.conditions.iter().zip(added) {
        if conditions.is_empty() {
            continue;
        }
        let all = conditions.iter().map(|condition| format!("({condition})")).collect::<Vec<_>>().join(" and ");
        match &place.existing {
            // Two edits, so that what stands between them keeps its positions.
            Some(span) => {
                edits.push(Edit { span: span.start..span.start, text: "(".to_owned() });
                edits.push(Edit { span: span.end..span.end, text: format!(") and {all}") });
            }
            None => edits.push(Edit { span: place.at..place.at, text: format!(" {} {all}", place.word) }),
        }
    }
    Some(edits)
}

/// The query in a relation's place, as it will stand in the text.
pub fn replaced(
    text: &str,
    places: &Places,
    index: usize,
    derived: &Derived,
    condition: &str,
    rename: Option<&Name>,
) -> Option<Edit> {
    let relation = places.relations.get(index)?;
    let named = relation.span.clone()?;
    let before = text.get(derived.relation.start..named.start)?;
    let after = text.get(named.end..derived.relation.end)?;
    let name = rename.map_or_else(|| text.get(named).map(str::to_owned), |name| Some(spelled(name)))?;
    let columns = match &derived.columns {
        Some(columns) => text.get(columns.clone())?,
        None => "*",
    };
    let sample = match &derived.sample {
        Some(sample) => format!(" {}", text.get(sample.clone())?),
        None => String::new(),
    };
    // COPY leaves out the rows of children.
    let only = if derived.form == Form::Copy { "only " } else { "" };
    let query = format!("select {columns} from {only}{before}{name}{after}{sample} where {condition}");
    let text = match &derived.form {
        Form::Command => query,
        Form::Copy => format!("({query})"),
        Form::Item(Some(alias)) => format!("({query}) {}", text.get(alias.clone())?),
        Form::Item(None) => format!("({query}) as {}", quoted(&relation.name.name)),
    };
    Some(Edit { span: derived.item.clone(), text })
}

/// A name as it must be written.
fn spelled(name: &Name) -> String {
    match &name.schema {
        Some(schema) => format!("{}.{}", quoted(schema), quoted(&name.name)),
        None => quoted(&name.name),
    }
}

/// An identifier, quoted unless it is plain for certain.
pub fn quoted(name: &str) -> String {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
        && !RESERVED.contains(&name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Words that are no names without quotes in every place (src/include/parser/kwlist.h: all but the unreserved).
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "json",
    "json_array",
    "json_arrayagg",
    "json_exists",
    "json_object",
    "json_objectagg",
    "json_query",
    "json_scalar",
    "json_serialize",
    "json_table",
    "json_value",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "merge_action",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(span: Range<usize>, text: &str) -> Edit {
        Edit { span, text: text.to_owned() }
    }

    #[test]
    fn positions_map_back() {
        let edited = apply("sélect a from old where b", vec![edit(15..18, "brand_new"), edit(25..26, "(b)")]);
        let edited = edited.unwrap_or_else(|| panic!("these edits do not overlap"));
        assert_eq!(&*edited.text, "sélect a from brand_new where (b)");
        for (new, old) in [(1, 1), (14, 14), (15, 15), (20, 15), (24, 18), (25, 19), (31, 25), (33, 25), (34, 26)] {
            assert_eq!(edited.map.original(new), old, "{new}");
        }
        assert_eq!(PositionMap::default().original(7), 7);
    }

    #[test]
    fn what_is_inserted_is_where_it_was_inserted() {
        let edited = apply("from t", vec![edit(6..6, " where x")]).unwrap_or_else(|| panic!("one edit"));
        for (new, old) in [(6, 6), (7, 7), (10, 7), (15, 7)] {
            assert_eq!(edited.map.original(new), old, "{new}");
        }
    }

    #[test]
    fn edits_must_not_overlap() {
        assert_eq!(apply("abc", vec![edit(0..2, "x"), edit(1..3, "y")]), None);
        assert_eq!(apply("é", vec![edit(1..2, "x")]), None);
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        for (name, expected) in [
            ("users", "users"),
            ("Users", "\"Users\""),
            ("order", "\"order\""),
            ("a b", "\"a b\""),
            ("1a", "\"1a\""),
            ("a\"b", "\"a\"\"b\""),
            ("_x1", "_x1"),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }
}
