//! What rewritten statements do on a real server: a tenant sees and changes in everybody's table what it would in one of its own.

use std::fmt::Write as _;

use pgsluice::policy::rewrite::{Rewriting, Wanted};

use crate::{
    Case,
    backend::Detail,
    cases,
    client::Client,
    world::{World, direct},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("rewrite", Nothing: a_tenant_sees_what_it_would_alone))
}

const TEXTS: &str = include_str!("../data/rewrite/tenants.txt");

const TABLES: &str = "drop schema if exists everyone, mine cascade; create schema everyone; create schema mine;
    create table everyone.orders(id int primary key, tenant int, parent int, a int, b bool, c int, created date);
    insert into everyone.orders select n, 4 + n % 3, n / 2, n % 4, n % 2 = 0, n % 5, date '2024-01-01' + n
        from generate_series(1, 40) n;
    create table everyone.a(id int primary key, x int); insert into everyone.a select n, n % 3 from generate_series(1, 20) n;
    create table everyone.b(id int primary key, y int); insert into everyone.b select n, n % 3 from generate_series(10, 30) n;
    create table everyone.t(id int primary key, a int); insert into everyone.t select n, n % 4 from generate_series(1, 25) n;
    create table mine.orders (like everyone.orders including all);
    insert into mine.orders select * from everyone.orders where tenant = 5;
    create table mine.a (like everyone.a including all); insert into mine.a select * from everyone.a;
    create table mine.b (like everyone.b including all); insert into mine.b select * from everyone.b;
    create table mine.t (like everyone.t including all); insert into mine.t select * from everyone.t";

const OTHERS: &str = "select * from everyone.orders where tenant <> 5 order by id";

fn a_tenant_sees_what_it_would_alone(world: &World) {
    world.prepare(TABLES);
    let mut client = direct(world.cluster().primary(), "app");
    let wanted = Wanted { add_where: vec![("orders".to_owned(), "tenant = 5".to_owned())], ..Wanted::default() };
    let rules = Rewriting::compile(&wanted).expect("the rule holds");
    let others = client.query(OTHERS).rows();
    let (mut ran, mut wrong) = (0, String::new());
    for line in TEXTS.lines().filter(|line| !line.starts_with(['#', '@'])) {
        let (text, _) = line.split_once("  ⇒  ").unwrap_or((line, ""));
        let new = match rules.rewrite(text.as_bytes(), &["public"]) {
            Ok(Some(new)) => new.text,
            other => panic!("{text}: {other:?}"),
        };
        let alone = outcome(&mut client, "mine", text, None);
        let together = outcome(&mut client, "everyone", &new, Some(&others));
        // A plan names what it filters by.
        if alone != together && !text.starts_with("explain") {
            let _ = writeln!(wrong, "{text}\n  {new}\n  alone    {alone}\n  together {together}");
        }
        ran += usize::from(!alone.contains("ERROR") && !together.contains("ERROR"));
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(ran > 70, "only {ran} ran: is it still about these tables?");
}

/// What a statement answers and leaves in the schema's tables, as far as the tenant may know.
fn outcome(client: &mut Client, schema: &str, text: &str, others: Option<&Vec<Vec<String>>>) -> String {
    client.query("begin");
    client.query(&format!("set local search_path = {schema}"));
    let reply = client.query(text);
    if let Some(code) = reply.sqlstate() {
        client.query("rollback");
        // MERGE came with PostgreSQL 15; an error is one here as there.
        return format!("ERROR {code} {}", if code == "42601" { "" } else { "in both, or wrong" });
    }
    let mut said: Vec<String> = reply.0.iter().map(|msg| msg.render(Detail::Full)).collect();
    said.sort();
    if let Some(others) = others {
        assert_eq!(&client.query(OTHERS).rows(), others, "another tenant's rows were changed by {text}");
    }
    for table in ["orders where tenant = 5", "t"] {
        let rows = client.query(&format!("select * from {schema}.{table} order by id")).rows();
        said.push(format!("{table}: {rows:?}"));
    }
    client.query("rollback");
    client.query("deallocate all");
    said.join("\n    ")
}
