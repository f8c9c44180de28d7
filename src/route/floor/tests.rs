use std::sync::Arc;

use super::*;
use crate::{
    base::{Generation, NodeId},
    route::{Health, NodeLoad, Position, Role, Suspicion},
};

const SEGMENT: u64 = 16 << 20;

fn node(role: Role, lsn: u64, begun_ms: u64) -> NodeView {
    NodeView {
        id: NodeId(0),
        name: "n".into(),
        role,
        health: Health::Up,
        suspicion: Suspicion::Clear,
        position: Some(Position { lsn: Lsn(lsn), insert: Lsn(lsn + 100), begun: Duration::from_millis(begun_ms) }),
        lag_bytes: None,
        lag_time: None,
        weight: 1,
        tags: Arc::new([]),
        epoch: 1,
        load: Arc::new(NodeLoad::new(1)),
    }
}

fn view(primary_lsn: u64, begun_ms: u64, term: u64) -> ClusterView {
    ClusterView {
        generation: Generation(1),
        nodes: Box::new([node(Role::Primary, primary_lsn, begun_ms)]),
        primary: Some(0),
        term,
        wal_segment: SEGMENT,
    }
}

#[test]
fn a_floor_is_a_sample_begun_after_the_reply() {
    let dirty = |ms| Floor::Dirty { since: Duration::from_millis(ms) };
    let lazy = |ms| Floor::DirtyAsync { since: Duration::from_millis(ms) };
    let at = |lsn, term| Floor::At { lsn: Lsn(lsn), term };
    // (floor, sample begun at ms, in term, becomes); the primary stands at 5000.
    let cases = [
        (Floor::None, 9, 1, Floor::None),
        (dirty(10), 9, 1, dirty(10)),
        (dirty(10), 10, 1, at(5000, 1)),
        (dirty(10), 11, 1, at(5000, 1)),
        (lazy(10), 9, 1, lazy(10)),
        (lazy(10), 11, 1, at(5100, 1)),
        (at(4000, 1), 11, 1, at(4000, 1)),
        (at(9000, 1), 11, 1, at(9000, 1)),
        (at(9000, 1), 11, 2, at(5100, 2)),
    ];
    for (floor, begun, term, expected) in cases {
        assert_eq!(floor.resolve(&view(5000, begun, term)), expected, "{floor:?} {begun} {term}");
    }
    let mut headless = view(5000, 99, 1);
    headless.primary = None;
    assert_eq!(dirty(10).resolve(&headless), dirty(10));
    assert_eq!(at(9000, 7).resolve(&headless), at(9000, 7));
}

#[test]
fn a_replica_meets_what_it_has_replayed() {
    let view = view(5000, 10, 3);
    let replica = |lsn| node(Role::Replica, lsn, 10);
    let at = |lsn, term| Floor::At { lsn: Lsn(lsn), term };
    let cases = [
        (Floor::None, 0, true),
        (Floor::Dirty { since: Duration::ZERO }, 9000, false),
        (Floor::DirtyAsync { since: Duration::ZERO }, 9000, false),
        (at(5000, 3), 4999, false),
        (at(5000, 3), 5000, true),
        (at(5000, 2), 9000, false),
    ];
    for (floor, lsn, expected) in cases {
        assert_eq!(floor.met_by(&replica(lsn), &view), expected, "{floor:?} {lsn}");
    }
    let unknown = NodeView { position: None, ..replica(0) };
    assert!(!at(0, 3).met_by(&unknown, &view));
}

#[test]
fn positions_in_a_page_header_are_rounded_down() {
    let page = 3 * PAGE;
    let cases = [
        (page, page),
        (page + 1, page),
        (page + 24, page),
        (page + 25, page + 25),
        (page + 40, page + 40),
        (2 * SEGMENT + 24, 2 * SEGMENT),
        (2 * SEGMENT + 40, 2 * SEGMENT),
        (2 * SEGMENT + 41, 2 * SEGMENT + 41),
        (2 * SEGMENT + PAGE + 40, 2 * SEGMENT + PAGE + 40),
        (0, 0),
    ];
    for (lsn, expected) in cases {
        assert_eq!(before_header(Lsn(lsn), SEGMENT), Lsn(expected), "{lsn}");
    }
    assert_eq!(before_header(Lsn(page + 30), 0), Lsn(page + 30));
}
