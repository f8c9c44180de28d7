use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::*;
use crate::{
    base::{Generation, Lsn},
    config::{Balance, Consistency, UnknownFunctions},
    route::{NodeLoad, Outcome, Position},
};

const NOW: Duration = Duration::from_secs(1);

fn routing() -> Routing {
    Routing {
        reads: Reads::Replica,
        consistency: Consistency::Session,
        wait: Duration::ZERO,
        on_timeout: OnTimeout::Primary,
        max_lag: MaxLag::Time(Duration::from_secs(30)),
        on_no_replica: OnNoReplica::Primary,
        unknown_functions: UnknownFunctions::Primary,
        balance: Balance::LeastLatency,
        defer_begin: true,
    }
}

/// One line per node: `name role health lsn lag_ms weight tag…`; `-` is unknown. A `?` after the health: suspect.
fn view(text: &str) -> ClusterView {
    let nodes: Box<[NodeView]> = text.lines().map(str::trim).filter(|l| !l.is_empty()).enumerate().map(node).collect();
    let primary = nodes.iter().position(|n| n.role == Role::Primary && n.health == Health::Up);
    ClusterView { generation: Generation(1), nodes, primary, term: 1, wal_segment: 16 << 20 }
}

fn node((index, line): (usize, &str)) -> NodeView {
    let words: Vec<&str> = line.split_whitespace().collect();
    let lag: Option<u64> = words[4].parse().ok();
    NodeView {
        id: NodeId(index as u32),
        name: words[0].into(),
        role: match words[1] {
            "primary" => Role::Primary,
            "replica" => Role::Replica,
            _ => Role::Unknown,
        },
        health: match words[2].trim_end_matches('?') {
            "up" => Health::Up,
            "down" => Health::Down { since: NOW },
            _ => Health::Unknown,
        },
        suspicion: if words[2].ends_with('?') { Suspicion::Suspect } else { Suspicion::Clear },
        position: words[3].parse().ok().map(|lsn| Position { lsn: Lsn(lsn), insert: Lsn(lsn), begun: NOW }),
        lag_bytes: lag,
        lag_time: lag.map(Duration::from_millis),
        weight: words[5].parse().unwrap(),
        tags: words[6..].iter().map(|&tag| tag.to_owned()).collect(),
        epoch: 1,
        load: Arc::new(NodeLoad::new(2)),
    }
}

fn say(placement: Placement, view: &ClusterView) -> String {
    match placement {
        Placement::Node { index, reason } => format!("{} {}", view.nodes[index].name, reason.as_str()),
        Placement::Wait { reason } => format!("wait {}", reason.as_str()),
        Placement::NoReplica { reason } => format!("none {}", reason.as_str()),
        Placement::NoPrimary => "no primary".into(),
    }
}

const TRIO: &str = "a primary up 900 - 1
                    b replica up 900 0 1
                    c replica down 900 0 1";

#[test]
fn a_read_goes_to_a_fit_replica_or_says_why_not() {
    let at = |lsn| Floor::At { lsn: Lsn(lsn), term: 1 };
    let cases = [
        (TRIO, Need::Replica, at(900), "b proven-read"),
        (TRIO, Need::Primary, Floor::None, "a proven-read"),
        (TRIO, Need::Replica, at(901), "a not-fresh"),
        (TRIO, Need::Replica, Floor::Dirty { since: NOW }, "a not-fresh"),
        ("a primary up 9 - 1\n b replica up? 9 0 1", Need::Replica, Floor::None, "a no-replica"),
        ("a primary up 9 - 1\n b replica - 9 0 1", Need::Replica, Floor::None, "a no-replica"),
        ("a primary up 9 - 1\n b - up 9 0 1", Need::Replica, Floor::None, "a no-replica"),
        ("a primary up 9 - 1\n b replica up 9 - 1", Need::Replica, Floor::None, "a no-replica"),
        ("a primary up 9 - 1\n b replica up 9 30000 1", Need::Replica, Floor::None, "b proven-read"),
        ("a primary up 9 - 1\n b replica up 9 30001 1", Need::Replica, Floor::None, "a no-replica"),
        ("a primary up 9 - 1\n b replica up 9 0 0", Need::Replica, Floor::None, "a no-replica"),
        ("a primary up? 9 - 1", Need::Primary, Floor::None, "a proven-read"),
        ("a primary down 9 - 1\n b replica up 9 0 1", Need::Primary, Floor::None, "no primary"),
        ("a primary down 9 - 1\n b replica up 9 0 1", Need::Replica, Floor::None, "b proven-read"),
        ("a primary down 9 - 1\n b replica up - 0 1", Need::Replica, at(1), "no primary"),
        ("", Need::Replica, Floor::None, "no primary"),
    ];
    for (text, need, floor, expected) in cases {
        let (view, routing, tried) = (view(text), routing(), Tried::default());
        let ask = Ask { need, floor, ..ask(&routing, &tried) };
        assert_eq!(say(place(&ask, &view, &mut Dice::seeded(1), NOW), &view), expected, "{text}");
    }
}

fn ask<'a>(routing: &'a Routing, tried: &'a Tried) -> Ask<'a> {
    Ask {
        need: Need::Replica,
        reason: RouteReason::ProvenRead,
        floor: Floor::None,
        routing,
        max_lag: None,
        tags: &[],
        tried,
        usual: None,
        patience: Patience::Left,
    }
}

#[test]
fn settings_decide_what_happens_without_a_fit_replica() {
    let lonely = "a primary up 9 - 1";
    let stale = "a primary up 9 - 1\n b replica up 8 0 1";
    let wait = Duration::from_millis(50);
    let floor = Floor::At { lsn: Lsn(9), term: 1 };
    let base = routing;
    let cases = [
        (lonely, Routing { on_no_replica: OnNoReplica::Error, ..base() }, Patience::Left, "none no-replica"),
        (lonely, Routing { on_no_replica: OnNoReplica::Wait, wait, ..base() }, Patience::Left, "wait no-replica"),
        (lonely, Routing { on_no_replica: OnNoReplica::Wait, wait, ..base() }, Patience::Spent, "none no-replica"),
        (lonely, Routing { on_no_replica: OnNoReplica::Wait, ..base() }, Patience::Left, "none no-replica"),
        (stale, Routing { wait, ..base() }, Patience::Left, "wait not-fresh"),
        (stale, Routing { wait, ..base() }, Patience::Spent, "a not-fresh"),
        (stale, Routing { on_timeout: OnTimeout::Error, ..base() }, Patience::Left, "none not-fresh"),
        (stale, Routing { on_timeout: OnTimeout::Stale, ..base() }, Patience::Left, "b stale"),
        (stale, Routing { reads: Reads::Primary, ..base() }, Patience::Left, "a configured"),
    ];
    for (text, routing, patience, expected) in cases {
        let (view, tried) = (view(text), Tried::default());
        let ask = Ask { floor, patience, ..ask(&routing, &tried) };
        assert_eq!(say(place(&ask, &view, &mut Dice::seeded(1), NOW), &view), expected, "{routing:?}");
    }
}

#[test]
fn tried_nodes_tags_and_a_rules_lag_narrow_the_choice() {
    let view = view("a primary up 9 - 1\n b replica up 9 0 1 reports\n c replica up 9 500 1 web");
    let routing = routing();
    let to = |ask: Ask<'_>| say(place(&ask, &view, &mut Dice::seeded(3), NOW), &view);
    let mut tried = Tried::default();
    tried.add(NodeId(1));
    assert_eq!(to(ask(&routing, &tried)), "c proven-read");
    tried.add(NodeId(2));
    assert_eq!(to(ask(&routing, &tried)), "a no-replica");
    tried.add(NodeId(0));
    assert_eq!(to(ask(&routing, &tried)), "no primary");
    let none = Tried::default();
    let web = ["web".to_owned()];
    assert_eq!(to(Ask { tags: &web, ..ask(&routing, &none) }), "c proven-read");
    let short = Some(MaxLag::Time(Duration::from_millis(10)));
    assert_eq!(to(Ask { max_lag: short, ..ask(&routing, &none) }), "b proven-read");
    assert_eq!(to(Ask { max_lag: Some(MaxLag::Bytes(499)), ..ask(&routing, &none) }), "b proven-read");
}

/// Shares of 3000 reads that `prepare` has set the scene for.
fn shares(text: &str, balance: Balance, prepare: impl Fn(&ClusterView)) -> BTreeMap<String, u32> {
    let view = view(text);
    prepare(&view);
    let routing = Routing { balance, ..routing() };
    let (tried, mut dice) = (Tried::default(), Dice::seeded(5));
    let mut shares = BTreeMap::new();
    for _ in 0..3000 {
        let Placement::Node { index, .. } = place(&ask(&routing, &tried), &view, &mut dice, NOW) else { continue };
        *shares.entry(view.nodes[index].name.to_string()).or_insert(0) += 1;
    }
    shares
}

#[test]
fn each_balance_shares_in_its_way() {
    let two = "a primary up 9 - 1\n b replica up 9 0 1\n c replica up 9 0 2";
    let even = shares(two, Balance::RoundRobin, |_| ());
    assert_eq!((even["b"], even["c"]), (1000, 2000));
    let random = shares(two, Balance::Random, |_| ());
    assert!(random["b"].abs_diff(1000) < 100, "{random:?}");
    let busy = |view: &ClusterView| (0..3).for_each(|_| view.nodes[2].load.started(1));
    assert_eq!(shares(two, Balance::LeastConnections, busy).get("c"), None);
    let equal = "b replica up 9 0 1\n c replica up 9 0 1\n d replica up 9 0 1";
    for balance in [Balance::LeastConnections, Balance::LeastLatency] {
        let even = shares(equal, balance, |_| ());
        assert!(even.len() == 3 && even.values().all(|n| n.abs_diff(1000) < 150), "{balance:?} {even:?}");
    }
}

#[test]
fn a_slow_or_failing_replica_loses_every_comparison() {
    let three = "b replica up 9 0 1\n c replica up 9 0 1\n d replica up 9 0 1";
    for outcome in [Outcome::Answered, Outcome::Failed] {
        let shares = shares(three, Balance::LeastLatency, |view| {
            for (node, ms) in view.nodes.iter().zip([1, 1, 40]) {
                let latency = Duration::from_millis(if outcome == Outcome::Failed { 1 } else { ms });
                let outcome = if ms == 40 { outcome } else { Outcome::Answered };
                node.load.finished(0, NOW, latency, outcome);
            }
        });
        assert_eq!(shares.get("d"), None, "{outcome:?} {shares:?}");
    }
}

#[test]
fn a_session_stays_on_its_usual_replica_until_that_is_much_dearer() {
    let two = "a primary up 9 - 1\n b replica up 9 0 1\n c replica up 9 0 1";
    let (routing, tried) = (routing(), Tried::default());
    // Whether it compares at all is left to chance, so every session of many is asked.
    let chosen = |usual: Option<usize>, at_work_on_b: u64| {
        let view = view(two);
        (0..at_work_on_b).for_each(|_| view.nodes[1].load.started(0));
        let ask = Ask { usual, ..ask(&routing, &tried) };
        let said = (0..100).map(|seed| say(place(&ask, &view, &mut Dice::seeded(seed), NOW), &view));
        said.collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    for (usual, at_work_on_b, expected) in [
        (Some(1), 0, "b proven-read"),
        (Some(1), 3, "b proven-read"),
        (Some(1), 5, "b proven-read, c proven-read"),
        (Some(2), 0, "c proven-read"),
        // One that is no replica any more is nobody's usual one.
        (Some(0), 5, "c proven-read"),
        (Some(7), 5, "c proven-read"),
    ] {
        assert_eq!(chosen(usual, at_work_on_b), expected, "{usual:?} {at_work_on_b}");
    }
}
