//! Which of several fit replicas takes the read.

use std::{cmp::Ordering, time::Duration};

use crate::config::Balance;

use super::{Dice, NodeView};

/// Chooses one of `fit` (indexes into `nodes`, all with a weight above zero); `None` if there is none.
pub(super) fn choose(
    fit: &[usize],
    nodes: &[NodeView],
    balance: Balance,
    usual: Option<usize>,
    dice: &mut Dice,
    now: Duration,
) -> Option<usize> {
    match fit {
        [] => None,
        [only] => Some(*only),
        _ => match balance {
            Balance::LeastLatency => two_choices(fit, nodes, usual, dice, now),
            Balance::LeastConnections => least_connections(fit, nodes, dice),
            Balance::RoundRobin => {
                let ticket = dice.turn(total_weight(fit, nodes));
                by_weight(fit, nodes, ticket)
            }
            Balance::Random => {
                let ticket = dice.roll(total_weight(fit, nodes));
                by_weight(fit, nodes, ticket)
            }
        },
    }
}

/// How many times dearer than another a session's usual replica may be before the session moves.
const LOYALTY: u128 = 4;

/// Two at random, the cheaper one wins: nearly as even as comparing all, without the whole herd running to the node
/// that looked best a moment ago (Mitzenmacher, "The power of two choices"). A session that has a usual replica compares
/// that one with one other and stays unless it is much dearer: its reads seldom see time go backwards, and its server
/// connections stay warm.
fn two_choices(
    fit: &[usize],
    nodes: &[NodeView],
    usual: Option<usize>,
    dice: &mut Dice,
    now: Duration,
) -> Option<usize> {
    let count = fit.len() as u64;
    let usual = usual.and_then(|index| fit.iter().position(|&fit| fit == index));
    let first = usual.map_or_else(|| dice.roll(count), |at| at as u64);
    let second = (first + 1 + dice.roll(count - 1)) % count;
    let (a, b) = (*fit.get(first as usize)?, *fit.get(second as usize)?);
    let cost = |index: usize| {
        let node = nodes.get(index)?;
        let work = u128::from(node.load.in_flight() + 1) * node.load.latency(now).as_nanos();
        Some((work, node.weight))
    };
    let (work, weight) = cost(b)?;
    let work = if usual.is_some() { work.saturating_mul(LOYALTY) } else { work };
    Some(if cheaper((work, weight), cost(a)?) == Ordering::Less { b } else { a })
}

fn least_connections(fit: &[usize], nodes: &[NodeView], dice: &mut Dice) -> Option<usize> {
    // Start anywhere, or else the first of several idle nodes would take everything.
    let start = dice.roll(fit.len() as u64) as usize;
    let cost = |index: &&usize| {
        nodes.get(**index).map_or((u128::MAX, 1), |node| (u128::from(node.load.in_flight() + 1), node.weight))
    };
    let (before, after) = fit.split_at_checked(start)?;
    after.iter().chain(before).min_by(|a, b| cheaper(cost(a), cost(b))).copied()
}

/// Compares work / weight without dividing.
fn cheaper((work_a, weight_a): (u128, u32), (work_b, weight_b): (u128, u32)) -> Ordering {
    work_a.saturating_mul(u128::from(weight_b)).cmp(&work_b.saturating_mul(u128::from(weight_a)))
}

fn total_weight(fit: &[usize], nodes: &[NodeView]) -> u64 {
    fit.iter().filter_map(|&index| nodes.get(index)).map(|node| u64::from(node.weight)).sum()
}

/// The node whose share of the total weight holds `ticket`.
fn by_weight(fit: &[usize], nodes: &[NodeView], ticket: u64) -> Option<usize> {
    let mut upto = 0;
    for &index in fit {
        upto += u64::from(nodes.get(index)?.weight);
        if ticket < upto {
            return Some(index);
        }
    }
    fit.last().copied()
}
