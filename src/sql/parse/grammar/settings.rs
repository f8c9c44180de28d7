//! SET in all its spellings, set_config(), SHOW, and the options of transactions and EXPLAIN.

use pg_query::{
    Node, NodeEnum,
    protobuf::{self, DefElem, TypeName, VariableSetKind, VariableSetStmt, a_const::Val},
};

use super::{
    relations,
    walk::{Walk, qualified},
};
use crate::sql::facts::{Effect, Isolation, Kind, PrimaryReason, TxOptions, TxVerb, Verb};

/// Stands for a parameter whose name is computed.
pub(super) const COMPUTED: &str = "*";

/// SET and RESET.
pub(super) fn set(walk: &mut Walk<'_>, set: &VariableSetStmt) -> (Verb, Kind) {
    let name = set.name.to_ascii_lowercase();
    match VariableSetKind::try_from(set.kind) {
        Ok(VariableSetKind::VarSetMulti) => return set_many(walk, &name, set),
        Ok(VariableSetKind::VarResetAll) => {
            walk.acts.parameter("all");
            walk.must(PrimaryReason::SessionState);
            walk.effect(Effect::ResetAll);
            return (Verb::Reset, Kind::Session);
        }
        Ok(
            VariableSetKind::VarSetValue
            | VariableSetKind::VarSetDefault
            | VariableSetKind::VarSetCurrent
            | VariableSetKind::VarReset
            | VariableSetKind::Undefined,
        )
        | Err(_) => {}
    }
    walk.acts.parameter(&name);
    let reset = set.kind == VariableSetKind::VarReset as i32;
    let verb = if reset { Verb::Reset } else { Verb::Set };
    let value = set.args.first().and_then(constant);
    if let Some(options) = of_transaction(&name, value.as_deref()) {
        walk.must(PrimaryReason::TransactionControl);
        walk.by_literals();
        walk.transaction(TxVerb::SetTransaction(options));
        return (verb, Kind::Transaction);
    }
    walk.must(PrimaryReason::SessionState);
    if name == "seed" {
        // Not a value that could be carried to another server: it starts a sequence of random numbers in this one.
        walk.effect(Effect::SessionValue);
        return (verb, Kind::Session);
    }
    let default = reset || set.kind == VariableSetKind::VarSetDefault as i32;
    walk.effect(if default && !set.is_local {
        Effect::ResetParameter(name.into())
    } else {
        Effect::SetParameter { name: name.into(), local: set.is_local }
    });
    (verb, Kind::Session)
}

/// SET TRANSACTION …, SET SESSION CHARACTERISTICS AS TRANSACTION …, SET TRANSACTION SNAPSHOT '…'.
fn set_many(walk: &mut Walk<'_>, name: &str, set: &VariableSetStmt) -> (Verb, Kind) {
    match name {
        "session characteristics" => {
            walk.must(PrimaryReason::SessionState);
            for option in set.args.iter().filter_map(option) {
                let name = format!("default_{}", option.defname);
                walk.acts.parameter(&name);
                walk.effect(Effect::SetParameter { name: name.into(), local: false });
            }
            (Verb::Set, Kind::Session)
        }
        "transaction snapshot" => {
            walk.must(PrimaryReason::TransactionControl);
            walk.transaction(TxVerb::SetSnapshot);
            (Verb::SetTransaction, Kind::Transaction)
        }
        "transaction" => {
            for option in set.args.iter().filter_map(option) {
                walk.acts.parameter(&option.defname);
            }
            walk.must(PrimaryReason::TransactionControl);
            walk.transaction(TxVerb::SetTransaction(transaction_options(&set.args)));
            (Verb::SetTransaction, Kind::Transaction)
        }
        _ => {
            walk.acts.parameter(COMPUTED);
            walk.must(PrimaryReason::SessionState);
            walk.effect(Effect::SetUnknownParameter);
            (Verb::Set, Kind::Session)
        }
    }
}

/// A parameter that is a property of the running transaction. A value that is not understood is taken for the one that
/// asks for more: READ WRITE, SERIALIZABLE.
fn of_transaction(name: &str, value: Option<&str>) -> Option<TxOptions> {
    let mut options = TxOptions::default();
    match name {
        "transaction_read_only" => options.read_only = Some(value.and_then(boolean).unwrap_or(false)),
        "transaction_deferrable" => options.deferrable = Some(value.and_then(boolean).unwrap_or(false)),
        "transaction_isolation" => {
            options.isolation = Some(value.and_then(isolation).unwrap_or(Isolation::Serializable));
        }
        _ => return None,
    }
    Some(options)
}

/// Options of BEGIN, START TRANSACTION and SET TRANSACTION; the last one counts.
pub(super) fn transaction_options(options: &[Node]) -> TxOptions {
    let mut all = TxOptions::default();
    for one in options.iter().filter_map(option) {
        let value = one.arg.as_deref().and_then(constant);
        let Some(said) = of_transaction(&one.defname, value.as_deref()) else { continue };
        all.read_only = said.read_only.or(all.read_only);
        all.isolation = said.isolation.or(all.isolation);
        all.deferrable = said.deferrable.or(all.deferrable);
    }
    all
}

/// SHOW: parameters follow the client, so any server can answer, except for those that belong to the server.
pub(super) fn show(walk: &mut Walk<'_>, name: &str) {
    if relations::is_node_parameter(&name.to_ascii_lowercase()) {
        walk.must(PrimaryReason::NodeLocal);
    }
}

/// current_setting(name [, missing_ok]): SHOW as a function.
pub(super) fn reads_parameter(walk: &mut Walk<'_>, call: &protobuf::FuncCall) {
    match call.args.first().and_then(constant) {
        Some(name) => {
            walk.by_literals();
            show(walk, &name);
        }
        None => walk.must(PrimaryReason::NodeLocal),
    }
}

/// set_config(name, value, is_local): SET as a function.
pub(super) fn sets_parameter(walk: &mut Walk<'_>, call: &protobuf::FuncCall) {
    walk.by_literals();
    let name = call.args.first().and_then(constant).map(|name| name.to_ascii_lowercase());
    walk.acts.parameter(name.as_deref().unwrap_or(COMPUTED));
    let [_, value, local] = call.args.as_slice() else { return walk.effect(Effect::SetUnknownParameter) };
    let local = constant(local).as_deref().and_then(boolean);
    let (Some(name), Some(local)) = (name, local) else { return walk.effect(Effect::SetUnknownParameter) };
    if let Some(options) = of_transaction(&name, constant(value).as_deref()) {
        return walk.transaction(TxVerb::SetTransaction(options));
    }
    walk.effect(Effect::SetParameter { name: name.into(), local });
}

/// The option of a list of options.
pub(super) fn option(node: &Node) -> Option<&DefElem> {
    match node.node.as_ref()? {
        NodeEnum::DefElem(option) => Some(option),
        _ => None,
    }
}

/// An option that is on or off; without a value it is on. `None`: neither.
pub(super) fn switch(walk: &mut Walk<'_>, option: &DefElem) -> Option<bool> {
    let Some(value) = option.arg.as_deref() else { return Some(true) };
    walk.by_literals();
    boolean(&constant(value)?)
}

/// Is an option of that name there?
pub(super) fn has(options: &[Node], name: &str) -> bool {
    options.iter().filter_map(option).any(|one| one.defname == name)
}

/// Is an option of that name there, and on? (SECURITY DEFINER is `security` on.)
pub(super) fn is_on(options: &[Node], name: &str) -> bool {
    let value = |one: &DefElem| one.arg.as_deref().and_then(constant).as_deref().and_then(boolean);
    options.iter().filter_map(option).any(|one| one.defname == name && value(one) == Some(true))
}

/// The text of a literal, through casts that leave it as it is; `None` for NULL and for anything that is no literal.
pub(super) fn constant(node: &Node) -> Option<String> {
    match node.node.as_ref()? {
        NodeEnum::AConst(literal) => match literal.val.as_ref()? {
            Val::Ival(n) => Some(n.ival.to_string()),
            Val::Fval(n) => Some(n.fval.clone()),
            Val::Boolval(b) => Some(b.boolval.to_string()),
            Val::Sval(s) => Some(s.sval.clone()),
            Val::Bsval(_) => None,
        },
        NodeEnum::String(s) => Some(s.sval.clone()),
        NodeEnum::Integer(n) => Some(n.ival.to_string()),
        NodeEnum::Boolean(b) => Some(b.boolval.to_string()),
        NodeEnum::TypeCast(cast) if keeps_text(cast.type_name.as_ref()?) => constant(cast.arg.as_deref()?),
        _ => None,
    }
}

/// Is a literal of this type what stands in the text? `'roleX'::varchar(4)` is not, nor is what a type of somebody's own makes of it.
fn keeps_text(of: &TypeName) -> bool {
    let (schema, name) = qualified(&of.names);
    matches!(schema, "" | "pg_catalog")
        && matches!(name, "text" | "varchar" | "bool" | "int2" | "int4" | "int8")
        && of.typmods.is_empty()
        && of.array_bounds.is_empty()
}

/// What PostgreSQL's parse_bool takes: any unambiguous beginning of true, false, yes, no, on, off, or 1 and 0.
pub(super) fn boolean(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    if text.is_empty() {
        return None;
    }
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || text == "1" {
        Some(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

fn isolation(text: &str) -> Option<Isolation> {
    match text.to_ascii_lowercase().as_str() {
        "serializable" => Some(Isolation::Serializable),
        "repeatable read" => Some(Isolation::RepeatableRead),
        "read committed" => Some(Isolation::ReadCommitted),
        "read uncommitted" => Some(Isolation::ReadUncommitted),
        _ => None,
    }
}
