//! Changing a text: find its places, let somebody decide, edit, and look whether the new text says what was meant.

use std::ops::Range;

use pg_query::{
    Node, NodeEnum, NodeRef, ParserOptions,
    protobuf::{ParseResult, SelectStmt},
};

use super::{
    agree::{self, Plan},
    children::each_child,
    guarded,
    places::{self, Found},
};
use crate::sql::{
    edit::{self, CannotEdit, Edited},
    lexer::{StringRules, TokenKind, Tokens},
    places::{Changes, ConditionColumn, Filter, Form, Places, Whose},
};

/// Texts can be changed.
pub fn can_edit() -> bool {
    true
}

/// The places of a text.
///
/// # Errors
/// It cannot be read, or a place cannot be made out.
pub fn places(text: &[u8]) -> Result<Places, CannotEdit> {
    guarded(text, |text| {
        let tree = parsed(text)?;
        places::find(text, &tree).map(|found| found.places).map_err(CannotEdit::new)
    })
    .unwrap_or_else(|why| Err(CannotEdit::new(why)))
}

/// Makes in a text the changes that `decide` wants; `None`: it wants none.
///
/// # Errors
/// The text cannot be read, `decide` says no, or the changed text would not say what it should.
pub fn edited(
    text: &[u8],
    decide: impl FnOnce(&str, &Places) -> Result<Changes, CannotEdit> + Send,
) -> Result<Option<Edited>, CannotEdit> {
    let planned = guarded(text, |text| {
        let tree = parsed(text)?;
        let found = places::find(text, &tree).map_err(CannotEdit::new)?;
        let changes = decide(text, &found.places)?;
        if changes.is_empty() {
            return Ok(None);
        }
        let plan = plan(text, &found, &changes).ok_or_else(lost)?;
        let edits = edit::edits(text, &found.places, &changes).ok_or_else(lost)?;
        let edited = edit::apply(text, edits).ok_or_else(lost)?;
        Ok(Some((edited, agree::written(&tree, &plan))))
    });
    let Some((edited, expected)) = planned.unwrap_or_else(|why| Err(CannotEdit::new(why)))? else { return Ok(None) };
    let actual = guarded(edited.text.as_bytes(), |text| Ok(agree::written(&parsed(text)?, &Plan::default())));
    if actual.unwrap_or_else(|why| Err(CannotEdit::new(why)))? != expected {
        return Err(CannotEdit::new("the changed text would not say what it should"));
    }
    Ok(Some(edited))
}

/// The columns of a condition that is to be added to others' statements.
///
/// # Errors
/// It is no condition, or has in it what has no place in somebody else's statement: sub-selects, parameters, comments.
pub fn condition(text: &str) -> Result<Vec<ConditionColumn>, CannotEdit> {
    let strange = Tokens::new(text.as_bytes(), StringRules::default())
        .any(|token| matches!(token.kind, TokenKind::Parameter | TokenKind::BlockComment | TokenKind::LineComment));
    if strange {
        return Err(CannotEdit::new("a condition has no parameters and no comments"));
    }
    let query = format!("{CONDITION}{text}");
    guarded(query.as_bytes(), |query| {
        let tree = parsed(query)?;
        let whole = matches!(&*tree.stmts, [one] if one.stmt_len == 0) && where_of(&tree).is_some();
        // Brackets tell whether it is one expression.
        let bracketed = parsed(&format!("{CONDITION}({text})"))?;
        if !whole || where_of(&bracketed).is_none() {
            return Err(CannotEdit::new("not a condition"));
        }
        let found = places::find(query, &tree).map_err(CannotEdit::new)?.places;
        if !found.relations.is_empty() || has_query(&tree) {
            return Err(CannotEdit::new("a condition has no sub-select"));
        }
        let here = |range: Range<usize>| Some(range.start.checked_sub(CONDITION.len())?..range.end - CONDITION.len());
        let columns = found.columns.into_iter().map(|column| {
            let qualifier = column.qualifier.map(|(whole, _)| whole);
            Some(ConditionColumn { name: here(column.span?)?, qualifier: qualifier.and_then(here) })
        });
        columns.collect::<Option<_>>().ok_or_else(lost)
    })
    .unwrap_or_else(|why| Err(CannotEdit::new(why)))
}

/// What a condition is read behind.
const CONDITION: &str = "select where ";

fn lost() -> CannotEdit {
    CannotEdit::new("a name or a clause has no place where it could be changed")
}

fn parsed(text: &str) -> Result<ParseResult, CannotEdit> {
    match pg_query::parse(text, ParserOptions::DEFAULT) {
        Ok(tree) => Ok(tree.protobuf),
        Err(pg_query::Error::Parse(message)) => Err(CannotEdit::new(message)),
        Err(error) => Err(CannotEdit::new(error.to_string())),
    }
}

/// The one condition of a text like [`CONDITION`].
fn where_of(tree: &ParseResult) -> Option<&Node> {
    let query = query_of(tree)?;
    let bare = SelectStmt { where_clause: None, ..query.clone() };
    let expected = SelectStmt { op: query.op, limit_option: query.limit_option, ..SelectStmt::default() };
    (bare == expected).then_some(query.where_clause.as_deref()).flatten()
}

fn query_of(tree: &ParseResult) -> Option<&SelectStmt> {
    match tree.stmts.first()?.stmt.as_deref()?.node.as_ref()? {
        NodeEnum::SelectStmt(query) => Some(query),
        _ => None,
    }
}

fn has_query(tree: &ParseResult) -> bool {
    fn looks(node: NodeRef<'_>) -> bool {
        let mut found = matches!(node, NodeRef::SubLink(_));
        each_child(node, &mut |child| found |= looks(child));
        found
    }
    query_of(tree).is_some_and(|query| looks(NodeRef::SelectStmt(query)))
}

/// What the changes come to in the tree.
fn plan(text: &str, found: &Found, changes: &Changes) -> Option<Plan> {
    let places = &found.places;
    let mut plan = Plan::default();
    let location = |at: usize| i32::try_from(at).ok();
    for (index, new) in &changes.relations {
        let relation = places.relations.get(*index)?;
        let schema = new.name.schema.as_deref().unwrap_or_default().to_owned();
        let alias = new.alias.as_deref().map(str::to_owned);
        plan.relations.push((location(relation.span.as_ref()?.start)?, schema, new.name.name.to_string(), alias));
    }
    for (index, new) in &changes.columns {
        let column = places.columns.get(*index)?;
        let span = column.span.as_ref()?;
        let new = new.to_string();
        match (&column.whose, &column.qualifier) {
            (Whose::Relation(_), None) => {
                plan.assigned.push((location(span.start)?, new.clone()));
                plan.listed.push((column.name.to_string(), new));
            }
            (_, qualifier) => {
                let start = qualifier.as_ref().map_or(span.start, |(whole, _)| whole.start);
                let title = column.title_at.map(|_| column.name.to_string());
                plan.columns.push((location(start)?, new, title));
            }
        }
    }
    for index in &changes.cut {
        let (whole, _) = places.columns.get(*index)?.qualifier.as_ref()?;
        plan.cut.push(location(whole.start)?);
    }
    let mut added: Vec<Vec<Node>> = vec![Vec::new(); places.conditions.len()];
    for (index, condition) in &changes.filters {
        let relation = places.relations.get(*index)?;
        let tree = parsed(&format!("{CONDITION}({condition})")).ok()?;
        let node = where_of(&tree)?.clone();
        match &relation.filter {
            Filter::Conditions(at) => {
                for place in at {
                    added.get_mut(*place)?.push(node.clone());
                }
            }
            Filter::Derived(derived) => {
                let at = location(relation.span.as_ref()?.start)?;
                let rename = changes.relations.iter().find(|(of, _)| of == index).map(|(_, new)| &new.name);
                let edit = edit::replaced(text, places, *index, derived, condition, rename)?;
                match derived.form {
                    Form::Command => plan.commands.push((at, node)),
                    Form::Copy => {
                        let query = parsed(edit.text.strip_prefix('(')?.strip_suffix(')')?).ok()?;
                        plan.derived.push((at, *query.stmts.into_iter().next()?.stmt?));
                    }
                    Form::Item(_) => {
                        let query = parsed(&format!("select from {}", edit.text)).ok()?;
                        plan.derived.push((at, query_of(&query)?.from_clause.first()?.clone()));
                    }
                }
            }
            Filter::Needless | Filter::Impossible(_) => return None,
        }
    }
    for (holder, conditions) in found.holders.iter().zip(added) {
        if !conditions.is_empty() {
            plan.conditions.push((*holder, conditions));
        }
    }
    Some(plan)
}
