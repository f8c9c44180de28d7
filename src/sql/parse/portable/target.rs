//! Does a condition hang on the rows that would be changed?

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, TableFactor, Visit, Visitor};

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
