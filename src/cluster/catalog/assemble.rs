//! Rows → snapshot. Takes time where the catalog is large, so it is not done among the probes.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use tokio_postgres::SimpleQueryRow;

use super::read::{Names, Rows, text, value};
use crate::sql::{
    Functions,
    catalog::{
        Body, Cast, CastContext, Catalog, Function, FunctionKind, Language, Listing, Operator, PathSetting, Permanence,
        Relation, RelationKind, Schema, Volatility,
    },
    facts::Name,
};

/// Code that was read before, by oid.
#[derive(Default)]
pub(super) struct Library {
    views: HashMap<u32, Entry>,
    functions: HashMap<u32, Entry>,
    /// PostgreSQL's own functions.
    built_in: Vec<(u32, Name)>,
    /// What objects are called, hashed: definitions show names, and do not change when those do.
    names: HashMap<u32, u64>,
}

/// Code as it was when its row had this xmin.
#[derive(Clone)]
struct Entry {
    xmin: Box<str>,
    shows_names: bool,
    body: Arc<Body>,
    defaults: Option<Arc<Body>>,
}

/// What has to be asked for.
#[derive(Default)]
pub(super) struct Lacking {
    pub(super) views: Vec<u32>,
    pub(super) functions: Vec<u32>,
}

impl Library {
    /// Are PostgreSQL's own functions not known yet?
    pub(super) fn lacks_built_in(&self) -> bool {
        self.built_in.is_empty()
    }

    /// Takes their names in.
    pub(super) fn learn_built_in(&mut self, rows: &Rows) {
        self.built_in = rows.iter().map(numbered).collect();
    }

    /// Forgets what has changed, and tells what is missing.
    pub(super) fn lacking(&mut self, names: &Names) -> Lacking {
        let mut called = HashMap::new();
        for (rows, name) in [(&names.relations, 1), (&names.functions, 1)] {
            for row in rows {
                let mut hasher = DefaultHasher::new();
                (text(row, name), text(row, name + 1)).hash(&mut hasher);
                called.insert(oid(text(row, 0)), hasher.finish());
            }
        }
        let renamed = self.names.iter().any(|(oid, hash)| called.get(oid).is_some_and(|now| now != hash));
        self.names = called;
        if renamed {
            self.views.clear();
            self.functions.retain(|_, entry| !entry.shows_names);
        }
        let mut lacking = Lacking::default();
        let mut alive = (HashSet::new(), HashSet::new());
        for row in names.relations.iter().filter(|row| is_view(row)) {
            let oid = oid(text(row, 0));
            alive.0.insert(oid);
            if self.views.get(&oid).is_none_or(|entry| *entry.xmin != *text(row, 5)) {
                lacking.views.push(oid);
            }
        }
        for row in names.functions.iter().filter(|row| is_readable(row)) {
            let oid = oid(text(row, 0));
            alive.1.insert(oid);
            if self.functions.get(&oid).is_none_or(|entry| *entry.xmin != *text(row, 7)) {
                lacking.functions.push(oid);
            }
        }
        self.views.retain(|oid, _| alive.0.contains(oid));
        self.functions.retain(|oid, _| alive.1.contains(oid));
        lacking
    }

    /// Puts everything together.
    pub(super) fn assemble(
        &mut self,
        names: &Names,
        base: Option<&str>,
        views: &Rows,
        bodies: &Rows,
        built_in: &Functions,
    ) -> Catalog {
        let xmin = |rows: &Rows, column: usize| -> HashMap<u32, Box<str>> {
            rows.iter().map(|row| (oid(text(row, 0)), text(row, column).into())).collect()
        };
        let of_views = xmin(&names.relations, 5);
        for row in views {
            let oid = oid(text(row, 0));
            // Dropped meanwhile.
            let Some(query) = value(row, 1) else { continue };
            let body = Arc::new(Body::sql(query, built_in));
            let xmin = of_views.get(&oid).cloned().unwrap_or_default();
            self.views.insert(oid, Entry { xmin, shows_names: true, body, defaults: None });
        }
        let languages: HashMap<u32, &str> =
            names.functions.iter().map(|row| (oid(text(row, 0)), text(row, 5))).collect();
        let of_functions = xmin(&names.functions, 7);
        for row in bodies {
            let oid = oid(text(row, 0));
            let language = languages.get(&oid).copied().unwrap_or_default();
            let standard = value(row, 2);
            let body = match (language, standard) {
                (_, Some(standard)) => Body::standard(standard, built_in),
                ("sql", None) => Body::sql(text(row, 1), built_in),
                ("plpgsql", None) => Body::plpgsql(text(row, 1)),
                _ => Body::Unread,
            };
            let defaults = value(row, 3).map(|defaults| Arc::new(Body::expressions(defaults, built_in)));
            let shows_names = standard.is_some() || defaults.is_some();
            let xmin = of_functions.get(&oid).cloned().unwrap_or_default();
            self.functions.insert(oid, Entry { xmin, shows_names, body: Arc::new(body), defaults });
        }
        Catalog::new(self.listing(names, base, built_in))
    }

    fn listing(&self, names: &Names, base: Option<&str>, built_in: &Functions) -> Listing {
        let mut policies: HashMap<u32, Vec<Arc<Body>>> = HashMap::new();
        for row in &names.policies {
            let body = Body::expressions(text(row, 1), built_in);
            policies.entry(oid(text(row, 0))).or_default().push(Arc::new(body));
        }
        let mut parts: HashMap<u32, Vec<Name>> = HashMap::new();
        for row in &names.aggregates {
            parts.entry(oid(text(row, 0))).or_default().push(name(text(row, 1), text(row, 2)));
        }
        let base = base.map(|value| PathSetting { role: None, in_database: false, value: value.into() });
        let paths = names.paths.iter().map(|row| PathSetting {
            role: value(row, 0).map(Into::into),
            in_database: text(row, 1) == "t",
            value: text(row, 2).into(),
        });
        Listing {
            schemas: schemas(&names.schemas),
            superusers: names.superusers.iter().map(|row| text(row, 0).into()).collect(),
            relations: names.relations.iter().map(|row| self.relation(row, &mut policies)).collect(),
            inheritance: names.inheritance.iter().map(|row| (oid(text(row, 0)), oid(text(row, 1)))).collect(),
            functions: names.functions.iter().map(|row| self.function(row, &mut parts)).collect(),
            numbers: self.built_in.iter().cloned().chain(names.functions.iter().map(numbered)).collect(),
            operators: names
                .operators
                .iter()
                .map(|row| Operator {
                    schema: text(row, 0).into(),
                    name: text(row, 1).into(),
                    function: name(text(row, 2), text(row, 3)),
                })
                .collect(),
            casts: names
                .casts
                .iter()
                .map(|row| Cast {
                    target: text(row, 0).into(),
                    context: match text(row, 1) {
                        "i" => CastContext::Implicit,
                        "a" => CastContext::Assignment,
                        _ => CastContext::Explicit,
                    },
                    function: name(text(row, 2), text(row, 3)),
                })
                .collect(),
            support: names.support.iter().map(|row| name(text(row, 0), text(row, 1))).collect(),
            checks: names.checks.iter().map(|row| Arc::new(Body::expressions(text(row, 0), built_in))).collect(),
            paths: base.into_iter().chain(paths).collect(),
        }
    }

    fn relation(&self, row: &SimpleQueryRow, policies: &mut HashMap<u32, Vec<Arc<Body>>>) -> Relation {
        let oid = oid(text(row, 0));
        let schema = text(row, 1);
        let kind = match text(row, 3) {
            // Its views are PostgreSQL's own, and alike everywhere.
            _ if schema == "information_schema" => RelationKind::Table,
            "v" => RelationKind::View,
            "f" => RelationKind::Foreign,
            "S" => RelationKind::Sequence,
            _ => RelationKind::Table,
        };
        Relation {
            oid,
            schema: schema.into(),
            name: text(row, 2).into(),
            kind,
            permanence: if text(row, 4) == "p" { Permanence::Logged } else { Permanence::Unlogged },
            query: self.views.get(&oid).map(|entry| Arc::clone(&entry.body)),
            policies: policies.remove(&oid).unwrap_or_default(),
        }
    }

    fn function(&self, row: &SimpleQueryRow, parts: &mut HashMap<u32, Vec<Name>>) -> Function {
        let oid = oid(text(row, 0));
        let read = self.functions.get(&oid);
        Function {
            schema: text(row, 1).into(),
            name: text(row, 2).into(),
            kind: match text(row, 3) {
                "a" => FunctionKind::Aggregate(parts.remove(&oid).unwrap_or_default()),
                "p" => FunctionKind::Procedure,
                _ => FunctionKind::Function,
            },
            volatility: if text(row, 4) == "v" { Volatility::Volatile } else { Volatility::NotVolatile },
            language: match (text(row, 5), text(row, 6)) {
                ("internal" | "c", _) => Language::Native,
                ("sql", _) => Language::Sql,
                ("plpgsql", _) => Language::Plpgsql,
                (_, "t") => Language::Trusted,
                _ => Language::Untrusted,
            },
            body: read.map(|entry| Arc::clone(&entry.body)),
            defaults: read.and_then(|entry| entry.defaults.clone()),
            search_path: value(row, 8).map(Into::into),
            of_row: text(row, 9) == "t",
            of_value: text(row, 12) == "t",
            is_definers: text(row, 11) == "t",
        }
    }
}

/// A function's number, and what it is called.
fn numbered(row: &SimpleQueryRow) -> (u32, Name) {
    (oid(text(row, 0)), name(text(row, 1), text(row, 2)))
}

/// A row per schema and role.
fn schemas(rows: &Rows) -> Vec<Schema> {
    let mut schemas: HashMap<&str, Schema> = HashMap::new();
    for row in rows {
        let name = text(row, 0);
        let schema =
            schemas.entry(name).or_insert_with(|| Schema { name: name.into(), is_public: false, users: Vec::new() });
        schema.is_public |= text(row, 2) == "t";
        schema.users.extend(value(row, 1).map(Into::into));
    }
    schemas.into_values().collect()
}

fn is_view(row: &SimpleQueryRow) -> bool {
    text(row, 3) == "v" && text(row, 1) != "information_schema"
}

/// Something can be learnt from its body or its defaults: nothing of what is volatile anyway.
fn is_readable(row: &SimpleQueryRow) -> bool {
    text(row, 4) != "v" && (matches!(text(row, 5), "sql" | "plpgsql") || text(row, 10) == "t")
}

fn oid(text: &str) -> u32 {
    text.parse().unwrap_or(0)
}

fn name(schema: &str, name: &str) -> Name {
    Name { schema: Some(schema.into()), name: name.into() }
}
