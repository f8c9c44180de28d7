//! The show: a few statements, each with the node that answered it, then some traffic.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};

use super::{Cluster, DemoError, say, url};

/// Tables the show and the load need.
const TABLES: &str = "\
    create table products(id int primary key, name text, price numeric, stock int);
    create table orders(id bigint generated always as identity primary key, product int references products, amount int);
    insert into products select i, 'product ' || i, i * 1.5, 1000 from generate_series(1, 100) i";

/// Followed by the next statement at once: a read right after a write must see it, wherever the replicas are.
const FOLLOWED: &[&str] = &["insert into orders(product, amount) values (1, 2)"];

/// Between other statements: slow enough to read along, and for replicas to have the last write.
const PACE: Duration = Duration::from_millis(250);

/// What is said, one after the other, on one connection.
const STATEMENTS: &[&str] = &[
    "select name, price from products where id = 1",
    "select count(*) from orders",
    FOLLOWED[0],
    "select count(*) from orders",
    "with cheap as (select * from products where price < 10) select count(*) from cheap",
    "select * from products where id = 1 for update",
    "select nextval('orders_id_seq')",
    "begin read only",
    "select sum(stock) from products",
    "commit",
    "begin",
    "select stock from products where id = 2",
    "update products set stock = stock - 1 where id = 2",
    "commit",
    "/* pgsluice: primary */ select count(*) from products",
    "explain select * from products",
];

/// Says the statements and prints where each one ran.
pub(super) async fn statements(port: u16, cluster: &Cluster) -> Result<(), DemoError> {
    cluster.primary().psql(&format!("set role app; {TABLES}"))?;
    cluster.catch_up()?;
    let (client, connection) = tokio_postgres::connect(&url(port), NoTls).await?;
    let connection = tokio::spawn(connection);
    say(format_args!("{:<84} {:<9} {:<8} {}", "statement", "node", "role", "why"));
    for sql in STATEMENTS {
        client.simple_query(sql).await?;
        // BEGIN goes nowhere by itself: it waits for the first statement, which decides.
        let route = if sql.starts_with("begin") { String::new() } else { route(&client).await? };
        say(format_args!("{sql:<84} {route}"));
        if !FOLLOWED.contains(sql) {
            sleep(PACE).await;
        }
    }
    drop(client);
    connection.abort();
    Ok(())
}

/// Where the statement before ran, as one piece of a line.
async fn route(client: &Client) -> Result<String, DemoError> {
    let answer = client.simple_query("SHOW pgsluice.route").await?;
    let row =
        answer.iter().find_map(|message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None });
    let Some(row) = row else { return Ok(String::new()) };
    let column = |name: &str| text(row, name);
    Ok(format!("{:<9} {:<8} {}", column("node"), column("role"), column("reason")).trim_end().to_owned())
}

/// A column's text, "" where it is NULL or missing.
fn text(row: &SimpleQueryRow, name: &str) -> String {
    row.try_get(name).ok().flatten().unwrap_or_default().to_owned()
}

/// Prints once a second how many transactions each node has ended, by the nodes' own count.
pub(super) async fn traffic(cluster: &Cluster, seconds: u32) -> Result<(), DemoError> {
    say(
        "\nNow pgbench, nine reads for each write. A session that has just written reads from the primary until a replica has that, too.",
    );
    say("Transactions per second, as the nodes count them:");
    let heads: Vec<String> = cluster.nodes().iter().map(|node| format!("{:>9}", node.name())).collect();
    say(heads.join(" "));
    let mut tick = interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick.tick().await;
    let mut before = counts(cluster)?;
    for _ in 0..seconds {
        tick.tick().await;
        let now = counts(cluster)?;
        let rates: Vec<String> =
            now.iter().zip(&before).map(|(now, then)| format!("{:>9}", now.saturating_sub(*then))).collect();
        say(rates.join(" "));
        before = now;
    }
    Ok(())
}

fn counts(cluster: &Cluster) -> Result<Vec<u64>, DemoError> {
    Ok(cluster.nodes().iter().map(super::Node::transactions).collect::<Result<_, _>>()?)
}
