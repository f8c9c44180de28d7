//! `SHOW pgsluice.route`: where the session's previous statement went, and why.

use std::{rc::Rc, time::Duration};

use super::worker::Tenant;
use crate::{
    policy::Verdict,
    route::{Role, RouteReason},
    wire::backend,
};

/// The last statement's way.
#[derive(Clone, Debug, Default)]
pub(super) struct LastRoute {
    /// Index of the node; `None`: nothing has gone to one yet.
    pub node: Option<usize>,
    pub role: Option<Role>,
    /// It went nowhere.
    pub refused: bool,
    pub reason: Option<RouteReason>,
    pub waited: Duration,
    pub pinned: Option<&'static str>,
    /// What the rules said, if anything.
    pub verdict: Option<Rc<Verdict>>,
}

/// The columns of `SHOW pgsluice.route`.
pub(super) const ROUTE_COLUMNS: [&str; 9] =
    ["node", "role", "route", "reason", "rule", "cache", "cache_reason", "waited_us", "pinned"];

impl LastRoute {
    /// The row, as text.
    pub(super) fn write_row(&self, tenant: &Rc<Tenant>, out: &mut Vec<u8>) {
        let here = !self.refused;
        let node = self.node.filter(|_| here).and_then(|i| tenant.database.nodes.get(i)).map(|n| n.name.as_str());
        let waited = self.waited.as_micros().to_string();
        let role = self.role.filter(|_| here).map(Role::as_str);
        let route = match (self.node.filter(|_| here), self.reason) {
            (_, None) => None,
            (None, Some(_)) => Some("refused"),
            (Some(_), Some(RouteReason::InTransaction)) => Some("held"),
            (Some(_), Some(_)) => role,
        };
        let columns = [
            node,
            role,
            route,
            self.reason.map(RouteReason::as_str),
            self.verdict.as_ref().and_then(|verdict| verdict.decided_by()),
            Some("off"),
            None,
            Some(waited.as_str()),
            self.pinned,
        ];
        backend::data_row(out, &columns.map(|c| c.map(str::as_bytes)));
    }
}
