//! Random clients: what a seed makes them say is said to the server itself and through the proxy, with pools of one and of
//! three connections, several clients at once; they must hear the same, do the same to their tables, and leave nothing behind.
//!
//! `PGSLUICE_RANDOM_SEED` begins elsewhere, `PGSLUICE_RANDOM_SCRIPTS` says how many scripts, `PGSLUICE_RANDOM_SECONDS` makes it go
//! on for so long. A failure prints the seed, the script, and the smallest script found that fails as well.

mod dialogue;
mod dice;
mod generate;
mod residue;
mod run;
mod script;
mod shrink;
mod sql;

use std::{
    cell::{Cell, RefCell},
    env,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Case, cases,
    world::{Proxy, Setup, World},
};
use residue::Probe;
use run::Trace;
use script::{End, Names, Script};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("random", Nothing: a_client_cannot_tell))
}

/// Clients that talk at the same time.
const TOGETHER: usize = 3;
/// Scripts of one run when nothing else is asked for.
const SCRIPTS: usize = 90;
/// Where the seeds of an ordinary run begin.
const SEED: u64 = 1;

/// The tables of one script in one run: rows to read and to write, constraints to break.
fn table(name: &str) -> String {
    format!(
        "create table {name}(id serial primary key, n int not null check (n < 1000), v text); \
         insert into {name}(n, v) select i * 2, 'v' || i from generate_series(1, 5) i"
    )
}

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: a number is wanted")))
}

fn a_client_cannot_tell(world: &World) {
    let seconds: Option<u64> = number("PGSLUICE_RANDOM_SECONDS");
    let scripts = number("PGSLUICE_RANDOM_SCRIPTS").unwrap_or(if seconds.is_some() { usize::MAX } else { SCRIPTS });
    let first: u64 = number("PGSLUICE_RANDOM_SEED").unwrap_or(SEED);
    let deadline = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let lab = Lab::new(world);
    let syncs = world.superuser("select current_setting('server_version_num')::int >= 180000") == "t";
    let mut said = 0;
    while said < scripts && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        let seeds = (0..TOGETHER.min(scripts - said)).map(|i| first + (said + i) as u64);
        let batch: Vec<Script> = seeds.map(generate::script).map(|s| if syncs { s.with_syncs() } else { s }).collect();
        lab.check(&batch);
        said += batch.len();
    }
    println!("random: {said} scripts from seed {first}");
}

/// The servers, the proxies before them, and a supply of tables.
struct Lab<'a> {
    world: &'a World,
    proxies: Vec<Before>,
    nodes: Vec<u16>,
    used: Cell<usize>,
}

/// A proxy, and those who look at what its clients leave.
struct Before {
    setup: Setup,
    proxy: Rc<Proxy>,
    probe: RefCell<Probe>,
}

impl Before {
    fn new(world: &World, setup: Setup, proxy: Rc<Proxy>) -> Self {
        let probe = RefCell::new(Probe::new(world, &proxy, &setup));
        Self { setup, proxy, probe }
    }
}

impl<'a> Lab<'a> {
    fn new(world: &'a World) -> Self {
        let setups =
            [1, 3].map(|size| Setup::default().size(size).checkout_timeout("30s").routing("balance: round_robin"));
        Self {
            world,
            proxies: setups.map(|setup| Before::new(world, setup.clone(), world.proxy(&setup))).into(),
            nodes: world.cluster().nodes().iter().map(|node| node.port()).collect(),
            used: Cell::new(0),
        }
    }

    /// Says the scripts everywhere, all at once through the proxies, and compares.
    fn check(&self, batch: &[Script]) {
        let mut runs = vec!['a'];
        runs.extend(('b'..).take(self.proxies.len()));
        let names = self.tables(batch.len(), &runs);
        let native: Vec<Trace> = self.say(batch, &names[0], self.world.cluster().primary().port());
        let mut faults = Vec::new();
        for (Before { setup, proxy, probe }, names_here) in self.proxies.iter().zip(&names[1..]) {
            let proxied = self.say(batch, names_here, proxy.port);
            let left = probe.borrow_mut().check(self.world);
            for (i, script) in batch.iter().enumerate() {
                let same = compare(&native[i], &proxied[i])
                    .and_then(|()| self.same_rows(script, &names[0][i], &names_here[i]));
                if let Err(what) = same {
                    faults.push((i, setup, format!("pool of {}: {what}", setup.size)));
                }
            }
            if let Err(what) = left {
                faults.push((0, setup, format!("pool of {}: {what}", setup.size)));
            }
        }
        self.drop_tables(&names);
        if let Some((culprit, setup, what)) = faults.first() {
            self.report(batch, *culprit, setup, what);
        }
    }

    fn report(&self, batch: &[Script], culprit: usize, setup: &Setup, what: &str) -> ! {
        println!("random: seed {}: {what}\n{}", batch[culprit].seed, batch[culprit]);
        // What is left behind may be anybody's.
        let order = (culprit..batch.len()).chain(0..culprit);
        for script in order.map(|i| &batch[i]) {
            if let Some((least, what)) = shrink::shrink(script, |script| self.alone(script, setup)) {
                panic!(
                    "PGSLUICE_RANDOM_SEED={} PGSLUICE_RANDOM_SCRIPTS=1 fails alone, as this does: {what}\n{least}",
                    script.seed
                );
            }
        }
        let all: Vec<String> = batch.iter().map(Script::to_string).collect();
        panic!(
            "fails among others only (PGSLUICE_RANDOM_SEED={} PGSLUICE_RANDOM_SCRIPTS={}): {what}\n{}",
            batch[0].seed,
            batch.len(),
            all.join("\n")
        );
    }

    /// One script through a proxy of its own: what is wrong with it, if anything.
    fn alone(&self, script: &Script, setup: &Setup) -> Option<String> {
        let batch = std::slice::from_ref(script);
        let proxy = Rc::new(self.world.start_proxy(setup, self.world.cluster()));
        let before = Before::new(self.world, setup.clone(), proxy);
        let names = self.tables(1, &['a', 'b']);
        let native = self.say(batch, &names[0], self.world.cluster().primary().port());
        let proxied = self.say(batch, &names[1], before.proxy.port);
        let result = compare(&native[0], &proxied[0])
            .and_then(|()| before.probe.borrow_mut().check(self.world))
            .and_then(|()| self.same_rows(script, &names[0][0], &names[1][0]));
        drop(before);
        self.drop_tables(&names);
        result.err()
    }

    /// Names and tables for so many scripts in each of the runs.
    fn tables(&self, scripts: usize, runs: &[char]) -> Vec<Vec<Names>> {
        let first = self.used.replace(self.used.get() + scripts);
        let of_run = |run: &char| (first..first + scripts).map(|number| Names::new(*run, number)).collect();
        let names: Vec<Vec<Names>> = runs.iter().map(of_run).collect();
        let sql: Vec<String> = names.iter().flatten().map(|names| table(&names.table)).collect();
        self.world.prepare(&sql.join("; "));
        names
    }

    fn drop_tables(&self, names: &[Vec<Names>]) {
        let drop = |names: &Names| format!("drop table if exists {0}x; drop table if exists {0} cascade", names.table);
        // A script may have made a view of that name.
        let views = |names: &Names| {
            format!(
                "do $$ begin drop view if exists {0}x; exception when wrong_object_type then null; end $$",
                names.table
            )
        };
        let sql: Vec<String> = names.iter().flatten().flat_map(|names| [views(names), drop(names)]).collect();
        self.world.ask(self.world.cluster().primary(), "app", &sql.join("; "));
    }

    fn say(&self, batch: &[Script], names: &[Names], port: u16) -> Vec<Trace> {
        let nodes = &self.nodes[..];
        thread::scope(|scope| {
            let clients: Vec<_> = (batch.iter().zip(names))
                .map(|(script, names)| scope.spawn(move || run::run(script, names, port, nodes)))
                .collect();
            clients.into_iter().map(|client| client.join().expect("a random client")).collect()
        })
    }

    /// Did both runs do the same to their tables? Nobody can say if the client left in the middle of a message.
    fn same_rows(&self, script: &Script, native: &Names, proxied: &Names) -> Result<(), String> {
        if matches!(script.end, End::Break(..)) {
            return Ok(());
        }
        let rows = |names: &Names| {
            let sql = format!(
                "select coalesce(string_agg(id || ' ' || n || ' ' || coalesce(v, '∅'), ', ' order by id), '') from {}",
                names.table
            );
            self.world.superuser(&sql)
        };
        let (wanted, got) = (rows(native), rows(proxied));
        if wanted == got { Ok(()) } else { Err(format!("the table holds {got}, but without the proxy {wanted}")) }
    }
}

/// The first difference of two traces that matters, with what came before it.
fn compare(native: &[String], proxied: &[String]) -> Result<(), String> {
    // After DISCARD ALL a session says again whatever has changed; a pooled one was another server's before.
    let discarded = native.iter().any(|line| line.starts_with("C(DISCARD ALL)"));
    let kept = |trace: &[String]| -> Vec<String> {
        trace.iter().filter(|line| !(discarded && line.starts_with("S("))).cloned().collect()
    };
    let (native, proxied) = (kept(native), kept(proxied));
    let Some(at) = (0..native.len().max(proxied.len())).find(|&i| native.get(i) != proxied.get(i)) else {
        return Ok(());
    };
    if is_known(&native, &proxied, at) {
        return Ok(());
    }
    let shown = |trace: &[String]| trace.iter().skip(at).take(4).map(|line| short(line)).collect::<Vec<_>>().join(" ");
    let before: Vec<String> = native[at.saturating_sub(6)..at].iter().map(|line| short(line)).collect();
    Err(format!("after {}\n- {}\n+ {}", before.join(" "), shown(&native), shown(&proxied)))
}

/// Differences that are known and cannot do harm: some request fails, or fails otherwise. What follows them is not compared.
fn is_known(native: &[String], proxied: &[String], at: usize) -> bool {
    let (Some(wanted), Some(got)) = (native.get(at), proxied.get(at)) else { return false };
    let failed = native[..at].iter().rev().find(|line| line.starts_with("Z(")).is_some_and(|line| line == "Z(E)");
    // A server whose transaction has failed cannot be told a prepared statement that it lacks; what a session of its own would still
    // say about it (its columns, a wrong number of parameters) is not known then.
    (failed && got.contains(" C=25P02 "))
        // The portals of a group that a replica had are lost when the group turns out to write: they cannot be run, and are in
        // nobody's way.
        || got.contains(" C=34000 M=portal ")
        || wanted.contains(" C=42P03 ")
        || wanted.contains(" C=55006 ")
        // A statement that the server lacks is told anew, and fails before its parameters are described.
        || (wanted.starts_with("t(") && native.get(at + 1) == Some(got) && got.starts_with("E("))
}

fn short(line: &str) -> String {
    if line.chars().count() <= 300 { line.to_owned() } else { line.chars().take(300).chain("…".chars()).collect() }
}
