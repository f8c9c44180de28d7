//! What rules cost: a statement judged before, the allow list, a statement never seen, and reading ten thousand rules.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use std::{fmt::Write as _, fs, hint::black_box, path::Path, rc::Rc, sync::Arc, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use pgsluice::{
    app,
    config::rules::{Learned, ListedFor, Store},
    policy::{Identity, InTransaction, Judgements, Moment, Principal, RuleSet, SearchPath},
    sql::{
        Caps, Classifier, Functions, Misroutes, ShapeKey, StringRules,
        catalog::{Catalog, Listing, Permanence, Published, Relation, RelationKind, Schema, Scope},
        fingerprint,
    },
};

const LOOKUP: &str =
    "select id, name, price, stock from products where category_id = 17 and name = 'blue chair' order by id limit 10";
const REPORT: &str = "select o.id, o.created_at, c.name, sum(i.quantity * i.price) as total from orders o \
    join customers c on c.id = o.customer_id join order_items i on i.order_id = o.id \
    where o.created_at > now() - interval '7 days' and c.country in ('de', 'fr') \
    group by o.id, o.created_at, c.name order by total desc limit 20";
const MOMENT: Moment = Moment { in_transaction: InTransaction::No, prepared: false, search_path: SearchPath::Known };

/// A configuration in a folder of its own, with rules and perhaps a list.
fn configured(dir: &Path, rules: &[String], firewall: &str) -> RuleSet {
    let file = dir.join("pgsluice.yaml");
    let text = format!(
        "listen: 127.0.0.1:6432\ndatabases: {{ app: {{ nodes: [127.0.0.1:5432] }} }}\n\
         users: [{{ name: app, password: secret }}]\nrules: [{}]\nfirewall: {{ mode: protect{firewall} }}\n",
        rules.join(", ")
    );
    fs::write(&file, text).expect("write the configuration");
    app::load(&file, None).unwrap_or_else(|faults| panic!("{faults}")).1
}

/// So many rules, none of which fits.
fn many(dir: &Path, count: usize) -> String {
    let mut text = String::from("firewall:\n");
    for i in 0..count {
        let when = match i % 4 {
            0 => format!("{{ reads: [secret_{i}] }}"),
            1 => format!("{{ functions: [probe_{i}] }}"),
            2 => format!("{{ statement: delete, where: missing, writes: [\"part_{i}_*\"] }}"),
            _ => format!("{{ user: [user_{i}], statement: [update, delete] }}"),
        };
        writeln!(text, "  - {{ name: rule-{i}, when: {when}, deny: {{ message: no }} }}").expect("a string");
    }
    let file = dir.join(format!("rules-{count}.yaml"));
    fs::write(&file, text).expect("write the rules");
    file.display().to_string()
}

fn packs() -> String {
    format!("{}/rules/firewall/*.yaml", env!("CARGO_MANIFEST_DIR"))
}

fn classifier(entries: usize) -> Classifier {
    let functions = Functions::built_in().expect("rules/functions.yaml holds");
    let caps = Caps { parse: 1 << 20, entries };
    Classifier::new(ShapeKey::random(), Arc::new(functions), Arc::new(Misroutes::new(100)), caps)
}

fn principal(judgements: &mut Judgements, rules: &Arc<RuleSet>) -> Rc<Principal> {
    let identity = Identity {
        user: "app",
        database: "app",
        application: "bench",
        client: None,
        role: "app",
        search_path: Some("\"$user\", public"),
    };
    judgements.principal(rules, &identity)
}

fn seen(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let (dir, strings) = (dir.path(), StringRules::default());
    let store = {
        let mut store = Store::default();
        let anybody = ListedFor::anybody();
        let mut add = |text: &str| {
            let print = fingerprint(text.as_bytes()).expect("it parses").to_string();
            let day = "2026-01-01T00:00:00Z".to_owned();
            store.list_mut(&anybody).statements.push(Learned {
                fingerprint: print,
                allowed: true,
                text: text.to_owned(),
                kind: "read".to_owned(),
                tables: Vec::new(),
                first_seen: day.clone(),
                last_seen: day,
                count: 1,
            });
        };
        (0..9_999).for_each(|i| add(&format!("select c{i} from t{i} where id = 1")));
        add(LOOKUP);
        fs::write(dir.join("learned.yaml"), store.to_yaml().expect("a store")).expect("write the store");
        ", allow_list: { store: learned.yaml, default: protect }"
    };
    let (thousand, ten_thousand) = (many(dir, 1_000), many(dir, 10_000));
    for (name, rules, firewall) in [
        ("1 rule", vec![many(dir, 1)], ""),
        ("all packs", vec![packs()], ""),
        ("1000 rules", vec![thousand], ""),
        ("10000 rules", vec![ten_thousand], ""),
        ("a list of 10000", vec![], store),
    ] {
        let rules = Arc::new(configured(dir, &rules, firewall));
        let (mut warm, mut judgements) = (classifier(1000), Judgements::new(1000));
        let principal = principal(&mut judgements, &rules);
        let known = warm.classify(LOOKUP.as_bytes(), strings).known;
        let verdict = judgements.judge(&rules, &principal, &known, LOOKUP.as_bytes(), MOMENT);
        assert!(verdict.denial.is_none(), "{name}");
        c.bench_function(&format!("judge a seen statement/{name}"), |b| {
            b.iter(|| judgements.judge(&rules, &principal, black_box(&known), LOOKUP.as_bytes(), MOMENT));
        });
        // Room for one verdict, two statements: each is judged for the first time.
        let mut forgetful = Judgements::new(1);
        let other = warm.classify(b"select c1 from t1 where id = 1", strings).known;
        c.bench_function(&format!("judge two statements anew/{name}"), |b| {
            b.iter(|| {
                forgetful.judge(&rules, &principal, &known, black_box(LOOKUP.as_bytes()), MOMENT);
                forgetful.judge(&rules, &principal, &other, black_box(b"select c1 from t1 where id = 1"), MOMENT)
            });
        });
    }
}

/// Tables enough for a database of an application.
fn catalog() -> Arc<Published> {
    let named = ["orders", "customers", "order_items", "products"].map(str::to_owned);
    let relations = named.into_iter().chain((0..2_000).map(|i| format!("t{i}"))).zip(20_000..);
    let relations = relations.map(|(name, oid)| Relation {
        oid,
        schema: "public".into(),
        name: name.into(),
        kind: RelationKind::Table,
        permanence: Permanence::Logged,
        query: None,
        policies: Vec::new(),
    });
    let listing = Listing {
        schemas: vec![Schema { name: "public".into(), is_public: true, users: Vec::new() }],
        relations: relations.collect(),
        ..Listing::default()
    };
    let published = Published::new(|| {});
    published.publish(Catalog::new(listing), published.changes());
    Arc::new(published)
}

/// Lexed, parsed, walked, resolved and judged by everything in rules/firewall.
fn first_sight(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let rules = Arc::new(configured(dir.path(), &[packs()], ""));
    let scope = Scope::new(catalog(), Some("\"$user\", public"), "app", "app");
    let (mut cold, mut judgements) = (classifier(1), Judgements::new(1));
    let principal = principal(&mut judgements, &rules);
    let texts = [REPORT.to_owned(), format!("{REPORT} offset 5")];
    assert!(texts.iter().all(|text| (280..320).contains(&text.len())), "{}", REPORT.len());
    c.bench_function("first sight of two statements of 300B", |b| {
        b.iter(|| {
            for text in &texts {
                let known = cold.classify_in(black_box(text.as_bytes()), StringRules::default(), &scope).known;
                black_box(judgements.judge(&rules, &principal, &known, text.as_bytes(), MOMENT));
            }
        });
    });
}

fn reload(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let rules = [many(dir.path(), 10_000)];
    let mut group = c.benchmark_group("read and compile");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    group.bench_function("10000 rules", |b| b.iter(|| configured(dir.path(), &rules, "")));
    group.finish();
}

criterion_group!(benches, seen, first_sight, reload);
criterion_main!(benches);
