//! Rule files as they are written: every key once, with its meaning and type. The reader and the JSON Schema come from these lists.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{
    glob::{Glob, NameGlob},
    words::{CopyPeer, FirewallMode, KindWord, OBJECTS, Presence, RouteTo, Share, StatementCount, StatementWord},
};
use crate::config::{
    MaxLag,
    fault::Findings,
    hba::Range,
    section::section,
    tree::Tree,
    value::{Bytes, Count, Named, OneOrMany, Spanned, Value, scalar},
};

/// Bytes from nothing to everything.
type AnySize = Bytes<1, { u64::MAX }>;
/// A number of rows.
type Rows = Count<1, { u32::MAX }>;

/// A section that is a rule: what all rules have, with what this kind does between.
macro_rules! rule {
    ($(#[doc = $about:literal])+ $name:ident, $examples:ty { $($own:tt)+ }) => {
        section! {
            $(#[doc = $about])+
            $name {
                /// Unique in its section
                name: String = "''", required;
                /// What it is about; all must hold, a list means any of
                when: RawWhen = "{}", filled;
                $($own)+
                /// Try the rules after this one too
                r#continue: bool = "false";
                /// Count and log only
                dry_run: bool = "false";
                /// Run when the file is read, and by pgsluice test
                examples: $examples = "{}";
            }
        }

        impl RawRule for $name {
            type Examples = $examples;

            fn common(&self) -> Common<'_, $examples> {
                Common {
                    name: &self.name,
                    when: &self.when,
                    continues: self.r#continue.value,
                    dry_run: self.dry_run.value,
                    examples: &self.examples.value,
                }
            }
        }
    };
}

/// What all rules have.
pub(super) struct Common<'r, E> {
    pub(super) name: &'r Spanned<String>,
    pub(super) when: &'r Spanned<RawWhen>,
    pub(super) continues: bool,
    pub(super) dry_run: bool,
    pub(super) examples: &'r E,
}

/// A rule of any section, as it is written.
pub(super) trait RawRule {
    type Examples;

    fn common(&self) -> Common<'_, Self::Examples>;
}

section! {
    /// A rule file of pgsluice.
    RawRuleFile {
        /// What is refused
        firewall: Vec<RawFirewallRule> = "[]";
        /// Where statements go
        routing: Vec<RawRoutingRule> = "[]";
        /// What the catalog can not tell of functions
        functions: Vec<RawFunction> = "[]";
        /// What is remembered
        cache: Vec<RawCacheRule> = "[]";
        /// What is changed
        rewrite: Vec<RawRewriteRule> = "[]";
    }
}

rule! {
    /// What is refused. The first rule that matches decides, unless it says `continue: true`.
    RawFirewallRule, RawExamples {
        /// It is refused, with this error
        deny: Option<RawDeny> = "null";
        /// Instead of deny: its result may be so long
        limit: Option<RawLimit> = "null";
        /// off, detect or protect; null: as firewall.mode says
        mode: Option<FirewallMode> = "null";
    }
}

section! {
    /// The error of a refused statement.
    RawDeny {
        /// What the client reads
        message: String = "'statement refused by the SQL firewall'";
        /// Five digits and capital letters
        sqlstate: String = "'42501'";
    }
}

section! {
    /// How much a statement may give.
    RawLimit {
        /// Most rows
        rows: Option<Rows> = "null";
        /// Most bytes of rows
        bytes: Option<AnySize> = "null";
    }
}

rule! {
    /// Where statements go. The first rule that matches decides, unless it says `continue: true`.
    RawRoutingRule, RawExamples {
        /// Where it goes
        route: Option<RawRoute> = "null";
        /// A statement running longer is cancelled; the shortest of all limits counts
        timeout: Option<Duration> = "null";
    }
}

section! {
    /// Where a statement goes.
    RawRoute {
        /// primary or replica; what is not proven to be a read goes to the primary all the same
        to: RouteTo = "primary", required;
        /// Only replicas with one of these tags
        tags: OneOrMany<String> = "[]";
        /// Only replicas that are not further behind; a duration or a size of WAL
        max_lag: Option<MaxLag> = "null";
        /// To a replica even if it is not proven to be a read
        r#unsafe: bool = "false";
    }
}

section! {
    /// What the catalog can not tell of a function.
    RawFunction {
        /// Its name, with or without its schema
        name: String = "''", required;
        /// It changes nothing and is right on any up-to-date replica
        read_only: bool = "false";
        /// Relations it writes
        writes: OneOrMany<String> = "[]";
    }
}

rule! {
    /// What is remembered. Every relation a statement reads must be listed by some rule; the lowest ttl wins.
    RawCacheRule, RawExamples {
        /// For how long, and how much
        cache: Option<RawCaching> = "null", required;
    }
}

section! {
    /// For how long results are remembered, and how much.
    RawCaching {
        /// For how long
        ttl: Duration = "0s", required;
        /// Most rows of a result
        max_rows: Option<Rows> = "null";
        /// Longest result
        max_result: Option<AnySize> = "null";
        /// So long after its end a result may still be served while it is fetched anew
        stale: Option<Duration> = "null";
        /// all, or user: each user has results of its own
        share: Share = "all";
    }
}

rule! {
    /// What is changed. The first rule that matches decides, unless it says `continue: true`; a later one sees what it made.
    RawRewriteRule, RawRewriteExamples {
        /// How it is changed
        rewrite: RawRewrite = "{}", required;
    }
}

section! {
    /// How a statement is changed.
    RawRewrite {
        /// From relation to relation
        rename_table: Named<String> = "{}";
        /// From table.column to column
        rename_column: Named<String> = "{}";
        /// From relation to a condition that every use of it gets
        add_where: Named<String> = "{}";
        /// Unqualified relations are taken from this schema
        qualify_schema: Option<String> = "null";
    }
}

section! {
    /// Statements that a rule must match, and that it must not.
    RawExamples {
        /// It matches these
        r#match: OneOrMany<String> = "[]";
        /// It does not match these
        nomatch: OneOrMany<String> = "[]";
    }
}

section! {
    /// Statements and what becomes of them.
    RawRewriteExamples {
        /// From statement to statement
        rewrite: Named<String> = "{}";
        /// It matches these
        r#match: OneOrMany<String> = "[]";
        /// It does not match these
        nomatch: OneOrMany<String> = "[]";
    }
}

section! {
    /// What a rule is about; all that is said must hold, a list means any of.
    RawWhen {
        /// Login names; globs
        user: Option<OneOrMany<Glob>> = "null", filled;
        /// Databases as clients name them; globs
        database: Option<OneOrMany<Glob>> = "null", filled;
        /// Values of application_name; globs
        application: Option<OneOrMany<Glob>> = "null", filled;
        /// Address blocks of clients; a Unix socket is in none
        client: Option<OneOrMany<Range>> = "null", filled;
        /// Statements; those inside EXPLAIN, PREPARE, COPY, CTEs and readable bodies count
        statement: Option<OneOrMany<StatementWord>> = "null", filled;
        /// What CREATE, ALTER, DROP, GRANT and so on are about: table, view, role, function, extension, system…; globs
        object: Option<OneOrMany<ObjectGlob>> = "null", filled;
        /// The strictest kind among the statements of the text
        kind: Option<OneOrMany<KindWord>> = "null", filled;
        /// Relations read: name in any schema, or schema.name, in double quotes what is no glob or has a dot; globs
        reads: Option<OneOrMany<NameGlob>> = "null", filled;
        /// Relations written; globs
        writes: Option<OneOrMany<NameGlob>> = "null", filled;
        /// Relations read or written; globs
        tables: Option<OneOrMany<NameGlob>> = "null", filled;
        /// Functions called, unquoted names folded as SQL folds them; globs
        functions: Option<OneOrMany<FunctionGlob>> = "null", filled;
        /// Parameters that SET and its kin name; globs
        parameters: Option<OneOrMany<ParameterGlob>> = "null", filled;
        /// present, or missing: absent or always true
        r#where: Option<Presence> = "null", filled;
        /// present or missing, of a SELECT that reads relations
        limit: Option<Presence> = "null", filled;
        /// one or many in a text
        statements: Option<StatementCount> = "null", filled;
        /// Whether a transaction is open
        in_transaction: Option<bool> = "null", filled;
        /// Whether it came by the extended protocol
        prepared: Option<bool> = "null", filled;
        /// Fingerprints, as explain shows them
        shape: Option<OneOrMany<FingerprintWord>> = "null", filled;
        /// A regular expression that finds something in the text without comments: words in lower case, $n for values, one space between tokens but none before ( ) [ ] , ; . :: and none after ( [ . ::
        text: Option<Expression> = "null", filled;
        /// A condition that is always true joined by OR, as in SQL injection
        tautology: Option<bool> = "null", filled;
        /// SELECT * of relations
        star: Option<bool> = "null", filled;
        /// Relations joined without a condition
        cross_join: Option<bool> = "null", filled;
        /// UNION with a system catalog
        union_catalog: Option<bool> = "null", filled;
        /// Reads a system catalog
        catalog: Option<bool> = "null", filled;
        /// Makes or alters a function that runs with its owner's rights
        security_definer: Option<bool> = "null", filled;
        /// COPY with a program or with a file of the server
        copy: Option<OneOrMany<CopyPeer>> = "null", filled;
    }
}

/// 16 hexadecimal digits.
#[derive(Clone, Debug)]
pub(super) struct FingerprintWord(pub(super) Box<str>);

impl Value for FingerprintWord {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        const ALLOWED: &str = "16 hexadecimal digits, as `pgsluice explain` shows them";
        let text = scalar(tree, ALLOWED, findings)?;
        let fits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !fits {
            findings.fault(&tree.at, format!("`{text}` is no fingerprint"), ALLOWED);
        }
        fits.then(|| Self(text.into()))
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" })
    }
}

/// A regular expression.
#[derive(Clone, Debug)]
pub(super) struct Expression(pub(super) regex::Regex);

/// Longest compiled regular expression, in bytes.
const LONGEST_EXPRESSION: usize = 1 << 20;

impl Value for Expression {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        const ALLOWED: &str = "a regular expression; (?i) at its beginning ignores case";
        let text = scalar(tree, ALLOWED, findings)?;
        match regex::RegexBuilder::new(text).size_limit(LONGEST_EXPRESSION).build() {
            Ok(regex) => Some(Self(regex)),
            Err(error) => {
                // The last line says it; those above show the expression, which the excerpt shows, too.
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                findings.fault(&tree.at, format!("this is no regular expression: {why}"), ALLOWED);
                None
            }
        }
    }

    fn schema() -> Json {
        json!({ "type": "string", "format": "regex" })
    }
}

/// Reads a glob of either kind.
fn glob<T>(
    tree: &Tree,
    findings: &mut Findings,
    allowed: &str,
    read: impl Fn(&str) -> Result<T, &'static str>,
) -> Option<T> {
    let text = scalar(tree, allowed, findings)?;
    if text.is_empty() {
        findings.fault(&tree.at, "an empty name matches nothing", allowed);
        return None;
    }
    match read(text) {
        Ok(glob) => Some(glob),
        Err(why) => {
            findings.fault(&tree.at, format!("`{text}` is no glob: {why}"), allowed);
            None
        }
    }
}

impl Value for Glob {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        glob(tree, findings, "a name; * ? [a-z] stand for others", Glob::new)
    }

    fn schema() -> Json {
        json!({ "type": ["string", "number"] })
    }
}

impl Value for NameGlob {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        glob(tree, findings, "name or schema.name; * ? [a-z] stand for others", NameGlob::new)
    }

    fn schema() -> Json {
        json!({ "type": ["string", "number"] })
    }
}

/// A function's name.
#[derive(Clone, Debug)]
pub(super) struct FunctionGlob(pub(super) NameGlob);

impl Value for FunctionGlob {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        glob(tree, findings, "name or schema.name; * ? [a-z] stand for others", NameGlob::folded).map(Self)
    }

    fn schema() -> Json {
        NameGlob::schema()
    }
}

/// A parameter's name, whose case says nothing.
#[derive(Clone, Debug)]
pub(super) struct ParameterGlob(pub(super) Glob);

impl Value for ParameterGlob {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        let read = |text: &str| Glob::new(&text.to_ascii_lowercase());
        glob(tree, findings, "a name; * ? [a-z] stand for others", read).map(Self)
    }

    fn schema() -> Json {
        Glob::schema()
    }
}

/// A kind of object.
#[derive(Clone, Debug)]
pub(super) struct ObjectGlob(pub(super) Glob);

impl Value for ObjectGlob {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        let allowed = OBJECTS.join(", ");
        let read = |text: &str| {
            let glob = Glob::new(&text.to_ascii_lowercase())?;
            let fits = OBJECTS.iter().any(|object| glob.matches(object));
            if fits { Ok(glob) } else { Err("no kind of object is called so") }
        };
        glob(tree, findings, &allowed, read).map(Self)
    }

    fn schema() -> Json {
        Glob::schema()
    }
}

impl Value for Range {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        const ALLOWED: &str = "an address or a block: 10.0.0.0/8, 192.168.1.7, ::1/128";
        let text = scalar(tree, ALLOWED, findings)?;
        let single = || {
            let address: std::net::IpAddr = text.parse().ok()?;
            Self::cidr(&format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 }))
        };
        let range = Self::cidr(text).or_else(single);
        if range.is_none() {
            findings.fault(&tree.at, format!("`{text}` is no address block"), ALLOWED);
        }
        range
    }

    fn schema() -> Json {
        json!({ "type": "string" })
    }
}

/// The items of a list that may not be there, without their places.
pub(super) fn plain<T: Clone>(list: &Spanned<Option<OneOrMany<T>>>) -> Option<Vec<T>> {
    list.value.as_ref().map(|list| list.0.iter().map(|item| item.value.clone()).collect())
}
