//! Keys whose time has not come: refused if they ask for something, told of if they mean nothing yet.

use super::{
    check,
    fault::{At, Findings},
    raw,
    words::Invalidation,
};

/// Tells of keys that belong to something this version leaves off: they are accepted and mean nothing yet.
pub(super) fn idle(raw: &raw::Raw, findings: &mut Findings) {
    let mut idle = |given: bool, at: &At| {
        if given {
            findings.warn(at, format!("`{}` has no effect in this version", at.path));
        }
    };
    for (_, database) in &raw.databases.value.0 {
        let cache = &database.cache.value;
        idle(cache.memory.is_given(), &cache.memory.at);
        idle(cache.max_result.is_given(), &cache.max_result.at);
    }
}

/// Refuses what a later version will do: a key that is accepted and then ignored would be a promise broken in silence.
pub(super) fn unsupported(raw: &raw::Raw, findings: &mut Findings) {
    let mut refuse = |asked: bool, at: &At, allowed: &str| {
        if asked {
            let message = format!("`{}` is not supported by this version with this value", at.path);
            findings.fault(at, message, allowed);
        }
    };
    for (_, database) in &raw.databases.value.0 {
        let cache = &database.cache.value;
        refuse(cache.enabled.value, &cache.enabled.at, "false");
        refuse(cache.invalidation.value != Invalidation::Statements, &cache.invalidation.at, "statements");
        let consistency = &database.routing.value.consistency;
        refuse(check::consistency(consistency.value).is_none(), &consistency.at, "off, session");
    }
}
