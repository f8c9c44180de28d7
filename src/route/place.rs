//! From what a statement needs to the node that gets it.

use std::time::Duration;

use crate::{
    base::NodeId,
    config::{Balance, MaxLag, OnNoReplica, OnTimeout, Reads, Routing},
};

use super::{ClusterView, Dice, Floor, Health, NodeView, Role, RouteReason, Suspicion, balance};

/// Fit replicas looked at in one choice; more nodes than that are legal, but only the first ones are compared.
const MOST_COMPARED: usize = 32;
/// A session compares its usual replica with another one at every so many reads on average.
const RECONSIDER: u64 = 8;

/// What kind of node will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Any fit replica; the primary if there is none and the configuration allows.
    Replica,
    /// The primary only.
    Primary,
}

/// May the read still wait for a replica?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It may, if the configuration says so.
    Left,
    /// It has waited long enough: decide now.
    Spent,
}

/// Nodes that failed this request already. Empty costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Tried(Vec<NodeId>);

impl Tried {
    /// Remembers a node.
    pub fn add(&mut self, node: NodeId) {
        if !self.contains(node) {
            self.0.push(node);
        }
    }

    /// Was it tried?
    pub fn contains(&self, node: NodeId) -> bool {
        self.0.contains(&node)
    }

    /// None was tried yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What the session asks of [`place`].
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// What kind of node will do.
    pub need: Need,
    /// Why; kept in the placement unless the choice itself has a better reason.
    pub reason: RouteReason,
    /// The session's floor, resolved against the same view.
    pub floor: Floor,
    /// The database's settings.
    pub routing: &'a Routing,
    /// A rule's `max_lag` instead of the database's.
    pub max_lag: Option<MaxLag>,
    /// A rule's tags: the replica must carry one of them. Empty: any.
    pub tags: &'a [String],
    /// Nodes not to try again.
    pub tried: &'a Tried,
    /// Index of the replica this session read from last.
    pub usual: Option<usize>,
    /// May it wait?
    pub patience: Patience,
}

/// Where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To this node.
    Node {
        /// Index into [`ClusterView::nodes`].
        index: usize,
        /// Why.
        reason: RouteReason,
    },
    /// No replica fits yet: look again when the view changes, at most [`Routing::wait`] long in all, then ask with
    /// [`Patience::Spent`].
    Wait {
        /// `not-fresh` or `no-replica`.
        reason: RouteReason,
    },
    /// No replica fits and the configuration forbids the primary: 57P03.
    NoReplica {
        /// `not-fresh` or `no-replica`.
        reason: RouteReason,
    },
    /// No primary is known, or it was tried: 57P03.
    NoPrimary,
}

/// Finds the node for a statement, at clock `now`.
pub fn place(ask: &Ask<'_>, view: &ClusterView, dice: &mut Dice, now: Duration) -> Placement {
    match ask.need {
        Need::Primary => to_primary(ask, view, ask.reason),
        Need::Replica if ask.routing.reads == Reads::Primary && ask.reason == RouteReason::ProvenRead => {
            to_primary(ask, view, RouteReason::Configured)
        }
        Need::Replica => to_replica(ask, view, dice, now),
    }
}

fn to_primary(ask: &Ask<'_>, view: &ClusterView, reason: RouteReason) -> Placement {
    match (view.primary, view.primary()) {
        (Some(index), Some(node)) if !ask.tried.contains(node.id) => Placement::Node { index, reason },
        _ => Placement::NoPrimary,
    }
}

fn to_replica(ask: &Ask<'_>, view: &ClusterView, dice: &mut Dice, now: Duration) -> Placement {
    if let Some(index) = stays(ask, view, dice) {
        return Placement::Node { index, reason: ask.reason };
    }
    let mut pick = |floor: Floor| {
        let mut fit = [0usize; MOST_COMPARED];
        let mut count = 0;
        for (index, node) in view.nodes.iter().enumerate() {
            if eligible(node, ask, view) && floor.met_by(node, view) {
                let Some(slot) = fit.get_mut(count) else { break };
                *slot = index;
                count += 1;
            }
        }
        balance::choose(fit.get(..count)?, &view.nodes, ask.routing.balance, ask.usual, dice, now)
    };
    if let Some(index) = pick(ask.floor) {
        return Placement::Node { index, reason: ask.reason };
    }
    let stale = pick(Floor::None);
    let may_wait = ask.patience == Patience::Left && !ask.routing.wait.is_zero();
    match stale {
        Some(_) if may_wait => Placement::Wait { reason: RouteReason::NotFresh },
        Some(index) => match ask.routing.on_timeout {
            OnTimeout::Primary => to_primary(ask, view, RouteReason::NotFresh),
            OnTimeout::Error => Placement::NoReplica { reason: RouteReason::NotFresh },
            OnTimeout::Stale => Placement::Node { index, reason: RouteReason::Stale },
        },
        None => match ask.routing.on_no_replica {
            OnNoReplica::Primary => to_primary(ask, view, RouteReason::NoReplica),
            OnNoReplica::Wait if may_wait => Placement::Wait { reason: RouteReason::NoReplica },
            OnNoReplica::Wait | OnNoReplica::Error => Placement::NoReplica { reason: RouteReason::NoReplica },
        },
    }
}

/// The session's usual replica, if it is fit and this is no time to compare it with others.
fn stays(ask: &Ask<'_>, view: &ClusterView, dice: &mut Dice) -> Option<usize> {
    let index = ask.usual.filter(|_| ask.routing.balance == Balance::LeastLatency)?;
    let node = view.nodes.get(index)?;
    (dice.roll(RECONSIDER) > 0 && eligible(node, ask, view) && ask.floor.met_by(node, view)).then_some(index)
}

/// Fit but for the session's floor. Unknown means no; only while there is no primary there is nothing to lag behind, and
/// reads must go on.
fn eligible(node: &NodeView, ask: &Ask<'_>, view: &ClusterView) -> bool {
    let lag_fits = view.primary.is_none()
        || match ask.max_lag.unwrap_or(ask.routing.max_lag) {
            MaxLag::Time(most) => node.lag_time.is_some_and(|lag| lag <= most),
            MaxLag::Bytes(most) => node.lag_bytes.is_some_and(|lag| lag <= most),
        };
    node.role == Role::Replica
        && node.health == Health::Up
        && node.suspicion == Suspicion::Clear
        && node.weight > 0
        && lag_fits
        && (ask.tags.is_empty() || node.tags.iter().any(|tag| ask.tags.contains(tag)))
        && !ask.tried.contains(node.id)
}

#[cfg(test)]
mod tests;
