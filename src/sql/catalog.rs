//! What a database's catalog says of the names in a text: an immutable snapshot, made from a [`Listing`] off the hot path.
//!
//! A name is judged by everything it may stand for: all overloads of a function, the relations behind a view, the children of a table,
//! the functions that row security calls. The worst of them counts. What cannot be found, or cannot be seen into, is not a read.

mod body;
mod judge;
mod listing;
mod path;
mod published;
mod scope;

use std::{collections::HashMap, sync::Arc};

pub use body::Body;
pub(super) use judge::resolve;
pub use listing::{
    Cast, CastContext, Function, FunctionKind, Language, Listing, Operator, PathSetting, Permanence, Relation,
    RelationKind, Schema, Volatility,
};
pub use published::{Changing, Doubt, Freshness, Published};
pub use scope::Scope;

use super::{facts::Name, mentions::Field};
use path::SearchPath;

/// A snapshot. Everything is found by its bare name first: there are few of the same name.
#[derive(Debug, Default)]
pub struct Catalog {
    schemas: HashMap<Box<str>, Schema>,
    superusers: Vec<Box<str>>,
    relations: Vec<Relation>,
    /// Children by their place in `relations`.
    children: HashMap<usize, Vec<usize>>,
    functions: Vec<Function>,
    relations_by_name: HashMap<Box<str>, Vec<usize>>,
    functions_by_name: HashMap<Box<str>, Vec<usize>>,
    functions_by_number: HashMap<u32, Name>,
    operators: HashMap<Box<str>, Vec<Operator>>,
    /// Functions that an explicit cast to a type of this name may call.
    casts: HashMap<Box<str>, Vec<Name>>,
    /// Functions that code may call without a sign of it, where it assigns.
    assigned: Vec<Name>,
    /// Functions that may stand behind a dot: of one row, and of any value.
    behind_dots: HashMap<Field, Vec<usize>>,
    /// Functions that any statement may call without a sign of it in the text, and expressions likewise.
    unnamed: Vec<Name>,
    checks: Vec<Arc<Body>>,
    paths: Vec<PathSetting>,
}

/// Operators that PostgreSQL itself puts into a statement (CASE, USING, IN, DISTINCT, ORDER BY).
const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

impl Catalog {
    /// Puts in order what was read.
    pub fn new(listing: Listing) -> Self {
        let mut catalog = Self {
            schemas: listing.schemas.into_iter().map(|schema| (schema.name.clone(), schema)).collect(),
            superusers: listing.superusers,
            relations: listing.relations,
            functions: listing.functions,
            functions_by_number: listing.numbers.into_iter().collect(),
            unnamed: listing.support,
            checks: listing.checks,
            paths: listing.paths,
            ..Self::default()
        };
        let by_oid: HashMap<u32, usize> = catalog.relations.iter().enumerate().map(|(at, r)| (r.oid, at)).collect();
        for (parent, child) in listing.inheritance {
            if let (Some(parent), Some(child)) = (by_oid.get(&parent), by_oid.get(&child)) {
                catalog.children.entry(*parent).or_default().push(*child);
            }
        }
        for (at, relation) in catalog.relations.iter().enumerate() {
            catalog.relations_by_name.entry(relation.name.clone()).or_default().push(at);
        }
        for (at, function) in catalog.functions.iter().enumerate() {
            catalog.functions_by_name.entry(function.name.clone()).or_default().push(at);
            if function.of_row {
                catalog.behind_dots.entry(Field::of(&function.name)).or_default().push(at);
            }
            if function.of_value {
                catalog.behind_dots.entry(Field::behind_value(&function.name)).or_default().push(at);
            }
        }
        for operator in listing.operators {
            if COMPARISONS.contains(&&*operator.name) {
                catalog.unnamed.push(operator.function.clone());
            }
            catalog.operators.entry(operator.name.clone()).or_default().push(operator);
        }
        for cast in listing.casts {
            match cast.context {
                CastContext::Explicit => {}
                CastContext::Assignment => catalog.assigned.push(cast.function.clone()),
                CastContext::Implicit => catalog.unnamed.push(cast.function.clone()),
            }
            catalog.casts.entry(cast.target).or_default().push(cast.function);
        }
        for names in [&mut catalog.unnamed, &mut catalog.assigned] {
            names.sort_unstable();
            names.dedup();
        }
        catalog
    }

    /// How much is known: relations and functions.
    pub fn size(&self) -> (usize, usize) {
        (self.relations.len(), self.functions.len())
    }

    /// What the function of this number is called.
    pub fn function_numbered(&self, number: u32) -> Option<&Name> {
        self.functions_by_number.get(&number)
    }

    /// The path of a session of this user that has set none. `None`: not known.
    fn default_path(&self, user: &str) -> Option<&str> {
        // As PostgreSQL applies them: the server's, the database's, the role's, the role's in this database.
        let rank = |setting: &PathSetting| (setting.role.is_some(), setting.in_database);
        let of_user = self.paths.iter().filter(|setting| setting.role.as_deref().is_none_or(|role| role == user));
        of_user.max_by_key(|setting| rank(setting)).map(|setting| &*setting.value)
    }

    /// Does everybody agree that this user finds what is in the schema? If not, perhaps it does not.
    fn is_surely_usable(&self, schema: &str, user: &str) -> bool {
        self.schemas.get(schema).is_some_and(|schema| {
            schema.is_public || schema.users.iter().any(|name| **name == *user) || self.is_superuser(user)
        })
    }

    fn is_superuser(&self, user: &str) -> bool {
        self.superusers.iter().any(|name| **name == *user)
    }

    /// Relations that an unqualified name may stand for: the first in the path, and those behind it that are found by whoever may not
    /// use its schema.
    fn relations_in(&self, path: &SearchPath, name: &str) -> Vec<usize> {
        let Some(named) = self.relations_by_name.get(name) else { return Vec::new() };
        let Some(schemas) = path.schemas() else { return named.clone() };
        let mut found = Vec::new();
        for schema in schemas {
            let here = named.iter().find(|at| self.relations.get(**at).is_some_and(|r| *r.schema == **schema));
            if let Some(at) = here {
                found.push(*at);
                if self.is_surely_usable(schema, path.user()) {
                    break;
                }
            }
        }
        found
    }

    fn relations_of(&self, schema: &str, name: &str) -> Vec<usize> {
        let named = self.relations_by_name.get(name).into_iter().flatten().copied();
        named.filter(|at| self.relations.get(*at).is_some_and(|r| *r.schema == *schema)).collect()
    }

    /// Functions that an unqualified name may stand for: those of all schemas in the path, as overloads are chosen among all of them.
    fn functions_in(&self, path: &SearchPath, name: &str) -> Vec<usize> {
        let named = self.functions_by_name.get(name).into_iter().flatten().copied();
        named.filter(|at| self.functions.get(*at).is_some_and(|f| path.includes(&f.schema))).collect()
    }

    fn functions_of(&self, schema: &str, name: &str) -> Vec<usize> {
        let named = self.functions_by_name.get(name).into_iter().flatten().copied();
        named.filter(|at| self.functions.get(*at).is_some_and(|f| *f.schema == *schema)).collect()
    }
}

#[cfg(test)]
mod tests;
