//! What was read of a catalog, as it was read.

use std::sync::Arc;

use super::Body;
use crate::sql::facts::Name;

/// A database's objects, without those of PostgreSQL itself and of other sessions (temporary ones).
#[derive(Debug, Default)]
pub struct Listing {
    /// Schemas.
    pub schemas: Vec<Schema>,
    /// Roles that may use everything.
    pub superusers: Vec<Box<str>>,
    /// Tables, views and what else a FROM can name.
    pub relations: Vec<Relation>,
    /// Parent and child, by oid: partitions, too.
    pub inheritance: Vec<(u32, u32)>,
    /// Functions, procedures and aggregates.
    pub functions: Vec<Function>,
    /// Numbers of functions, PostgreSQL's own among them.
    pub numbers: Vec<(u32, Name)>,
    /// Operators.
    pub operators: Vec<Operator>,
    /// Casts that call a function.
    pub casts: Vec<Cast>,
    /// Functions that operator classes are made of, those of their operators among them.
    pub support: Vec<Name>,
    /// Constraints of domains.
    pub checks: Vec<Arc<Body>>,
    /// Where `search_path` is set; the server's own value first.
    pub paths: Vec<PathSetting>,
}

/// A schema, and who may look into it.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Its name.
    pub name: Box<str>,
    /// Everybody may.
    pub is_public: bool,
    /// Its owner, and the roles that were granted USAGE. Who is a member of one of them is not here.
    pub users: Vec<Box<str>>,
}

/// A relation.
#[derive(Clone, Debug)]
pub struct Relation {
    /// Its number in pg_class.
    pub oid: u32,
    /// Its schema.
    pub schema: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// What it is.
    pub kind: RelationKind,
    /// Whether a standby has it.
    pub permanence: Permanence,
    /// The query of a view.
    pub query: Option<Arc<Body>>,
    /// What row security adds to a read, if it is on.
    pub policies: Vec<Arc<Body>>,
}

/// What a relation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// A table or materialized view, with its rows.
    Table,
    /// A view.
    View,
    /// A foreign table.
    Foreign,
    /// A sequence.
    Sequence,
}

/// Whether a relation's rows come with the WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permanence {
    /// They do.
    Logged,
    /// They do not.
    Unlogged,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its schema.
    pub schema: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// What it is.
    pub kind: FunctionKind,
    /// Its label.
    pub volatility: Volatility,
    /// What it is written in.
    pub language: Language,
    /// What it says, if that can be read.
    pub body: Option<Arc<Body>>,
    /// The defaults of its arguments.
    pub defaults: Option<Arc<Body>>,
    /// The `search_path` it sets for itself.
    pub search_path: Option<Box<str>>,
    /// It can be called with a row alone: `t.f`.
    pub of_row: bool,
    /// It can be called with one value alone: `(v).f`.
    pub of_value: bool,
    /// It runs as its owner.
    pub is_definers: bool,
}

/// What a function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// A function, or a window function.
    Function,
    /// A procedure.
    Procedure,
    /// An aggregate, made of these functions.
    Aggregate(Vec<Name>),
}

/// What a function's definition claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    /// IMMUTABLE or STABLE.
    NotVolatile,
    /// VOLATILE, which is what it is if nothing was said.
    Volatile,
}

/// What a function is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C: an extension's or PostgreSQL's own.
    Native,
    /// SQL.
    Sql,
    /// PL/pgSQL.
    Plpgsql,
    /// Another one that keeps functions inside of the database.
    Trusted,
    /// One that can do anything.
    Untrusted,
}

/// An operator.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Its schema.
    pub schema: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its function.
    pub function: Name,
}

/// A cast.
#[derive(Clone, Debug)]
pub struct Cast {
    /// The type it gives, without its schema.
    pub target: Box<str>,
    /// When it is applied.
    pub context: CastContext,
    /// Its function.
    pub function: Name,
}

/// When a cast is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastContext {
    /// Where it stands in the text.
    Explicit,
    /// And where something is assigned: in the code of functions, and to what they return.
    Assignment,
    /// Anywhere.
    Implicit,
}

/// A place where `search_path` is set.
#[derive(Clone, Debug)]
pub struct PathSetting {
    /// For this role only.
    pub role: Option<Box<str>>,
    /// For this database only.
    pub in_database: bool,
    /// To this.
    pub value: Box<str>,
}
