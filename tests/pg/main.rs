//! Black-box tests against a real primary and two streaming replicas.
//!
//! One binary with its own runner, so that set-up and tear-down are certain. Arguments: parts of names to run,
//! `--skip PART`, `--exact`, `--list`. `PGSLUICE_TEST_VIA=direct` runs without a proxy, which checks the tests.

#![allow(unreachable_pub, reason = "a test binary has no public door; pub marks what the modules share")]

mod backend;
mod cancel;
mod carrier;
mod catalog;
#[allow(dead_code, reason = "shared with unit tests")]
mod certs;
mod client;
mod clients;
mod copy;
mod crowd;
mod firewall;
mod fresh;
mod frontend;
mod gate;
mod guard;
mod hostile;
mod identity;
mod leaving;
mod lifecycle;
mod limits;
mod login;
mod lookup;
mod lost;
mod nodes;
mod pools;
mod prepared;
mod random;
mod rate;
mod rewrite;
mod routing;
mod rules;
mod script;
mod shared;
mod standby;
mod state;
mod tls;
mod told;
mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::Instant,
};

use world::{Via, World};

/// One test.
pub struct Case {
    name: String,
    needs: Needs,
    run: Box<dyn Fn(&World)>,
}

/// What a test is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Holds for PostgreSQL itself, too.
    Nothing,
    /// Asks what only pgsluice can answer.
    Pgsluice,
    /// Asks about the result cache.
    Cache,
    /// Asks about reads that are as new as any client's write.
    Global,
}

impl Needs {
    /// Whether the program under test has it: a version that does not says so when it checks its configuration.
    fn met(self, via: Via) -> bool {
        let database = match self {
            Self::Nothing => return true,
            Self::Pgsluice => return via == Via::Pgsluice,
            Self::Cache => "cache: { enabled: true }",
            Self::Global => "routing: { consistency: global }",
        };
        via == Via::Pgsluice && world::accepts(database)
    }
}

impl Case {
    /// A test by its name, `module::what_holds`.
    pub fn new(name: impl Into<String>, needs: Needs, run: impl Fn(&World) + 'static) -> Self {
        Self { name: name.into(), needs, run: Box::new(run) }
    }
}

/// Functions of one module as cases `module::function`.
macro_rules! cases {
    ($module:literal, $needs:ident: $($name:ident),* $(,)?) => {
        [$($crate::Case::new(concat!($module, "::", stringify!($name)), $crate::Needs::$needs, $name)),*]
    };
}
pub(crate) use cases;

fn all(via: Via) -> Vec<Case> {
    let mut cases = script::cases();
    cases.extend(login::cases());
    cases.extend(identity::cases());
    cases.extend(lookup::cases());
    cases.extend(limits::cases());
    cases.extend(rate::cases());
    cases.extend(clients::cases());
    cases.extend(crowd::cases());
    cases.extend(routing::cases());
    cases.extend(catalog::cases());
    cases.extend(fresh::cases());
    cases.extend(guard::cases());
    cases.extend(firewall::cases());
    cases.extend(rules::cases());
    cases.extend(hostile::cases());
    cases.extend(standby::cases());
    cases.extend(rewrite::cases());
    cases.extend(shared::cases());
    cases.extend(state::cases());
    cases.extend(lost::cases());
    cases.extend(prepared::cases());
    cases.extend(cancel::cases());
    cases.extend(copy::cases());
    cases.extend(leaving::cases());
    cases.extend(told::cases());
    cases.extend(nodes::cases());
    cases.extend(lifecycle::cases());
    cases.extend(pools::cases());
    cases.extend(tls::cases());
    cases.extend(random::cases());
    let lacking = [Needs::Pgsluice, Needs::Cache, Needs::Global].into_iter().filter(|needs| !needs.met(via));
    let lacking: Vec<Needs> = lacking.collect();
    let all = cases.len();
    cases.retain(|case| !lacking.contains(&case.needs));
    if cases.len() < all {
        println!("left out: {} tests that need {lacking:?}", all - cases.len());
    }
    cases
}

/// What the command line asks for.
#[derive(Default)]
struct Wanted {
    parts: Vec<String>,
    skip: Vec<String>,
    exact: bool,
    list: bool,
}

impl Wanted {
    fn from_arguments() -> Self {
        let mut wanted = Self::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => wanted.list = true,
                "--exact" => wanted.exact = true,
                "--skip" => wanted.skip.extend(arguments.next()),
                "--test-threads" | "--format" | "--color" | "-Z" => {
                    arguments.next();
                }
                flag if flag.starts_with('-') => {}
                part => wanted.parts.push(part.to_owned()),
            }
        }
        wanted
    }

    fn includes(&self, name: &str) -> bool {
        let fits = |part: &String| if self.exact { name == part } else { name.contains(part.as_str()) };
        (self.parts.is_empty() || self.parts.iter().any(fits))
            && !self.skip.iter().any(|part| name.contains(part.as_str()))
    }
}

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let world = World::new();
    let (chosen, left): (Vec<Case>, Vec<Case>) =
        all(world.via).into_iter().partition(|case| wanted.includes(&case.name));
    if wanted.list {
        chosen.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", chosen.len());
    std::panic::set_hook(Box::new(|what| println!("{what}")));
    let began = Instant::now();
    let mut failed = Vec::new();
    for case in &chosen {
        let ok = catch_unwind(AssertUnwindSafe(|| (case.run)(&world))).is_ok();
        println!("test {} ... {}", case.name, if ok { "ok" } else { "FAILED" });
        if !ok {
            failed.push(case.name.as_str());
        }
    }
    drop(world);
    if !failed.is_empty() {
        println!("\nfailures:");
        failed.iter().for_each(|name| println!("    {name}"));
    }
    let (passed, verdict) = (chosen.len() - failed.len(), if failed.is_empty() { "ok" } else { "FAILED" });
    println!(
        "\ntest result: {verdict}. {passed} passed; {} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        failed.len(),
        left.len(),
        began.elapsed().as_secs_f64()
    );
    println!("{passed} passed, {} failed", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
