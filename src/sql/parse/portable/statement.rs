//! What each kind of statement is. Whatever is no query, no change of data and no transaction control is only named.

use sqlparser::ast::{
    CopySource, CopyTarget, SetExpr, Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};

use super::{ANY, Found, tokens::Script};
use crate::sql::{
    facts::{Effect, Isolation, Kind, Marks, PrimaryReason, TxOptions, TxVerb, Verb},
    parse::relations,
};

impl Found {
    /// One statement of the text.
    pub(super) fn statement(&mut self, statement: &Statement, script: &Script<'_>, index: usize) -> (Verb, Kind) {
        match statement {
            Statement::Query(query) => {
                let at = self.acts.len();
                self.walk(statement);
                let verb = match (&*query.body, script.words(index).first().map(String::as_str)) {
                    (SetExpr::Insert(_), _) => Verb::Insert,
                    (SetExpr::Update(_), _) => Verb::Update,
                    (SetExpr::Delete(_), _) => Verb::Delete,
                    (SetExpr::Merge(_), _) => Verb::Merge,
                    (SetExpr::Values(_), _) => Verb::Values,
                    (_, Some("table")) => Verb::Table,
                    _ => Verb::Select,
                };
                if let Some(act) = self.acts.get_mut(at) {
                    act.verb = verb;
                }
                let changes = self.primary == Some(PrimaryReason::Writes);
                (verb, if changes { Kind::Write } else { Kind::Read })
            }
            Statement::Insert(_) => self.change(statement, Verb::Insert),
            Statement::Update(_) => self.change(statement, Verb::Update),
            Statement::Delete(_) => self.change(statement, Verb::Delete),
            Statement::Merge(_) => self.change(statement, Verb::Merge),
            Statement::Explain { analyze: _, statement, options: None, .. } => {
                self.act(Verb::Explain);
                let (_, kind) = self.statement(statement, script, index);
                if !matches!(**statement, Statement::Query(_)) {
                    self.opaque(PrimaryReason::Writes);
                }
                (Verb::Explain, kind)
            }
            Statement::Copy { source, to, target, .. } => self.copy(source, *to, target),
            _ => match transaction(statement) {
                Some((verb, does)) => {
                    self.act(verb);
                    self.must(PrimaryReason::TransactionControl);
                    self.tx.push(does);
                    (verb, Kind::Transaction)
                }
                None => self.named(&script.words(index)),
            },
        }
    }

    fn change(&mut self, statement: &Statement, verb: Verb) -> (Verb, Kind) {
        self.must(PrimaryReason::Writes);
        self.walk(statement);
        (verb, Kind::Write)
    }

    fn copy(&mut self, source: &CopySource, to: bool, target: &CopyTarget) -> (Verb, Kind) {
        let verb = if to { Verb::CopyTo } else { Verb::CopyFrom };
        let act = self.act(verb);
        match target {
            CopyTarget::File { .. } => act.marks |= Marks::COPY_FILE,
            CopyTarget::Program { .. } => act.marks |= Marks::COPY_PROGRAM,
            CopyTarget::Stdin | CopyTarget::Stdout => {}
        }
        match source {
            CopySource::Query(query) => self.walk(&Statement::Query(query.clone())),
            CopySource::Table { table_name, .. } => {
                let name = super::tree::named(table_name);
                let place = if to { &mut self.reads } else { &mut self.writes };
                place.extend(name);
            }
        }
        self.opaque(if to { PrimaryReason::Utility } else { PrimaryReason::Writes });
        (verb, Kind::Copy)
    }

    /// By its words alone: what is in it is not known.
    fn named(&mut self, words: &[String]) -> (Verb, Kind) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let ["show", parameter] = words.as_slice() {
            self.act(Verb::Show);
            if relations::is_node_parameter(parameter) {
                self.must(PrimaryReason::NodeLocal);
            }
            return (Verb::Show, Kind::Session);
        }
        let (verb, kind) = match words.as_slice() {
            ["create", ..] => (Verb::Create, Kind::Ddl),
            ["alter", ..] => (Verb::Alter, Kind::Ddl),
            ["drop", ..] => (Verb::Drop, Kind::Ddl),
            ["grant", ..] => (Verb::Grant, Kind::Ddl),
            ["revoke", ..] => (Verb::Revoke, Kind::Ddl),
            ["comment", ..] => (Verb::Comment, Kind::Ddl),
            ["truncate", ..] => (Verb::Truncate, Kind::Write),
            ["call", ..] => (Verb::Call, Kind::Write),
            ["do", ..] => (Verb::Do, Kind::Write),
            ["set", "transaction", ..] | ["set", "local" | "session", "transaction", ..] => {
                (Verb::SetTransaction, Kind::Transaction)
            }
            ["set", ..] => (Verb::Set, Kind::Session),
            ["reset", ..] => (Verb::Reset, Kind::Session),
            ["show", ..] => (Verb::Show, Kind::Session),
            ["discard", ..] => (Verb::Discard, Kind::Session),
            ["prepare", ..] => (Verb::Prepare, Kind::Session),
            ["execute", ..] => (Verb::Execute, Kind::Session),
            ["deallocate", ..] => (Verb::Deallocate, Kind::Session),
            ["declare", ..] => (Verb::Declare, Kind::Session),
            ["fetch", ..] => (Verb::Fetch, Kind::Session),
            ["move", ..] => (Verb::Move, Kind::Session),
            ["close", ..] => (Verb::Close, Kind::Session),
            ["listen", ..] => (Verb::Listen, Kind::Session),
            ["unlisten", ..] => (Verb::Unlisten, Kind::Session),
            ["notify", ..] => (Verb::Notify, Kind::Utility),
            ["lock", ..] => (Verb::Lock, Kind::Utility),
            ["vacuum", ..] => (Verb::Vacuum, Kind::Utility),
            ["analyze", ..] => (Verb::Analyze, Kind::Utility),
            ["reindex", ..] => (Verb::Reindex, Kind::Utility),
            ["refresh", ..] => (Verb::Refresh, Kind::Utility),
            ["explain", ..] => (Verb::Explain, Kind::Unknown),
            _ => (Verb::Other, Kind::Unknown),
        };
        let act = self.act(verb);
        act.object = object(&words);
        match words.as_slice() {
            ["set" | "reset", rest @ ..] => act.parameters = [parameter(rest).into()].into(),
            ["alter", ..] => act.parameters = [ANY.into()].into(),
            _ => {}
        }
        // Statements may be inside of it.
        let closed = matches!(kind, Kind::Transaction | Kind::Utility)
            || matches!(verb, Verb::Grant | Verb::Revoke | Verb::Comment | Verb::Truncate | Verb::Drop)
            || matches!(verb, Verb::Set | Verb::Reset | Verb::Show | Verb::Discard | Verb::Deallocate)
            || matches!(verb, Verb::Fetch | Verb::Move | Verb::Close | Verb::Listen | Verb::Unlisten);
        if !closed {
            self.act(Verb::Unknown);
        }
        let reason = match kind {
            Kind::Session => PrimaryReason::SessionState,
            Kind::Transaction => PrimaryReason::TransactionControl,
            Kind::Utility => PrimaryReason::Utility,
            _ => PrimaryReason::Writes,
        };
        self.must(reason);
        self.effects.push(Effect::OpaqueCode);
        (verb, kind)
    }
}

/// The kind of object that CREATE and its like are about.
fn object(words: &[&str]) -> Option<&'static str> {
    const KINDS: [&str; 22] = [
        "table",
        "view",
        "index",
        "sequence",
        "schema",
        "extension",
        "role",
        "user",
        "group",
        "database",
        "type",
        "domain",
        "function",
        "procedure",
        "aggregate",
        "operator",
        "trigger",
        "policy",
        "publication",
        "subscription",
        "server",
        "system",
    ];
    let verb = ["create", "alter", "drop", "comment", "truncate"].contains(words.first()?);
    let found = words.iter().skip(1).find_map(|word| KINDS.iter().find(|kind| *kind == word))?;
    match *found {
        _ if !verb => None,
        "user" | "group" => Some("role"),
        other => Some(other),
    }
}

/// The parameter of SET and RESET.
fn parameter<'w>(words: &[&'w str]) -> &'w str {
    match words {
        ["session", "authorization", ..] => "session_authorization",
        ["session" | "local", rest @ ..] if !matches!(rest, ["characteristics", ..]) => parameter(rest),
        ["time", "zone", ..] => "timezone",
        ["role", ..] => "role",
        [name, "=" | "to", ..] | [name] => name.trim_matches('"'),
        _ => ANY,
    }
}

fn transaction(statement: &Statement) -> Option<(Verb, TxVerb)> {
    Some(match statement {
        Statement::StartTransaction { modes, begin, modifier: None, statements, exception: None, .. }
            if statements.is_empty() =>
        {
            (Verb::Begin, TxVerb::Begin { options: options(modes)?, start: !begin })
        }
        Statement::Commit { chain, modifier: None, .. } => (Verb::Commit, TxVerb::Commit { chain: *chain }),
        Statement::Rollback { chain, savepoint: None } => (Verb::Rollback, TxVerb::Rollback { chain: *chain }),
        Statement::Rollback { savepoint: Some(_), .. } => (Verb::RollbackToSavepoint, TxVerb::RollbackTo),
        Statement::Savepoint { .. } => (Verb::Savepoint, TxVerb::Savepoint),
        Statement::ReleaseSavepoint { .. } => (Verb::ReleaseSavepoint, TxVerb::Release),
        _ => return None,
    })
}

fn options(modes: &[TransactionMode]) -> Option<TxOptions> {
    let mut options = TxOptions::default();
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(access) => {
                options.read_only = Some(matches!(access, TransactionAccessMode::ReadOnly));
            }
            TransactionMode::IsolationLevel(level) => {
                options.isolation = Some(match level {
                    TransactionIsolationLevel::ReadUncommitted => Isolation::ReadUncommitted,
                    TransactionIsolationLevel::ReadCommitted => Isolation::ReadCommitted,
                    TransactionIsolationLevel::RepeatableRead => Isolation::RepeatableRead,
                    TransactionIsolationLevel::Serializable => Isolation::Serializable,
                    TransactionIsolationLevel::Snapshot => return None,
                });
            }
        }
    }
    Some(options)
}
