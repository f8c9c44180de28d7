//! What reading a text costs: the lexer, a shape seen before, and a new one.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use std::{hint::black_box, sync::Arc};

use criterion::{Criterion, criterion_group, criterion_main};
use pgsluice::sql::{Caps, Classifier, Functions, Misroutes, ShapeKey, StringRules, lexer::Tokens};

const LOOKUP: &str =
    "select id, name, price, stock from products where category_id = 17 and name = 'blue chair' order by id limit 10";
const JOIN: &str = "select o.id, o.created_at, c.name, sum(i.quantity * i.price) as total from orders o \
    join customers c on c.id = o.customer_id join order_items i on i.order_id = o.id \
    where o.created_at > now() - interval '7 days' and c.country in ('de', 'fr') group by 1, 2, 3 order by total desc limit 20";

fn classifier(entries: usize) -> Classifier {
    let functions = Functions::built_in().expect("rules/functions.yaml holds");
    let caps = Caps { parse: 1 << 20, entries };
    Classifier::new(ShapeKey::random(), Arc::new(functions), Arc::new(Misroutes::new(100)), caps)
}

fn sql(c: &mut Criterion) {
    let rules = StringRules::default();
    for (name, text) in [("lookup", LOOKUP), ("join", JOIN)] {
        let bytes = text.as_bytes();
        c.bench_function(&format!("lexer/{name}/{}B", bytes.len()), |b| {
            b.iter(|| Tokens::new(black_box(bytes), rules).count());
        });
        let mut warm = classifier(1000);
        warm.classify(bytes, rules);
        c.bench_function(&format!("hit/{name}"), |b| b.iter(|| warm.classify(black_box(bytes), rules)));
        // One entry, two shapes in turn: every text is a miss.
        let mut cold = classifier(1);
        let other = format!("{text} offset 5");
        c.bench_function(&format!("two misses/{name}"), |b| {
            b.iter(|| {
                cold.classify(black_box(bytes), rules);
                cold.classify(black_box(other.as_bytes()), rules)
            });
        });
    }
}

criterion_group!(benches, sql);
criterion_main!(benches);
