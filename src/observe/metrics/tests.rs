use super::*;
use crate::observe::{ClassifyPath, ClientState, Sent};

const WORDS: Words =
    Words { reasons: &["proven-read", "writes", "not-fresh"], pins: &["listen", "prepare"], taps: &["digest"] };

fn metrics() -> Metrics {
    let nodes = || {
        let node = |database: &str, node: &str, role, lag| NodeFacts {
            database: database.into(),
            node: node.into(),
            role,
            up: role == "replica",
            lag,
            lag_bytes: lag.map(|lag| u64::from(lag.subsec_millis())),
            idle: 3,
            active: 1,
        };
        let lag = Some(Duration::from_millis(250));
        vec![node("app", "b", "replica", lag), node("web", "b", "replica", lag), node("app", "a", "primary", None)]
    };
    let catalogs = || {
        let looks = [("same", 7), ("changed", 2), ("failed", 0)];
        let (took, age) = (Duration::from_millis(1500), Some(Duration::from_secs(3)));
        vec![CatalogFacts { database: "app".into(), looks, took, age, fresh: true }]
    };
    let sources = Sources { nodes: Box::new(nodes), rules: Box::new(Vec::new), catalogs: Box::new(catalogs) };
    Metrics::new(2, WORDS, sources).unwrap()
}

#[test]
fn a_scrape_sums_the_workers() {
    let metrics = metrics();
    let app = metrics.database("app");
    let (one, two) = (metrics.worker(0).unwrap(), metrics.worker(1).unwrap());
    assert!(metrics.worker(2).is_none());
    one.statement(app, Sent::Replica, 0);
    two.statement(app, Sent::Replica, 0);
    two.statement(app, Sent::Primary, 1);
    two.statement(app, Sent::Primary, 99);
    two.statement(99, Sent::Primary, 1);
    one.statement_seconds(app, Sent::Replica, Duration::from_micros(100));
    two.statement_seconds(app, Sent::Replica, Duration::from_micros(101));
    two.statement_seconds(app, Sent::Replica, Duration::from_secs(99));
    one.client_enters(app, ClientState::Idle);
    one.client_leaves(app, ClientState::Idle);
    one.client_enters(app, ClientState::Active);
    one.checkout(Duration::from_millis(2));
    one.classified(ClassifyPath::Parse);
    two.read_fallback(2);
    one.pinned(1);
    two.tap_dropped(0);
    one.catalog_question();
    let text = metrics.render().unwrap();
    let lines = [
        r#"pgsluice_statements_total{database="app",route="replica",reason="proven-read"} 2"#,
        r#"pgsluice_statements_total{database="app",route="primary",reason="writes"} 1"#,
        r#"pgsluice_statement_seconds_bucket{database="app",role="replica",le="0.0001"} 1"#,
        r#"pgsluice_statement_seconds_bucket{database="app",role="replica",le="0.00025"} 2"#,
        r#"pgsluice_statement_seconds_bucket{database="app",role="replica",le="10"} 2"#,
        r#"pgsluice_statement_seconds_bucket{database="app",role="replica",le="+Inf"} 3"#,
        r#"pgsluice_statement_seconds_sum{database="app",role="replica"} 99.000201"#,
        r#"pgsluice_statement_seconds_count{database="app",role="replica"} 3"#,
        r#"pgsluice_clients{database="app",state="idle"} 0"#,
        r#"pgsluice_clients{database="app",state="active"} 1"#,
        r#"pgsluice_servers{database="app",node="b",state="idle"} 3"#,
        r#"pgsluice_servers{database="app",node="b",state="active"} 1"#,
        r#"pgsluice_checkout_seconds_count 1"#,
        r#"pgsluice_classify_total{path="parse"} 1"#,
        r#"pgsluice_classify_total{path="table"} 0"#,
        r#"pgsluice_read_fallback_total{reason="not-fresh"} 1"#,
        r#"pgsluice_pins_total{reason="prepare"} 1"#,
        r#"pgsluice_taps_dropped_total{tap="digest"} 1"#,
        r#"pgsluice_replica_lag_seconds{node="b"} 0.25"#,
        r#"pgsluice_replica_lag_bytes{node="b"} 250"#,
        r#"pgsluice_catalog_looks_total{database="app",outcome="same"} 7"#,
        r#"pgsluice_catalog_looks_total{database="app",outcome="failed"} 0"#,
        r#"pgsluice_catalog_generation{database="app"} 2"#,
        r#"pgsluice_catalog_look_seconds_total{database="app"} 1.5"#,
        r#"pgsluice_catalog_age_seconds{database="app"} 3"#,
        r#"pgsluice_catalog_fresh{database="app"} 1"#,
        r#"pgsluice_catalog_questions_total 1"#,
        r#"pgsluice_node_up{node="b",role="replica"} 1"#,
        r#"pgsluice_node_up{node="a",role="primary"} 0"#,
    ];
    for line in lines {
        assert_eq!(text.lines().filter(|known| *known == line).count(), 1, "{line}\n{text}");
    }
    assert_eq!(text.matches("pgsluice_statements_total{").count(), 2, "{text}");
}

#[test]
fn names_without_end_share_one_slot() {
    let metrics = metrics();
    let slots: Vec<usize> = (0..100).map(|i| metrics.database(&format!("db{i}"))).collect();
    assert_eq!((slots[0], slots[62], slots[63], slots[99]), (0, 62, 63, 63));
    assert_eq!(metrics.database("db7"), 7);
    let worker = metrics.worker(0).unwrap();
    worker.statement(slots[99], Sent::Primary, 1);
    let text = metrics.render().unwrap();
    assert!(
        text.contains(r#"pgsluice_statements_total{database="other",route="primary",reason="writes"} 1"#),
        "{text}"
    );
}
