//! Reads the catalogs of databases, and keeps them up to date.
//!
//! One task and one connection per database, on the control thread. What a worker has seen (DDL, a name nobody knows) is looked
//! after soon; otherwise a fingerprint of the catalog is asked for, and the catalog itself only if that has changed. A
//! server is asked so seldom that it spends little of its time on it, however large the catalog.

mod assemble;
mod read;
mod tally;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch as signal},
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{
    Shared,
    link::{Link, LinkError},
    state::{Host, Login},
};
use crate::{
    config::{Config, Database},
    sql::{
        Functions,
        catalog::{Catalog, Published},
    },
};
use assemble::Library;
use read::Reading;
pub use tally::CatalogTally;
use tally::{Look, Tally};

/// Between two looks when nobody has asked for one: changes that others make are noticed after so long.
const PERIOD: Duration = Duration::from_secs(5);
/// The same when a name is missing.
const MISSED: Duration = Duration::from_secs(1);
/// The same when code has run that may have changed something.
const DOUBTED: Duration = Duration::from_millis(250);
/// The same after a change that was seen.
const CHANGED: Duration = Duration::from_millis(50);
/// And never sooner than this many times as long as the last look took.
const REST: u32 = 5;
/// A catalog that could not be looked at for so long is not believed any more.
const BELIEVED: Duration = Duration::from_secs(30);
/// Most databases whose catalogs are kept. Those beyond are judged by built-in names alone.
const MOST: usize = 200;

/// The catalogs of all databases that anybody uses.
pub(super) struct Catalogs {
    entries: Mutex<HashMap<Key, Entry>>,
    functions: Arc<Functions>,
    /// Goes up whenever a catalog was looked at, whatever came out.
    looked: signal::Sender<u64>,
}

/// A database of the configuration, and its name on the servers: of `*` there can be many.
type Key = (Box<str>, Box<str>);

struct Entry {
    published: Arc<Published>,
    call: Arc<Call>,
    task: AbortHandle,
}

/// A database of `*`, which is looked after only while somebody uses it.
fn is_one_of_many(key: &Key) -> bool {
    *key.0 == *"*"
}

/// What a keeping task is told.
struct Call {
    wake: Notify,
    /// How often somebody wanted it to be looked at at once; the first time when it was made.
    asked: AtomicU64,
    /// How many of these were before the last look, even if nothing came out.
    answered: AtomicU64,
    tally: Tally,
}

impl Call {
    fn new() -> Self {
        Self { wake: Notify::new(), asked: AtomicU64::new(1), answered: AtomicU64::new(0), tally: Tally::default() }
    }

    fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire) == self.asked.load(Ordering::Acquire)
    }
}

impl Catalogs {
    pub(super) fn new(functions: Arc<Functions>) -> Self {
        Self { entries: Mutex::default(), functions, looked: signal::Sender::new(0) }
    }

    /// The catalog of a database, kept from now on. Callable from any thread; `runtime` is the control thread's.
    pub(super) fn find(&self, shared: &Arc<Shared>, database: &str, dbname: &str) -> Arc<Published> {
        let mut entries = self.entries.lock();
        let key: Key = (database.into(), dbname.into());
        if let Some(entry) = entries.get(&key) {
            if Arc::strong_count(&entry.published) == 1 && is_one_of_many(&key) {
                // Nobody has kept it up to date while nobody used it.
                entry.published.change();
            }
            return Arc::clone(&entry.published);
        }
        if entries.len() >= MOST {
            // Whoever uses it has an end of it, and its task none.
            let unused = entries.iter().find(|(_, entry)| Arc::strong_count(&entry.published) == 1);
            let Some(unused) = unused.map(|(key, _)| key.clone()) else {
                return Arc::new(Published::new(|| {}));
            };
            if let Some(entry) = entries.remove(&unused) {
                entry.task.abort();
            }
        }
        let call = Arc::new(Call::new());
        let woken = Arc::clone(&call);
        let published = Arc::new(Published::new(move || woken.wake.notify_one()));
        let keeper = Keeper {
            shared: Arc::clone(shared),
            key: key.clone(),
            published: Arc::downgrade(&published),
            call: Arc::clone(&call),
            open: None,
            defaults: None,
        };
        let task = shared.runtime.spawn(keeper.keep()).abort_handle();
        entries.insert(key, Entry { published: Arc::clone(&published), call, task });
        published
    }

    /// Another configuration: what is not in it is forgotten, the rest is looked at at once.
    pub(super) fn reload(&self, config: &Config) {
        self.entries.lock().retain(|(database, _), entry| {
            let stays = config.databases.iter().any(|known| *known.name == **database);
            if stays {
                entry.call.asked.fetch_add(1, Ordering::AcqRel);
                entry.call.wake.notify_one();
            } else {
                entry.task.abort();
            }
            stays
        });
    }

    /// Resolves when every catalog was looked at since the process began, or since the last reload.
    pub(super) async fn looked_at(&self) {
        let mut looked = self.looked.subscribe();
        loop {
            looked.borrow_and_update();
            if self.entries.lock().values().all(|entry| entry.call.is_answered()) {
                return;
            }
            // The sender lives as long as we do.
            let _ = looked.changed().await;
        }
    }

    /// What became of the looks at the catalogs of each database.
    pub(super) fn tallies(&self, now: Duration) -> BTreeMap<Box<str>, CatalogTally> {
        let mut tallies = BTreeMap::<Box<str>, CatalogTally>::new();
        for ((database, _), entry) in &*self.entries.lock() {
            let tally = entry.call.tally.read(now, entry.published.is_fresh());
            let sum = match tallies.remove(database) {
                Some(sum) => sum.and(tally),
                None => tally,
            };
            tallies.insert(database.clone(), sum);
        }
        tallies
    }

    pub(super) fn stop(&self) {
        self.entries.lock().drain().for_each(|(_, entry)| entry.task.abort());
    }
}

/// Keeps one catalog.
struct Keeper {
    shared: Arc<Shared>,
    key: Key,
    published: Weak<Published>,
    call: Arc<Call>,
    open: Option<Open>,
    /// What sessions began with when it was looked at last.
    defaults: Option<String>,
}

/// A connection, and what was read on it.
struct Open {
    link: Link,
    host: Host,
    login: Login,
    fingerprint: Option<String>,
    defaults: String,
    library: Library,
}

/// Nobody there to be asked, or no answer.
#[derive(Debug, thiserror::Error)]
enum CatalogError {
    #[error("no node is up")]
    Nobody,
    #[error("{}", .0.text())]
    Link(#[from] LinkError),
    #[error("the reader ended")]
    Gone,
}

impl Keeper {
    /// For as long as anybody knows of the catalog.
    async fn keep(mut self) {
        let mut failing: Option<(Instant, String)> = None;
        let mut pause = CHANGED;
        loop {
            let (begun, asked) = (Instant::now(), self.call.asked.load(Ordering::Acquire));
            let Some(published) = self.published.upgrade() else { return };
            if Arc::strong_count(&published) == 2 && is_one_of_many(&self.key) && published.is_fresh() {
                drop(published);
                self.answer(self.call.asked.load(Ordering::Acquire));
                self.wait(Instant::now(), PERIOD, false).await;
                continue;
            }
            let clock = self.shared.clock.now();
            let outcome = self.look(&published).await;
            let took = begun.elapsed();
            self.call.tally.count(outcome.as_ref().ok().copied(), clock, took);
            match outcome {
                Ok(look) => {
                    if failing.take().is_some() || look == Look::Changed {
                        tracing::debug!(database = %self.key.0, dbname = %self.key.1, ?look, ?took, "catalog read");
                    }
                    pause = CHANGED.max(took * REST);
                }
                Err(error) => {
                    self.open = None;
                    let words = error.to_string();
                    let since = match &failing {
                        Some((since, known)) if *known == words => *since,
                        known => {
                            tracing::warn!(database = %self.key.0, dbname = %self.key.1, error = %words, "the catalog cannot be read");
                            known.as_ref().map_or(begun, |(since, _)| *since)
                        }
                    };
                    if since.elapsed() >= BELIEVED && published.is_fresh() {
                        published.expire();
                    }
                    failing = Some((since, words));
                    pause = (pause * 2).clamp(CHANGED, PERIOD);
                }
            }
            drop(published);
            self.answer(asked);
            self.wait(Instant::now(), pause, failing.is_some()).await;
        }
    }

    /// Tells whoever waits that it was looked at, after so many had asked for it.
    fn answer(&self, asked: u64) {
        self.call.answered.store(asked, Ordering::Release);
        self.shared.catalogs.looked.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Until the next look is due.
    async fn wait(&self, last: Instant, pause: Duration, failing: bool) {
        loop {
            let Some(published) = self.published.upgrade() else { return };
            let after = if !self.call.is_answered() {
                return;
            } else if failing || !published.is_fresh() {
                pause
            } else if published.is_doubted() {
                pause.max(DOUBTED)
            } else if published.is_missed() {
                pause.max(MISSED)
            } else {
                pause.max(PERIOD)
            };
            drop(published);
            tokio::select! {
                () = sleep_until(last + after) => return,
                () = self.call.wake.notified() => {}
            }
        }
    }

    /// Looks whether anything has changed, and reads what has.
    async fn look(&mut self, published: &Published) -> Result<Look, CatalogError> {
        published.take_missed();
        let (number, changes) = (published.begin(), published.changes());
        let (host, login) = self.shared.state.lock().reader(&self.key.0, &self.key.1).ok_or(CatalogError::Nobody)?;
        let functions = Arc::clone(&self.shared.catalogs.functions);
        let open = match self.open.take().filter(|open| open.host == host && open.login == login) {
            Some(open) => self.open.insert(open),
            None => self.open.insert(Open::new(host, login).await?),
        };
        let read = open.read(functions).await?;
        if self.defaults.as_ref().is_some_and(|known| *known != open.defaults) {
            published.change_defaults();
        }
        self.defaults = Some(open.defaults.clone());
        let look = match read {
            Some(catalog) => {
                published.publish(catalog, changes);
                Look::Changed
            }
            None => {
                published.confirm(changes);
                Look::Same
            }
        };
        published.end(number);
        Ok(look)
    }
}

impl Open {
    async fn new(host: Host, login: Login) -> Result<Self, LinkError> {
        let link = Link::connect(&host, &login, read::OPTIONS).await?;
        Ok(Self { link, host, login, fingerprint: None, defaults: String::new(), library: Library::default() })
    }

    /// The catalog, if it is not what it was.
    async fn read(&mut self, functions: Arc<Functions>) -> Result<Option<Catalog>, CatalogError> {
        let reading = Reading::begin(&self.link).await?;
        let fingerprint = reading.fingerprint.clone();
        self.defaults.clone_from(&reading.defaults);
        if self.fingerprint.as_ref() == Some(&fingerprint) {
            reading.end().await?;
            return Ok(None);
        }
        let (base, names) = (reading.base.clone(), reading.names().await?);
        let mut library = std::mem::take(&mut self.library);
        if library.lacks_built_in() {
            library.learn_built_in(&reading.built_in().await?);
        }
        let lacking = library.lacking(&names);
        let views = reading.views(&lacking.views).await?;
        let bodies = reading.bodies(&lacking.functions).await?;
        reading.end().await?;
        let assembled = tokio::task::spawn_blocking(move || {
            let catalog = library.assemble(&names, base.as_deref(), &views, &bodies, &functions);
            (library, catalog)
        });
        let (library, catalog) = assembled.await.map_err(|_| CatalogError::Gone)?;
        (self.library, self.fingerprint) = (library, Some(fingerprint));
        Ok(Some(catalog))
    }
}

/// Reads a catalog once, for whoever does not stay: on the primary, or else on whatever node answers. The error says what each node said.
///
/// # Errors
/// No node could be asked.
pub async fn read_catalog(
    config: &Config,
    database: &Database,
    dbname: &str,
    functions: Arc<Functions>,
) -> Result<Catalog, String> {
    let login = super::state::login(database, config, Some(dbname));
    let (mut replica, mut said) = (None, Vec::new());
    for node in &database.nodes {
        let host = Host { name: node.host.clone(), port: node.port };
        match Open::new(host, login.clone()).await {
            Ok(open) => match open.link.row("SELECT pg_catalog.pg_is_in_recovery()").await {
                Ok(row) if read::text(&row, 0) == "f" => {
                    replica = Some(open);
                    break;
                }
                Ok(_) => replica = replica.or(Some(open)),
                Err(error) => said.push(format!("{}: {}", node.name, error.text())),
            },
            Err(error) => said.push(format!("{}: {}", node.name, error.text())),
        }
    }
    let Some(mut open) = replica else { return Err(said.join("; ")) };
    match open.read(functions).await {
        Ok(Some(catalog)) => Ok(catalog),
        Ok(None) => Err("nothing was read".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
