//! What a client may leave behind: nothing. Asked of the servers, and by newcomers who get the connections it had.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    backend::Detail,
    client::{Client, Login, PATIENCE},
    frontend,
    world::{Proxy, Setup, World},
};

/// Transactions, statements and locks of the application's connections: those of the tests (`keep`) and of proxies that look at
/// the catalog aside.
const UNDER_WAY: &str = "with app as (select pid, state from pg_stat_activity \
      where usename = 'app' and application_name not in ('keep', 'pgsluice')) \
    select (select count(*) from app where state <> 'idle') || '/' || (select count(*) from pg_locks join app using (pid))";

/// All that a session can see of its server's session: every setting it may change, and what lives there.
const SEEN: &str = "select (select string_agg(name || '=' || setting, E'\\n' order by name) from pg_settings \
    where context in ('user', 'superuser') and name not like 'transaction@_%' escape '@' and name not like '%.%') || E'\\n' || \
    'user=' || session_user || '/' || current_user || E'\\n' || \
    'app.x=' || coalesce(current_setting('app.x', true), '') || E'\\n' || \
    'statements=' || (select count(*) from pg_prepared_statements where from_sql) || E'\\n' || \
    'cursors=' || (select count(*) from pg_cursors) || E'\\n' || \
    'temporary=' || (select count(*) from pg_class where relnamespace = pg_my_temp_schema()) || E'\\n' || \
    'advisory=' || (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) || E'\\n' || \
    'channels=' || (select count(*) from pg_listening_channels())";

/// Newcomers before one proxy, and what they must see.
pub struct Probe {
    clients: Vec<Client>,
    /// What PostgreSQL itself shows after this BEGIN.
    wanted: [(&'static str, String); 2],
}

impl Probe {
    /// As many newcomers as the pool has connections.
    pub fn new(world: &World, proxy: &Proxy, setup: &Setup) -> Self {
        let cluster = world.cluster();
        let replica = cluster.replicas().first().unwrap_or(cluster.primary());
        let native = |begin: &'static str, port: u16| {
            let mut client = Client::login(port, &Login::default()).expect("login");
            ask(&mut client, begin).expect("an answer");
            (begin, hear(&mut client).expect("what a session sees"))
        };
        Self {
            clients: (0..setup.size).map(|_| proxy.login()).collect(),
            wanted: [native("begin read write", cluster.primary().port()), native("begin read only", replica.port())],
        }
    }

    /// Waits until nothing is under way, then lets the newcomers look at every server connection of the pool.
    pub fn check(&mut self, world: &World) -> Result<(), String> {
        for node in world.cluster().nodes() {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let left = world.ask(node, "postgres", UNDER_WAY);
                if left == "0/0" {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(format!("{}: statements/locks left: {left}", node.name()));
                }
                sleep(Duration::from_millis(2));
            }
        }
        let [writing, reading] = &self.wanted;
        // The replicas are asked in turn, so a second round finds the other one.
        for (begin, wanted) in [writing, reading, reading] {
            // All are in transactions at once, so that each has a connection of its own.
            for client in &mut self.clients {
                ask(client, begin)?;
            }
            for client in &mut self.clients {
                look(client, begin, wanted)?;
            }
            for client in &mut self.clients {
                client.query("rollback");
            }
        }
        Ok(())
    }
}

fn look(client: &mut Client, begin: &str, wanted: &str) -> Result<(), String> {
    let seen = hear(client)?;
    if seen == wanted {
        return Ok(());
    }
    let differs = |(a, b): (&str, &str)| (a != b).then(|| format!("{b} instead of {a}"));
    let all: Vec<_> = wanted.lines().zip(seen.lines()).filter_map(differs).collect();
    Err(format!("a newcomer ({begin}) finds {}", all.join(", ")))
}

fn ask(client: &mut Client, begin: &str) -> Result<(), String> {
    let both = [frontend::query(begin), frontend::query(SEEN)].concat();
    client.send(&both).map_err(|error| format!("a newcomer cannot write: {error}"))
}

fn hear(client: &mut Client) -> Result<String, String> {
    let (reply, trouble) = client.recv_until(b'Z', 2);
    match (trouble, reply.sqlstate()) {
        (None, None) => Ok(reply.value().replace("\\n", "\n")),
        (trouble, _) => Err(format!("a newcomer hears {} {trouble:?}", reply.render(Detail::Full))),
    }
}
