//! Code that a statement runs without naming it: triggers, rules, policies, the functions behind a view or a default. No parser of the
//! statement can tell, so a server is asked what code can be reached through its relations: all of them when the catalog is
//! read, or those of some names.
//!
//! Code written in C (extensions) and PostgreSQL's own is trusted, except for built-in functions that touch the session.

use std::collections::{BTreeSet, HashMap};

use crate::sql::{
    facts::Facts,
    functions::{FunctionClass, Functions},
};

/// The answer.
#[derive(Debug, Default)]
pub struct Reach {
    /// By name, whatever the schema.
    relations: HashMap<Box<str>, Code>,
    /// Built-in functions of whose names there are others.
    shadowed: BTreeSet<Box<str>>,
    /// Operators, casts or domains run anybody's code.
    everywhere: bool,
    /// Names with a dot that functions mention: parameters, perhaps.
    mentioned: Box<[Box<str>]>,
}

/// When anybody's code is reached through a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Never,
    /// By what writes it.
    Written,
    /// By what reads it, too.
    Read,
}

impl Reach {
    /// From rows of a kind and a name. Without the last of them it is no answer.
    pub fn read<'r>(rows: impl Iterator<Item = (&'r str, &'r str)>) -> Option<Self> {
        let (mut reach, mut mentioned, mut whole) = (Self::default(), Vec::new(), false);
        for (kind, name) in rows {
            match kind {
                "plain" => {
                    reach.relations.entry(name.into()).or_insert(Code::Never);
                }
                "written" => {
                    reach.relations.insert(name.into(), Code::Written);
                }
                "read" => {
                    reach.relations.insert(name.into(), Code::Read);
                }
                "shadowed" => {
                    reach.shadowed.insert(name.into());
                }
                "mentioned" => mentioned.push(name.to_ascii_lowercase().into()),
                "everywhere" => reach.everywhere = true,
                "end" => whole = true,
                _ => {}
            }
        }
        reach.mentioned = mentioned.into();
        whole.then_some(reach)
    }

    /// May a text run code that it does not name? `None`: a relation in it was not asked about.
    pub fn is_unseen(&self, facts: &Facts) -> Option<bool> {
        let mut unseen =
            self.everywhere || facts.functions.iter().any(|function| self.shadowed.contains(&*function.name));
        for name in &facts.reads {
            unseen |= *self.relations.get(&name.name)? == Code::Read;
        }
        for name in &facts.writes {
            unseen |= *self.relations.get(&name.name)? != Code::Never;
        }
        Some(unseen)
    }

    /// The relations that were asked about.
    pub fn relations(&self) -> impl Iterator<Item = &str> {
        self.relations.keys().map(|name| &**name)
    }

    /// Names with a dot that functions mention, in lower case.
    pub fn mentioned(&self) -> &[Box<str>] {
        &self.mentioned
    }
}

/// The question, as far as it hangs on what is built in.
#[derive(Debug)]
pub struct ReachQuestion {
    session: String,
    queries: String,
}

impl ReachQuestion {
    /// For these built-in functions.
    pub fn new(functions: &Functions) -> Self {
        let list = |classes: &[FunctionClass]| {
            let names = functions.names(classes).filter(|name| !name.contains("_xact_"));
            names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",")
        };
        let session = [FunctionClass::Session, FunctionClass::Locks, FunctionClass::Opaque];
        let queries = [FunctionClass::Session, FunctionClass::Locks, FunctionClass::Opaque, FunctionClass::Writes];
        Self { session: list(&session), queries: list(&queries) }
    }

    /// About relations of these names: a list of literals, perhaps empty.
    pub fn about(&self, names: &str) -> String {
        self.ask(&format!("SELECT pg_catalog.unnest(ARRAY[{names}]::pg_catalog.text[])"))
    }

    /// About every relation that is not temporary.
    pub fn about_all(&self) -> String {
        self.ask(
            "SELECT DISTINCT relname::pg_catalog.text FROM pg_catalog.pg_class \
            WHERE oid >= 16384 AND relkind = ANY ('{r,p,v,m,f}') AND relpersistence <> 't'",
        )
    }

    fn ask(&self, names: &str) -> String {
        of_the_system(QUESTION)
            .replace("$names", &of_the_system(names))
            .replace("$session", &self.session)
            .replace("$queries", &self.queries)
    }
}

/// A question of ours, written with ` = ` and its like, that asks PostgreSQL's own operators whatever the search_path puts in front of them.
pub fn of_the_system(question: &str) -> String {
    [" = ", " <> ", " >= ", " ~ ", " ~* ", " || "].into_iter().fold(question.to_owned(), |text, operator| {
        text.replace(operator, &format!(" OPERATOR(pg_catalog.{}) ", operator.trim()))
    })
}

/// Fixed numbers: 11 pg_catalog; 12 and 13 the languages internal and C; 16384 the first object that is not PostgreSQL's own; 1247
/// pg_type, 1255 pg_proc, 1259 pg_class, 2604 pg_attrdef, 2606 pg_constraint, 2617 pg_operator, 2618 pg_rewrite, 3256 pg_policy. Calls of
/// built-in functions are not in pg_depend, so the stored trees are searched for them. An aggregate is internal by its language, whatever
/// its functions are written in.
///
/// `r` is what is reached from a name: partitions and children, what views and rules read, tables that a foreign key changes. `code` is
/// where anybody's code hangs. Each says whether reading is enough: triggers, rules other than a view's and defaults (but those of
/// generated columns, which PostgreSQL 18 computes on reading) need a write. A condition that calls a function can run when a read is
/// planned. The question is asked under the client's search_path, so its operators are written out ([`of_the_system`]).
const QUESTION: &str = "WITH RECURSIVE names(name) AS MATERIALIZED ($names), \
    calls(session, queries) AS MATERIALIZED (SELECT \
      ':funcid (' || pg_catalog.string_agg(oid::pg_catalog.text, '|') FILTER (WHERE proname = ANY (ARRAY[$session]::pg_catalog.name[])) || ') ', \
      ':funcid (' || pg_catalog.string_agg(oid::pg_catalog.text, '|') || ') ' \
      FROM pg_catalog.pg_proc WHERE pronamespace = 11 AND proname = ANY (ARRAY[$queries]::pg_catalog.name[])), \
    r(oid, name, reads) AS (\
      SELECT c.oid, n.name, true FROM names n JOIN pg_catalog.pg_class c ON c.relname = n.name::pg_catalog.name \
        WHERE c.oid >= 16384 AND c.relkind = ANY ('{r,p,v,m,f}') \
      UNION SELECT n.oid, r.name, r.reads AND n.reads FROM r, LATERAL (\
        SELECT inhrelid, true FROM pg_catalog.pg_inherits WHERE inhparent = r.oid \
        UNION ALL SELECT d.refobjid, w.rulename = '_RETURN' FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_depend d \
          ON d.classid = 2618 AND d.objid = w.oid AND d.refclassid = 1259 WHERE w.ev_class = r.oid \
        UNION ALL SELECT conrelid, false FROM pg_catalog.pg_constraint \
          WHERE confrelid = r.oid AND contype = 'f' AND (confdeltype = ANY ('{c,n,d}') OR confupdtype = ANY ('{c,n,d}'))\
      ) n(oid, reads) WHERE n.oid >= 16384), \
    reached(oid) AS MATERIALIZED (SELECT DISTINCT oid FROM r), \
    own(oid) AS MATERIALIZED (SELECT oid FROM pg_catalog.pg_proc WHERE oid >= 16384 AND (prolang <> ALL ('{12,13}') OR prokind = 'a')), \
    code(oid, reads) AS (\
      SELECT oid, true FROM pg_catalog.pg_class WHERE relkind = 'f' AND oid = ANY (ARRAY(SELECT oid FROM reached)) \
      UNION ALL SELECT tgrelid, false FROM pg_catalog.pg_trigger WHERE NOT tgisinternal AND tgrelid = ANY (ARRAY(SELECT oid FROM reached)) \
      UNION ALL SELECT ev_class, rulename = '_RETURN' FROM pg_catalog.pg_rewrite, calls WHERE ev_class = ANY (ARRAY(SELECT oid FROM reached)) \
        AND (rulename <> '_RETURN' OR ev_action::pg_catalog.text ~ calls.queries) \
      UNION ALL SELECT adrelid, false FROM pg_catalog.pg_attrdef, calls WHERE adrelid = ANY (ARRAY(SELECT oid FROM reached)) \
        AND adbin::pg_catalog.text ~ calls.session \
      UNION ALL SELECT conrelid, false FROM pg_catalog.pg_constraint, calls WHERE conrelid = ANY (ARRAY(SELECT oid FROM reached)) \
        AND conbin::pg_catalog.text ~ calls.session \
      UNION ALL SELECT polrelid, true FROM pg_catalog.pg_policy, calls WHERE polrelid = ANY (ARRAY(SELECT oid FROM reached)) \
        AND (polqual::pg_catalog.text ~ calls.queries OR polwithcheck::pg_catalog.text ~ calls.queries) \
      UNION ALL SELECT c.oid, true FROM own JOIN pg_catalog.pg_proc f ON f.oid = own.oid AND f.pronargs >= 1 \
        JOIN pg_catalog.pg_class c ON c.reltype = f.proargtypes[0] \
      UNION ALL SELECT x.oid, x.reads FROM own JOIN pg_catalog.pg_depend d ON d.refclassid = 1255 AND d.refobjid = own.oid, LATERAL (\
        SELECT d.objid, true WHERE d.classid = 1259 \
        UNION ALL SELECT i.indrelid, true FROM pg_catalog.pg_index i WHERE d.classid = 1259 AND i.indexrelid = d.objid \
        UNION ALL SELECT a.adrelid, EXISTS(SELECT FROM pg_catalog.pg_attribute g \
            WHERE g.attrelid = a.adrelid AND g.attnum = a.adnum AND g.attgenerated <> '') \
          FROM pg_catalog.pg_attrdef a WHERE d.classid = 2604 AND a.oid = d.objid \
        UNION ALL SELECT k.conrelid, true FROM pg_catalog.pg_constraint k WHERE d.classid = 2606 AND k.oid = d.objid \
        UNION ALL SELECT w.ev_class, w.rulename = '_RETURN' FROM pg_catalog.pg_rewrite w WHERE d.classid = 2618 AND w.oid = d.objid \
        UNION ALL SELECT p.polrelid, true FROM pg_catalog.pg_policy p WHERE d.classid = 3256 AND p.oid = d.objid\
      ) x(oid, reads)) \
    SELECT 'plain', name FROM names \
    UNION ALL SELECT CASE WHEN pg_catalog.bool_or(r.reads AND code.reads) THEN 'read' ELSE 'written' END, r.name \
      FROM r JOIN code ON code.oid = r.oid GROUP BY r.name \
    UNION ALL SELECT DISTINCT 'shadowed', f.proname::pg_catalog.text FROM own JOIN pg_catalog.pg_proc f ON f.oid = own.oid \
      WHERE EXISTS (SELECT FROM pg_catalog.pg_proc b WHERE b.pronamespace = 11 AND b.proname = f.proname) \
    UNION ALL SELECT 'everywhere', '' WHERE \
      EXISTS (SELECT FROM pg_catalog.pg_operator o JOIN own ON own.oid = o.oprcode WHERE o.oid >= 16384) \
      OR EXISTS (SELECT FROM pg_catalog.pg_cast k JOIN own ON own.oid = k.castfunc WHERE k.oid >= 16384) \
      OR EXISTS (SELECT FROM pg_catalog.pg_amproc a JOIN own ON own.oid = a.amproc) \
      OR EXISTS (SELECT FROM calls, pg_catalog.pg_constraint k WHERE k.contypid >= 16384 AND (k.conbin::pg_catalog.text ~ calls.session \
        OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN own ON own.oid = d.refobjid \
          WHERE d.classid = 2606 AND d.objid = k.oid AND d.refclassid = 1255))) \
      OR EXISTS (SELECT FROM calls, pg_catalog.pg_type t WHERE t.oid >= 16384 AND (t.typdefaultbin::pg_catalog.text ~ calls.session \
        OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN own ON own.oid = d.refobjid \
          WHERE d.classid = 1247 AND d.objid = t.oid AND d.refclassid = 1255))) \
    UNION ALL (SELECT DISTINCT 'mentioned', m.name FROM own JOIN pg_catalog.pg_proc f ON f.oid = own.oid, \
      LATERAL (SELECT (pg_catalog.regexp_matches(f.prosrc, '''([[:alpha:]_][[:alnum:]_$]*([.][[:alpha:]_][[:alnum:]_$]*)+)''|\\mset\\s+(?:(?:local|session)\\s+)?([[:alpha:]_][[:alnum:]_$]*([.][[:alpha:]_][[:alnum:]_$]*)+)', 'gi'))) x(found), \
      LATERAL (SELECT COALESCE(x.found[1], x.found[3])) m(name) \
      WHERE f.prosrc ~* '\\mset' LIMIT 500) \
    UNION ALL SELECT 'end', ''";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Caps, Classifier, Misroutes, ShapeKey, StringRules};

    #[test]
    fn a_text_is_what_its_relations_reach() {
        let rows = [("plain", "t"), ("plain", "audited"), ("plain", "v"), ("written", "audited"), ("read", "v")];
        let read = |more: &[(&'static str, &'static str)], end: bool| {
            let end = end.then_some(("end", ""));
            Reach::read(rows.iter().chain(more).copied().chain(end))
        };
        assert!(read(&[], false).is_none());
        let functions = std::sync::Arc::new(Functions::built_in().unwrap());
        let caps = Caps { parse: 10_000, entries: 100 };
        let mut classifier = Classifier::new(ShapeKey::random(), functions, Misroutes::new(1).into(), caps);
        let mut check = |reach: &Reach, sql: &str, expected: Option<bool>| {
            let known = classifier.classify(sql.as_bytes(), StringRules::default()).known;
            assert_eq!(reach.is_unseen(&known.facts), expected, "{sql}");
        };
        let reach = read(&[], true).unwrap();
        for (sql, expected) in [
            ("select * from t", Some(false)),
            ("insert into t values (1)", Some(false)),
            ("select * from audited", Some(false)),
            ("insert into audited values (1)", Some(true)),
            ("with x as (delete from audited returning *) select * from t", Some(true)),
            ("insert into t select * from audited", Some(false)),
            ("select * from v", Some(true)),
            ("insert into t select * from v", Some(true)),
            ("select * from other", None),
            ("select upper(a) from t", Some(false)),
        ] {
            check(&reach, sql, expected);
        }
        check(&read(&[("shadowed", "upper")], true).unwrap(), "select upper(a) from t", Some(true));
        check(&read(&[("everywhere", "")], true).unwrap(), "select 1", Some(true));
    }
}
