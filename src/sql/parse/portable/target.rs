//! Does a condition hang on the rows that would be changed?

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Query, TableFactor, Visit, Visitor, visit_expressions_mut};

use super::tree::{ident, named};
use crate::sql::facts::Name;

/// Of a relation.
pub(super) fn name(relation: &TableFactor) -> Option<Name> {
    match relation {
        TableFactor::Table { name, .. } => named(name),
        _ => None,
    }
}

/// Is a column in it one of the target's? Inside of sub-selects only one that says so.
pub(super) fn hangs_on(condition: &Expr, target: &TableFactor) -> bool {
    let mut look = Look { target: shown(target), depth: 0, here: false, inside: false, name_is_taken: false };
    let _ = condition.visit(&mut look);
    look.here || look.inside && !look.name_is_taken
}

/// The condition as it stands for a row that meets itself, where the target's table stands beside itself: in the other relations or in a
/// sub-select.
pub(super) fn meeting_itself<V: Visit>(condition: &Expr, target: &TableFactor, others: Option<&V>) -> Option<Expr> {
    let own = shown(target)?;
    let mut twins = Twins { table: name(target)?.name, names: Vec::new(), inside: Vec::new() };
    let _ = condition.visit(&mut twins);
    let _ = others.map(|others| others.visit(&mut twins));
    if twins.names.is_empty() {
        return None;
    }
    let mut alike = condition.clone();
    let _ = visit_expressions_mut(&mut alike, |expr| {
        if let Expr::CompoundIdentifier(names) = expr
            && let [.., relation, _] = names.as_mut_slice()
            && twins.names.contains(&ident(relation))
        {
            *relation = Ident::new(own.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    Some(alike)
}

/// Names under which a table is met.
struct Twins {
    table: Box<str>,
    names: Vec<String>,
    /// Those of the derived tables around.
    inside: Vec<Option<String>>,
}

impl Visitor for Twins {
    type Break = ();

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { alias, .. } = relation {
            self.inside.push(alias.as_ref().map(|alias| ident(&alias.name)));
        }
        if name(relation).is_some_and(|name| name.name == self.table) {
            self.names.extend(shown(relation));
            self.names.extend(self.inside.iter().flatten().cloned());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<()> {
        if matches!(relation, TableFactor::Derived { .. }) {
            self.inside.pop();
        }
        ControlFlow::Continue(())
    }
}

/// The name by which columns call a relation.
fn shown(relation: &TableFactor) -> Option<String> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. } => Some(ident(&alias.name)),
        relation => name(relation).map(|name| name.name.into()),
    }
}

struct Look {
    target: Option<String>,
    depth: u32,
    here: bool,
    inside: bool,
    /// Another relation has the name of the target in some sub-select.
    name_is_taken: bool,
}

impl Visitor for Look {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<()> {
        self.name_is_taken |= shown(relation) == self.target;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(_) => self.here |= self.depth == 0,
            Expr::CompoundIdentifier(names) => {
                if let [.., relation, _] = names.as_slice()
                    && Some(ident(relation)) == self.target
                {
                    *(if self.depth == 0 { &mut self.here } else { &mut self.inside }) = true;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
