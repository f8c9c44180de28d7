//! The questions to a server about its catalog.
//!
//! All is asked in one transaction, so that it fits together. What is long and seldom changes, the definitions of views and functions,
//! is asked for again only when it has changed.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::SimpleQueryRow;

use crate::cluster::link::{Link, LinkError};

/// Longest wait for one answer.
const DEADLINE: Duration = Duration::from_secs(12);
/// Settings of the connection. A lock that others wait for, too, is not waited for long: behind us they would wait longer.
pub(super) const OPTIONS: &str = "-c statement_timeout=10000 -c lock_timeout=1000";
/// Most rows of one answer: a larger catalog is not read.
const MOST: usize = 1_000_000;

/// Rows of text.
pub(super) type Rows = Vec<SimpleQueryRow>;

/// The base of every session's path, before ours is set; and then the names as definitions have them: all qualified.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SELECT s.reset_val, s.source FROM pg_catalog.pg_settings s WHERE s.name = 'search_path'; \
    SET LOCAL search_path TO pg_catalog";

/// What is watched for changes: the catalog, what tells its rows apart, and which of them count. 16384 is the first oid that is not
/// PostgreSQL's own. Objects of other sessions (temporary ones) come and go all the time.
const WATCHED: &[(&str, &str, &str)] = &[
    ("pg_namespace", "oid", "nspname !~ '^pg_(toast_)?temp_'"),
    ("pg_class", "oid", "oid >= 16384 AND relpersistence <> 't' AND relkind IN ('r','p','v','m','f','S','c')"),
    ("pg_inherits", "inhrelid", "inhrelid >= 16384"),
    ("pg_rewrite", "oid", "oid >= 16384"),
    ("pg_policy", "oid", "true"),
    ("pg_proc", "oid", "oid >= 16384"),
    ("pg_operator", "oid", "oid >= 16384"),
    ("pg_cast", "oid", "oid >= 16384"),
    ("pg_amproc", "oid", "oid >= 16384"),
    ("pg_amop", "oid", "oid >= 16384"),
    ("pg_constraint", "oid", "contypid <> 0 AND oid >= 16384"),
    ("pg_type", "oid", "oid >= 16384 AND typtype = 'd'"),
    DEFAULTS,
];

/// What ALTER ROLE and ALTER DATABASE have set: as much of it as this database's sessions begin with.
const DEFAULTS: (&str, &str, &str) = (
    "pg_db_role_setting",
    "concat(setrole, '.', setdatabase)",
    "setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))",
);

/// Questions about everything that has a name.
const SCHEMAS: &str = "SELECT n.nspname, r.rolname, a.grantee = 0 FROM pg_namespace n, \
    LATERAL (SELECT x.grantee FROM aclexplode(COALESCE(n.nspacl, acldefault('n', n.nspowner))) x WHERE x.privilege_type = 'USAGE' \
      UNION SELECT n.nspowner) a LEFT JOIN pg_roles r ON r.oid = a.grantee \
    WHERE n.nspname !~ '^pg_(toast$|toast_temp_|temp_)'";
const SUPERUSERS: &str = "SELECT rolname FROM pg_roles WHERE rolsuper";
const RELATIONS: &str = "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, w.xmin \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    LEFT JOIN pg_rewrite w ON w.ev_class = c.oid AND w.rulename = '_RETURN' AND c.relkind = 'v' \
    WHERE c.relkind IN ('r','p','v','m','f','S') AND c.relpersistence <> 't' AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast'";
const INHERITANCE: &str = "SELECT i.inhparent, i.inhrelid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
    WHERE c.relkind IN ('r','p','f') AND c.relpersistence <> 't'";
const POLICIES: &str = "SELECT p.polrelid, pg_get_expr(p.polqual, p.polrelid) FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid \
    WHERE c.relrowsecurity AND p.polcmd IN ('r','*') AND p.polqual IS NOT NULL";
const FUNCTIONS: &str = "SELECT p.oid, n.nspname, p.proname, p.prokind, p.provolatile, l.lanname, l.lanpltrusted, p.xmin, \
      (SELECT substr(c, 13) FROM unnest(p.proconfig) c WHERE c LIKE 'search\\_path=%' LIMIT 1), \
      p.pronargs >= 1 AND p.pronargs - p.pronargdefaults <= 1 AND t.typtype IN ('c','p'), p.proargdefaults IS NOT NULL, p.prosecdef, \
      p.pronargs >= 1 AND p.pronargs - p.pronargdefaults <= 1 \
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang \
    LEFT JOIN pg_type t ON t.oid = p.proargtypes[0] \
    WHERE p.oid >= 16384 AND n.nspname !~ '^pg_temp_'";
/// Of PostgreSQL's own functions only what they are called, since a call may give their number. They stay what they are while a server
/// lives, and are three thousand.
const BUILT_IN: &str = "SELECT p.oid, n.nspname, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid < 16384";
const AGGREGATES: &str = "SELECT a.aggfnoid::oid, n.nspname, f.proname FROM pg_aggregate a, \
    LATERAL unnest(ARRAY[a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, \
      a.aggmfinalfn]::oid[]) x(oid) JOIN pg_proc f ON f.oid = x.oid JOIN pg_namespace n ON n.oid = f.pronamespace \
    WHERE a.aggfnoid::oid >= 16384";
const OPERATORS: &str = "SELECT n.nspname, o.oprname, m.nspname, f.proname FROM pg_operator o \
    JOIN pg_namespace n ON n.oid = o.oprnamespace JOIN pg_proc f ON f.oid = o.oprcode JOIN pg_namespace m ON m.oid = f.pronamespace \
    WHERE o.oid >= 16384";
/// A cast to a domain, a row or an array is one to the types in it, too.
const CASTS: &str = "WITH RECURSIVE parts(oid, part) AS MATERIALIZED (\
      SELECT oid, typbasetype FROM pg_type WHERE typbasetype <> 0 UNION ALL SELECT oid, typelem FROM pg_type WHERE typelem <> 0 \
      UNION ALL SELECT c.reltype, a.atttypid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
        WHERE c.reltype <> 0 AND a.attnum > 0 AND a.atttypid <> 0), \
    holds(oid, target) AS (\
      SELECT casttarget, casttarget FROM pg_cast WHERE oid >= 16384 AND castfunc <> 0 \
      UNION SELECT p.oid, h.target FROM holds h JOIN parts p ON p.part = h.oid) \
    SELECT DISTINCT t.typname, k.castcontext, m.nspname, f.proname FROM pg_cast k JOIN holds h ON h.target = k.casttarget \
    JOIN pg_type t ON t.oid = h.oid JOIN pg_proc f ON f.oid = k.castfunc JOIN pg_namespace m ON m.oid = f.pronamespace WHERE k.oid >= 16384";
const SUPPORT: &str = "SELECT m.nspname, f.proname FROM pg_proc f JOIN pg_namespace m ON m.oid = f.pronamespace WHERE f.oid >= 16384 AND f.oid IN (\
    SELECT a.amproc::oid FROM pg_amproc a UNION ALL SELECT o.oprcode::oid FROM pg_amop a JOIN pg_operator o ON o.oid = a.amopopr)";
const CHECKS: &str = "SELECT pg_get_expr(k.conbin, 0) FROM pg_constraint k WHERE k.contypid <> 0 AND k.oid >= 16384 AND k.conbin IS NOT NULL";
const PATHS: &str = "SELECT r.rolname, s.setdatabase <> 0, substr(c, 13) FROM pg_db_role_setting s \
    LEFT JOIN pg_roles r ON r.oid = s.setrole, LATERAL unnest(s.setconfig) c \
    WHERE c LIKE 'search\\_path=%' AND (s.setrole = 0 OR r.rolname IS NOT NULL) \
    AND (s.setdatabase = 0 OR s.setdatabase = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))";

/// Everything that has a name, one row each.
pub(super) struct Names {
    pub(super) schemas: Rows,
    pub(super) superusers: Rows,
    pub(super) relations: Rows,
    pub(super) inheritance: Rows,
    pub(super) policies: Rows,
    pub(super) functions: Rows,
    pub(super) aggregates: Rows,
    pub(super) operators: Rows,
    pub(super) casts: Rows,
    pub(super) support: Rows,
    pub(super) checks: Rows,
    pub(super) paths: Rows,
}

/// A transaction on a server. If it is not ended, its connection is not to be used any more.
pub(super) struct Reading<'l> {
    link: &'l Link,
    /// Differs when anything has changed.
    pub(super) fingerprint: String,
    /// Differs when sessions begin with other settings.
    pub(super) defaults: String,
    /// The server's own `search_path`; `None`: not known.
    pub(super) base: Option<String>,
}

impl<'l> Reading<'l> {
    /// Begins, and looks whether anything has changed.
    pub(super) async fn begin(link: &'l Link) -> Result<Self, LinkError> {
        let begun = ask(link, BEGIN).await?;
        let row = begun.first().ok_or(LinkError::Nonsense("no search_path"))?;
        let (value, source) = (text(row, 0), text(row, 1));
        // Of the role that we are here, or of the role in this database: it says nothing about others.
        let base = (!source.contains("user")).then(|| value.to_owned());
        let count = |(catalog, key, counts): &(&str, &str, &str)| {
            format!(
                "(SELECT concat(count(*), '/', sum(hashtext(concat(xmin, '.', {key}))::int8)) FROM {catalog} WHERE {counts})"
            )
        };
        let watched: Vec<String> = WATCHED.iter().map(count).collect();
        let question = format!(
            "SELECT concat_ws(' ', {}, \
             (SELECT concat(count(*), '/', sum(hashtext(concat(rolname, rolsuper))::int8)) FROM pg_roles)), {}",
            watched.join(", "),
            count(&DEFAULTS)
        );
        let counted = ask(link, &question).await?;
        let row = counted.first().ok_or(LinkError::Nonsense("no fingerprint"))?;
        let (counted, defaults) = (text(row, 0), text(row, 1).to_owned());
        Ok(Self { link, fingerprint: format!("{value} {source} {counted}"), defaults, base })
    }

    /// Asks for everything that has a name.
    pub(super) async fn names(&self) -> Result<Names, LinkError> {
        let link = self.link;
        Ok(Names {
            schemas: ask(link, SCHEMAS).await?,
            superusers: ask(link, SUPERUSERS).await?,
            relations: ask(link, RELATIONS).await?,
            inheritance: ask(link, INHERITANCE).await?,
            policies: ask(link, POLICIES).await?,
            functions: ask(link, FUNCTIONS).await?,
            aggregates: ask(link, AGGREGATES).await?,
            operators: ask(link, OPERATORS).await?,
            casts: ask(link, CASTS).await?,
            support: ask(link, SUPPORT).await?,
            checks: ask(link, CHECKS).await?,
            paths: ask(link, PATHS).await?,
        })
    }

    /// Rows of oid, schema and name.
    pub(super) async fn built_in(&self) -> Result<Rows, LinkError> {
        ask(self.link, BUILT_IN).await
    }

    /// Rows of oid and query.
    pub(super) async fn views(&self, oids: &[u32]) -> Result<Rows, LinkError> {
        self.of("SELECT c.oid, pg_get_viewdef(c.oid) FROM pg_class c WHERE c.oid", oids).await
    }

    /// Rows of oid, source, standard body and defaults.
    pub(super) async fn bodies(&self, oids: &[u32]) -> Result<Rows, LinkError> {
        let question = "SELECT p.oid, p.prosrc, pg_get_function_sqlbody(p.oid), pg_get_expr(p.proargdefaults, 0) FROM pg_proc p WHERE p.oid";
        self.of(question, oids).await
    }

    async fn of(&self, question: &str, oids: &[u32]) -> Result<Rows, LinkError> {
        if oids.is_empty() {
            return Ok(Rows::new());
        }
        let list: Vec<String> = oids.iter().map(u32::to_string).collect();
        ask(self.link, &format!("{question} = ANY ('{{{}}}'::oid[])", list.join(","))).await
    }

    /// Ends it.
    pub(super) async fn end(self) -> Result<(), LinkError> {
        ask(self.link, "COMMIT").await.map(|_| ())
    }
}

async fn ask(link: &Link, sql: &str) -> Result<Rows, LinkError> {
    let rows = timeout(DEADLINE, link.rows(sql)).await.map_err(|_| LinkError::Deadline(DEADLINE))??;
    if rows.len() > MOST { Err(LinkError::Nonsense("the catalog is too large")) } else { Ok(rows) }
}

/// A column; `None` if it is NULL.
pub(super) fn value(row: &SimpleQueryRow, column: usize) -> Option<&str> {
    row.try_get(column).ok().flatten()
}

/// The same; empty if it is NULL.
pub(super) fn text(row: &SimpleQueryRow, column: usize) -> &str {
    value(row, column).unwrap_or_default()
}
