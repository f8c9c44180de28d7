//! Where in a text its relations, columns and conditions stand, and what may be changed there.

use std::ops::Range;

use super::facts::Name;

/// Everything of a text that a rewriting rule can be about. Ranges are bytes of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Relations in every place where one can be named. WITH queries are none.
    pub relations: Vec<Relation>,
    /// Columns, qualified or not.
    pub columns: Vec<Column>,
    /// WHERE, ON and their like, where a condition can be added.
    pub conditions: Vec<Condition>,
    /// Something in it may touch relations that cannot be seen: DO, the body of a function.
    pub opaque: Option<&'static str>,
}

/// A relation where it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Its name as written, folded.
    pub name: Name,
    /// The name in the text, schema included; `None`: the tree does not tell where it stands (DROP).
    pub span: Option<Range<usize>>,
    /// The name by which the statement calls it.
    pub alias: Option<Box<str>>,
    /// Where an alias would stand that keeps its columns' names valid; `None`: nothing can call it by name there.
    pub alias_at: Option<usize>,
    /// Somewhere in the text something is called by its name.
    pub called: bool,
    /// Takes part in a NATURAL join, so that the names of its columns matter without being written.
    pub natural: bool,
    /// It is about to be made.
    pub made: bool,
    /// The statement is about its definition, and may name its columns where nobody looks.
    pub defined: bool,
    /// It belongs to one session.
    pub temporary: bool,
    /// How its rows could be chosen.
    pub filter: Filter,
}

/// How a condition on the rows of a relation can be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// To these conditions, all of them.
    Conditions(Vec<usize>),
    /// By a query in the relation's place: on the nullable side of an outer join, and where its names are hidden.
    Derived(Derived),
    /// No row of it is read, changed or removed that a condition could keep (the target of INSERT).
    Needless,
    /// Not at all.
    Impossible(&'static str),
}

/// What a query in the place of a relation is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// What gives way.
    pub item: Range<usize>,
    /// The relation as it is to be named in the query: `only t`, without alias.
    pub relation: Range<usize>,
    /// What is selected: a list of columns, or everything.
    pub columns: Option<Range<usize>>,
    /// TABLESAMPLE.
    pub sample: Option<Range<usize>>,
    /// What follows the query.
    pub form: Form,
}

/// Where a derived query stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// In FROM, with the alias that stands in the text, its column names included; or with the relation's own name.
    Item(Option<Range<usize>>),
    /// `COPY t TO` becomes `COPY (query) TO`.
    Copy,
    /// `TABLE t` becomes a query.
    Command,
}

/// A column where it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, folded.
    pub name: Box<str>,
    /// The name in the text, without qualifier; `None`: it cannot be changed there.
    pub span: Option<Range<usize>>,
    /// The qualifier in the text with its schema, if it has one, and the relation's name alone.
    pub qualifier: Option<(Range<usize>, Range<usize>)>,
    /// Whose it is.
    pub whose: Whose,
    /// Where `AS name` keeps the title of the result's column.
    pub title_at: Option<usize>,
}

/// Whose a column is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of `relations[n]`.
    Relation(usize),
    /// Of one of those that it can see: the query's own first, then those of the queries around it.
    Visible(Vec<Level>),
    /// Of no relation.
    Nobody,
}

/// What a query's FROM has to offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Relations, as indexes.
    pub relations: Vec<usize>,
    /// There are other things as well: sub-selects, WITH queries, functions.
    pub others: bool,
}

/// A column in a condition that is to be added to statements. Ranges are bytes of the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionColumn {
    /// Its name.
    pub name: Range<usize>,
    /// Its qualifier, and what that says.
    pub qualifier: Option<Range<usize>>,
}

/// A place for a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The condition that stands there.
    pub existing: Option<Range<usize>>,
    /// Without one: where it would stand, and behind which word.
    pub at: usize,
    /// `where`, or `and` for WHEN.
    pub word: &'static str,
}

/// What is to be changed. Indexes are those of [`Places`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// New names of relations, as they are to be written, and whether the old name stays as an alias.
    pub relations: Vec<(usize, NewName)>,
    /// New names of columns.
    pub columns: Vec<(usize, Box<str>)>,
    /// Columns whose qualifier loses its schema.
    pub cut: Vec<usize>,
    /// Conditions for relations, with the columns qualified, for each of their places.
    pub filters: Vec<(usize, Box<str>)>,
}

impl Changes {
    /// True if nothing is.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty() && self.columns.is_empty() && self.cut.is_empty() && self.filters.is_empty()
    }
}

/// A new name of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewName {
    /// What it is called from now on.
    pub name: Name,
    /// An alias that keeps references to the old name valid.
    pub alias: Option<Box<str>>,
}
