//! The life of the process.

use std::{
    io,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};

use super::{
    listen::Door,
    load::load,
    reload::Reloader,
    workers::{self, Brain, Letter, Mailbox},
};
use crate::{
    admin::{self, AdminState},
    base::{Clock, Generation},
    cluster::Cluster,
    config::{Admin, Config},
    observe::{self, CatalogFacts, Metrics, NodeFacts, Repeats, RuleFacts, Sources, Words},
    policy::{HitKind, On, RuleSet},
    pool::Pools,
    route::{Health, RouteReason},
    session::{Admission, Hashing, Keys, Shared, Singles, Snapshot},
    sql::{Functions, Misroutes, ShapeKey},
    taps::{self, Home, Learner},
    wire::scram::MockSecret,
};

/// How long the first client waits for the first look at the nodes.
const FIRST_LOOK: Duration = Duration::from_secs(3);
/// Sessions that are cut may take so long to say so to their clients, and to cancel what they have run.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Shapes remembered as writers that looked like reads.
const MISROUTES: usize = 10_000;

/// Serves until a signal ends it. The exit code says whether it ended as asked.
pub fn run(path: &Path) -> io::Result<ExitCode> {
    let (config, rules, warnings) = match load(path, None) {
        Ok(loaded) => loaded,
        Err(faults) => return Err(io::Error::new(io::ErrorKind::InvalidInput, faults.to_string())),
    };
    let log = observe::install(&config.log).map_err(io::Error::other)?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let config = Arc::new(config);
    let rules = Arc::new(rules);
    let clock = Clock::start();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    // Before anything else is done: by default each of them ends the process.
    let signals = Signals::install()?;
    let functions = Arc::new(Functions::built_in().map_err(io::Error::other)?);
    let cluster = Cluster::start(Arc::clone(&config), clock, Arc::clone(&functions));

    let doors = config.listen.iter().map(|l| Door::open(l, config.port())).collect::<io::Result<Vec<Door>>>()?;
    let admin = config.admin.as_ref().map(bind_admin).transpose()?;

    let (mailboxes, inboxes): (Vec<_>, Vec<_>) = (0..config.workers).map(|_| Mailbox::new()).unzip();
    let views = (0..config.databases.len()).filter_map(|i| cluster.view(i)).collect();
    let pools = Arc::new(Pools::new(config.workers));
    let store = Arc::new(ArcSwapOption::new(home(&config, path).map(Arc::new)));
    let reader = Arc::clone(&store);
    let learner = Learner::start(move || reader.load().as_ref().map(|home| (**home).clone()))?;
    let counted = Arc::new(ArcSwap::new(Arc::clone(&rules)));
    let metrics = Arc::new(metrics(&config, &cluster, &pools, &counted, &learner)?);
    let (suspect, catalogs) = (cluster.clone(), cluster.clone());
    let (forward, teller) = (mailboxes.clone(), learner.clone());
    let shared = Arc::new(Shared {
        snapshot: ArcSwap::from_pointee(Snapshot::new(Generation(1), Arc::clone(&config), rules, views, None)),
        pools,
        metrics: Arc::clone(&metrics),
        keys: Keys::default(),
        admission: Admission::default(),
        mock: MockSecret::random(),
        hashing: Hashing::new(config.workers),
        generation: AtomicU64::new(1),
        singles: Singles::default(),
        unreached: Repeats::default(),
        unasked: Repeats::default(),
        lost: Repeats::default(),
        matched: Repeats::default(),
        turned_away: Repeats::default(),
        schema: AtomicU64::new(0),
        draining: AtomicBool::new(false),
        clock,
        suspect: Box::new(move |node| suspect.suspect(node)),
        learn: Box::new(move |lesson, count| {
            teller.tell(taps::Lesson {
                listed_for: Arc::clone(&lesson.listed_for),
                fingerprint: lesson.fingerprint.to_string(),
                text: Arc::clone(&lesson.text),
                kind: lesson.kind,
                tables: Arc::clone(&lesson.tables),
                allowed: lesson.on == On::TheList,
                count,
            })
        }),
        catalog: Box::new(move |database, dbname| catalogs.catalog(database, dbname)),
        forward_cancel: Box::new(move |worker, pid| {
            if let Some(mailbox) = forward.get(worker) {
                mailbox.tell(Letter::Cancel(pid));
            }
        }),
    });
    let brain = Brain { key: ShapeKey::random(), functions, misroutes: Arc::new(Misroutes::new(MISROUTES)) };
    for (index, inbox) in inboxes.into_iter().enumerate() {
        workers::start(index, inbox, &shared, &brain)?;
    }
    let reloader = Arc::new(Reloader::new(path.to_owned(), Arc::clone(&shared), cluster.clone(), counted, store, log));

    runtime.block_on(async {
        let first_look = async {
            cluster.ready().await;
            cluster.read_catalogs(&config);
            cluster.catalogs_read().await;
        };
        if tokio::time::timeout(FIRST_LOOK, first_look).await.is_err() {
            tracing::warn!("not all nodes have answered yet");
        }
        let handles = doors.iter().map(Door::handle).collect::<io::Result<Vec<Door>>>()?;
        for door in doors {
            tracing::info!(address = door.address(), "listening");
            if let Some(first) = mailboxes.first() {
                first.tell(Letter::Listen(door, mailboxes.clone()));
            }
        }
        if let Some(listener) = admin {
            let state = admin_state(&cluster, &metrics, &reloader, &shared);
            tokio::spawn(async move {
                if let Err(error) = admin::serve(listener, state, std::future::pending()).await {
                    tracing::error!(%error, "the admin listener ended");
                }
            });
        }
        signals.until_asked(&reloader).await;
        drain(&shared, &mailboxes, &handles).await;
        learner.finish();
        cluster.shutdown();
        Ok(ExitCode::SUCCESS)
    })
}

/// What the process listens to. A signal that comes before anybody waits for it is kept.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Call inside the runtime that will wait for them.
    fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Returns on SIGTERM or SIGINT; reloads on SIGHUP meanwhile.
    async fn until_asked(mut self, reloader: &Arc<Reloader>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    let reloader = Arc::clone(reloader);
                    // Hashing new passwords takes time that the probes should not lose; but those of new nodes are started in this
                    // runtime, so it is not a thread of its own. The faults are logged there.
                    tokio::task::spawn_blocking(move || drop(reloader.reload()));
                }
            }
        }
    }
}

/// Idle clients are told to go, transactions may end, the rest is cut at the deadline.
async fn drain(shared: &Arc<Shared>, mailboxes: &[Mailbox], doors: &[Door]) {
    let deadline = shared.snapshot.load().config.limits.shutdown;
    tracing::info!(clients = shared.clients(), ?deadline, "draining");
    shared.draining.store(true, Ordering::SeqCst);
    for door in doors {
        door.close();
    }
    until_gone(shared, mailboxes, deadline, || Letter::Drain).await;
    if shared.clients() > 0 {
        tracing::info!(clients = shared.clients(), "the time for draining is over");
        until_gone(shared, mailboxes, LAST_WORDS, || Letter::Cut).await;
    }
    tracing::info!(clients = shared.clients(), "leaving");
}

/// Tells all workers the same until there are no clients left, for so long at most: one that comes in the middle of a login hears it, too.
async fn until_gone(shared: &Shared, mailboxes: &[Mailbox], deadline: Duration, letter: impl Fn() -> Letter) {
    let started = Instant::now();
    while shared.clients() > 0 && started.elapsed() < deadline {
        for mailbox in mailboxes {
            mailbox.tell(letter());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Where the allow list keeps what it has learned.
pub(super) fn home(config: &Config, path: &Path) -> Option<Home> {
    let list = &config.firewall.allow_list;
    let base = path.parent().unwrap_or(Path::new(""));
    list.store.as_ref().map(|store| Home { path: base.join(store), capacity: list.capacity })
}

fn bind_admin(admin: &Admin) -> io::Result<std::net::TcpListener> {
    std::net::TcpListener::bind(admin.listen)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {}: {error}", admin.listen)))
}

fn metrics(
    config: &Config,
    cluster: &Cluster,
    pools: &Arc<Pools>,
    rules: &Arc<ArcSwap<RuleSet>>,
    learner: &Learner,
) -> io::Result<Metrics> {
    let words = Words { reasons: RouteReason::WORDS, pins: crate::session::PIN_REASONS, taps: &["learn"] };
    let (cluster, pools, catalogs) = (cluster.clone(), Arc::clone(pools), cluster.clone());
    let nodes = move || {
        let (views, pools) = (cluster.views(), pools.all());
        let facts = views.iter().flat_map(|(database, view)| {
            let pools = &pools;
            view.nodes.iter().map(move |node| {
                let of_node = pools.iter().filter(|(key, _)| *key.database == **database && key.node == node.id);
                let (total, idle) = of_node.fold((0, 0), |(total, idle), (_, pool)| {
                    let census = pool.census();
                    (total + census.0, idle + census.1)
                });
                NodeFacts {
                    database: Arc::clone(database),
                    node: Arc::clone(&node.name),
                    role: node.role.as_str(),
                    up: node.health == Health::Up,
                    lag: node.lag_time,
                    lag_bytes: node.lag_bytes,
                    idle,
                    active: total.saturating_sub(idle),
                }
            })
        });
        facts.collect()
    };
    let (rules, learner) = (Arc::clone(rules), learner.clone());
    let rules = move || {
        let rules = rules.load();
        let facts = rules.hits().map(|(section, name, hits)| RuleFacts {
            section: section.as_str(),
            rule: Arc::clone(name),
            hits: HitKind::ALL.map(|kind| (kind.as_str(), hits.total(kind))).to_vec(),
        });
        let hits = vec![("overflow", learner.overflow())];
        let overflow = RuleFacts { section: "firewall", rule: "allow-list".into(), hits };
        facts.chain([overflow]).collect()
    };
    let catalogs = move || {
        let tallies = catalogs.catalog_tallies().into_iter();
        let facts = tallies.map(|(database, tally)| CatalogFacts {
            database,
            looks: [("same", tally.same), ("changed", tally.changed), ("failed", tally.failed)],
            took: tally.took,
            age: tally.age,
            fresh: tally.fresh,
        });
        facts.collect()
    };
    let sources = Sources { nodes: Box::new(nodes), rules: Box::new(rules), catalogs: Box::new(catalogs) };
    Metrics::new(config.workers, words, sources).map_err(io::Error::other)
}

fn admin_state(
    cluster: &Cluster,
    metrics: &Arc<Metrics>,
    reloader: &Arc<Reloader>,
    shared: &Arc<Shared>,
) -> AdminState {
    let (cluster, metrics, reloader, shared) =
        (cluster.clone(), Arc::clone(metrics), Arc::clone(reloader), Arc::clone(shared));
    let catalogs = cluster.clone();
    AdminState {
        looked: Arc::new(move || {
            let cluster = catalogs.clone();
            Box::pin(async move { cluster.catalogs_read().await })
        }),
        views: Arc::new(move || cluster.views()),
        metrics: Arc::new(move || metrics.render().map_err(|error| error.to_string())),
        reload: Arc::new(move || reloader.reload()),
        tokens: Arc::new(move || {
            let snapshot = shared.snapshot.load();
            snapshot.config.admin.as_ref().map(|admin| Arc::from(admin.tokens.as_slice())).unwrap_or_default()
        }),
    }
}
