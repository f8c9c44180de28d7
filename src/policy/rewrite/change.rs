//! What a rule changes in the places of a text.

use super::{
    CannotRewrite, Rewriting,
    names::{Path, Pattern, is_system},
};
use crate::sql::{
    facts::Name,
    places::{Changes, Column, Filter, Form, Level, NewName, Places, Relation, Whose},
};

/// The changes that `rules` want, or why they cannot be made.
pub(super) fn changes(rules: &Rewriting, places: &Places, path: Path<'_>) -> Result<Changes, CannotRewrite> {
    if let Some(what) = places.opaque.filter(|_| !rules.filters.is_empty()) {
        return Err(refused(&format!("a {what} cannot be looked into")));
    }
    let mut changes = Changes::default();
    for (index, relation) in places.relations.iter().enumerate() {
        fixed_columns(rules, relation, path)?;
        let new = renamed(rules, relation, path)?;
        let filter = filtered(rules, relation, new.as_ref(), path)?;
        if let Some(condition) = filter {
            if let Filter::Derived(derived) = &relation.filter
                && derived.form != Form::Command
            {
                whole_row(places, index, relation)?;
            }
            changes.filters.push((index, condition.into()));
        }
        if let Some(new) = new {
            changes.relations.push((index, new));
        }
    }
    for (index, column) in places.columns.iter().enumerate() {
        if let Some(new) = renamed_column(rules, places, column, path)? {
            if column.span.is_none() {
                return Err(refused(&format!("the column {} cannot be renamed where it is named", column.name)));
            }
            changes.columns.push((index, new));
        }
        // `schema.t.a` is valid only as long as FROM says `schema.t`.
        if let (Some((whole, name)), Whose::Relation(relation)) = (&column.qualifier, &column.whose)
            && whole != name
            && (changes.relations.iter().any(|(of, _)| of == relation)
                || changes.filters.iter().any(|(of, _)| of == relation && is_derived(places, *of)))
        {
            changes.cut.push(index);
        }
    }
    Ok(changes)
}

fn is_derived(places: &Places, relation: usize) -> bool {
    places.relations.get(relation).is_some_and(|relation| matches!(relation.filter, Filter::Derived(_)))
}

fn refused(why: &str) -> CannotRewrite {
    CannotRewrite::new(why)
}

fn renamed(rules: &Rewriting, relation: &Relation, path: Path<'_>) -> Result<Option<NewName>, CannotRewrite> {
    let table = rules.tables.iter().find(|(from, _)| !relation.temporary && from.matches(&relation.name, path));
    if table.is_some() && relation.made {
        return Err(refused(&format!("{} is made under a name that belongs to another table", shown(&relation.name))));
    }
    let mut name = table.map_or_else(|| relation.name.clone(), |(_, to)| to.instead_of(&relation.name));
    if name.schema.is_none() && !relation.temporary && !is_system(&name) {
        name.schema.clone_from(&rules.schema);
    }
    if name == relation.name {
        return Ok(None);
    }
    if relation.span.is_none() {
        return Err(refused(&format!("{} cannot be renamed where it is named", shown(&relation.name))));
    }
    let keeps = name.name != relation.name.name && relation.called && relation.alias.is_none();
    let alias = keeps.then(|| relation.name.name.clone());
    Ok(Some(NewName { name, alias }))
}

/// The condition that the relation's rows must meet.
fn filtered(
    rules: &Rewriting,
    relation: &Relation,
    new: Option<&NewName>,
    path: Path<'_>,
) -> Result<Option<String>, CannotRewrite> {
    if relation.made || relation.temporary {
        return Ok(None);
    }
    let name = new.map_or(&relation.name.name, |new| &new.name.name);
    let called = match &relation.filter {
        // In a query of its own it has no alias.
        Filter::Derived(_) => name,
        _ => relation.alias.as_ref().or(new.and_then(|new| new.alias.as_ref())).unwrap_or(name),
    };
    let conditions = rules.filters.iter().filter(|(table, _)| table.covers(&relation.name, path));
    let conditions: Vec<String> = conditions.map(|(_, condition)| condition.on(called)).collect();
    match (conditions.as_slice(), &relation.filter) {
        ([], _) | (_, Filter::Needless) => Ok(None),
        (_, Filter::Impossible(why)) => Err(refused(&format!("{}: {why}", shown(&relation.name)))),
        ([one], _) => Ok(Some(one.clone())),
        (many, _) => Ok(Some(many.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" and "))),
    }
}

/// Where columns matter without being named, or are named where nobody looks, none can be renamed.
fn fixed_columns(rules: &Rewriting, relation: &Relation, path: Path<'_>) -> Result<(), CannotRewrite> {
    let renames = || rules.columns.iter().any(|(table, ..)| table.matches(&relation.name, path));
    match (relation.natural, relation.defined) {
        (true, _) if renames() => {
            Err(refused(&format!("columns of {} cannot be renamed in a NATURAL join", shown(&relation.name))))
        }
        (_, true) if renames() => {
            Err(refused(&format!("columns of {} cannot be renamed in its definition", shown(&relation.name))))
        }
        _ => Ok(()),
    }
}

/// A query in the place of a table has rows of another type: who asks for a whole one would see the difference.
fn whole_row(places: &Places, index: usize, relation: &Relation) -> Result<(), CannotRewrite> {
    let called = relation.alias.as_ref().unwrap_or(&relation.name.name);
    let whole = places.columns.iter().any(|column| match &column.whose {
        Whose::Visible(levels) => column.name == *called && levels.iter().any(|level| level.relations.contains(&index)),
        Whose::Relation(_) | Whose::Nobody => false,
    });
    if whole { Err(refused(&format!("{called} is used as a whole row"))) } else { Ok(()) }
}

fn renamed_column(
    rules: &Rewriting,
    places: &Places,
    column: &Column,
    path: Path<'_>,
) -> Result<Option<Box<str>>, CannotRewrite> {
    if rules.columns.is_empty() {
        return Ok(None);
    }
    let new = |table: &Pattern, relation: usize| {
        places.relations.get(relation).is_some_and(|relation| !relation.made && table.matches(&relation.name, path))
    };
    let of = |relation: usize| {
        let rule = rules.columns.iter().find(|(table, old, _)| *old == column.name && new(table, relation));
        rule.map(|(.., name)| name.clone())
    };
    match &column.whose {
        Whose::Nobody => Ok(None),
        Whose::Relation(relation) => Ok(of(*relation)),
        Whose::Visible(levels) => {
            let Some(depth) = levels.iter().position(|level| owner(level, &of).is_some()) else { return Ok(None) };
            if depth > 0 {
                return Err(refused(&format!("it cannot be told whose column {} is: qualify it", column.name)));
            }
            Ok(levels.first().and_then(|level| owner(level, &of)))
        }
    }
}

fn owner(level: &Level, of: &impl Fn(usize) -> Option<Box<str>>) -> Option<Box<str>> {
    level.relations.iter().find_map(|relation| of(*relation))
}

fn shown(name: &Name) -> String {
    match &name.schema {
        Some(schema) => format!("{schema}.{}", name.name),
        None => name.name.to_string(),
    }
}
