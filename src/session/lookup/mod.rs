//! Users that are not configured, or without a password: `auth.query` asks a server for them.
//!
//! What a server said is believed for a while, about those who exist and those who do not for equally long: the time of an answer must not
//! tell them apart. There is one question per user at a time, on connections of its own, and nobody waits for somebody else's.

mod ask;

use std::{
    num::NonZeroUsize,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{account::Account, shared::Snapshot, worker::Worker};
use crate::{
    base::{Blame, Report, SqlState},
    config::{Secret, User},
    observe::LookupEnd,
    pool::{CheckoutError, Pools},
};

/// How long an answer is believed.
pub(super) const FRESH: Duration = Duration::from_secs(10);
/// Younger than this, an answer is not asked for again even if a login fails by it: somebody who guesses does not ask the server each time.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// While no server answers, an old answer is better than none.
const STALE: Duration = Duration::from_secs(3600);
/// From the question to the answer, whatever it takes to get a connection.
const DEADLINE: Duration = Duration::from_secs(5);
/// Answers kept; the one that was not used for longest makes room.
const MOST: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// What `auth.query` has told of users.
pub(super) struct Lookups {
    entries: Mutex<LruCache<Key, Entry>>,
    pools: Pools,
}

/// Database as configured, and user: each database may be on servers of its own.
type Key = (Box<str>, Box<str>);

/// The account as far as there is one.
type Found = Result<Option<Arc<Account>>, Arc<LookupError>>;

#[derive(Default)]
struct Entry {
    kept: Option<Kept>,
    asking: Option<watch::Receiver<Option<Found>>>,
}

struct Kept {
    account: Option<Arc<Account>>,
    asked: Instant,
}

/// Nobody could say whether there is such a user.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    /// No connection to any node.
    #[error("no server could be asked: {0}")]
    Connection(#[from] CheckoutError),
    /// The connection ended under the question.
    #[error("the connection was lost")]
    Lost,
    /// The server could not run it.
    #[error("{message} ({sqlstate})")]
    Query {
        /// Its code.
        sqlstate: SqlState,
        /// Its words.
        message: Box<str>,
    },
    /// The answer is none to that question.
    #[error("the query gave {0}")]
    Answer(&'static str),
    /// No answer within [`DEADLINE`].
    #[error("no answer within {DEADLINE:?}")]
    Deadline,
}

impl Report for LookupError {
    fn blame(&self) -> Blame {
        match self {
            Self::Query { .. } | Self::Answer(_) => Blame::Operator,
            Self::Connection(_) | Self::Lost | Self::Deadline => Blame::Server,
        }
    }

    fn sqlstate(&self) -> SqlState {
        SqlState::CANNOT_CONNECT_NOW
    }

    fn to_client(&self) -> std::borrow::Cow<'static, str> {
        "the user could not be looked up, try again later".into()
    }
}

/// Who is looked for, and where.
#[derive(Clone)]
pub(super) struct Question {
    pub worker: Rc<Worker>,
    pub snapshot: Arc<Snapshot>,
    /// Index of the database in the configuration.
    pub database: usize,
    pub user: Box<str>,
}

impl Question {
    fn key(&self) -> Option<Key> {
        let database = self.snapshot.config.databases.get(self.database)?;
        Some((database.name.as_str().into(), self.user.clone()))
    }
}

impl Lookups {
    /// Nothing is known yet.
    pub(super) fn new(workers: usize) -> Self {
        Self { entries: Mutex::new(LruCache::new(MOST)), pools: Pools::new(workers) }
    }

    /// The connections that questions are asked on.
    pub(super) fn pools(&self) -> &Pools {
        &self.pools
    }

    /// What was told within `age`, or is told now. `Ok(None)`: there is no such user.
    pub(super) async fn find(self: &Arc<Self>, question: Question, age: Duration) -> Found {
        let Some(key) = question.key() else { return Ok(None) };
        let mut answer = {
            let mut entries = self.entries.lock();
            let entry = entries.get_or_insert_mut(key.clone(), Entry::default);
            match (&entry.kept, &entry.asking) {
                (Some(kept), _) if kept.asked.elapsed() < age => {
                    question.worker.metrics.lookup(LookupEnd::Kept);
                    return Ok(kept.account.clone());
                }
                (_, Some(asking)) => asking.clone(),
                (_, None) => {
                    let (tell, asking) = watch::channel(None);
                    entry.asking = Some(asking.clone());
                    // Not part of this login, which may end before the answer is there; others may wait for the same one.
                    tokio::task::spawn_local(Arc::clone(self).ask(question, key, tell));
                    asking
                }
            }
        };
        // The task has a deadline and answers in any case, unless its thread ends.
        let told = answer.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        told.unwrap_or_else(|| Err(Arc::new(LookupError::Lost)))
    }

    /// The servers hold another secret than the one kept.
    pub(super) fn forget(&self, database: &str, user: &str) {
        self.entries.lock().pop(&(database.into(), user.into()));
    }

    async fn ask(self: Arc<Self>, question: Question, key: Key, tell: watch::Sender<Option<Found>>) {
        let asked = ask::ask(&question, &self.pools);
        let told = tokio::time::timeout(DEADLINE, asked).await.unwrap_or(Err(LookupError::Deadline));
        let metrics = &question.worker.metrics;
        let found = match told {
            Ok(secret) => {
                metrics.lookup(if secret.is_some() { LookupEnd::Found } else { LookupEnd::Unknown });
                let old = self.entries.lock().peek(&key).and_then(|entry| entry.kept.as_ref()?.account.clone());
                Ok(match secret {
                    Some(secret) => account(&question, secret, old).await,
                    None => None,
                })
            }
            Err(error) => {
                metrics.lookup(LookupEnd::Failed);
                question.worker.shared.lookup_failed(&key.0, &error);
                Err(error)
            }
        };
        let mut entries = self.entries.lock();
        let entry = entries.get_or_insert_mut(key, Entry::default);
        entry.asking = None;
        let answer = match (found, &entry.kept) {
            (Ok(account), _) => {
                entry.kept = Some(Kept { account: account.clone(), asked: Instant::now() });
                Ok(account)
            }
            (Err(_), Some(kept)) if kept.asked.elapsed() < STALE => Ok(kept.account.clone()),
            (Err(error), _) => Err(Arc::new(error)),
        };
        drop(entries);
        tell.send_replace(Some(answer));
    }
}

/// The account of somebody with this secret; what is configured of it counts, and an old account with the same secret stays.
async fn account(question: &Question, secret: Secret, old: Option<Arc<Account>>) -> Option<Arc<Account>> {
    let configured = question.snapshot.account(&question.user);
    let user = match configured {
        Some(known) => User { secret, ..(*known.user).clone() },
        None => User {
            hints: None,
            name: question.user.to_string(),
            secret,
            databases: None,
            pool_size: None,
            max_clients: None,
            statement_timeout: Duration::ZERO,
            rate: None,
        },
    };
    if let Some(old) = old.as_ref().filter(|old| *old.user == user) {
        return Some(Arc::clone(old));
    }
    let known = configured.cloned();
    let made = move || Account::new(Arc::new(user), old.as_deref()).sharing_rate_of(known.as_ref());
    // A password in clear text is hashed.
    question.worker.shared.hashing.run(made).await.map(Arc::new)
}

impl std::fmt::Debug for Lookups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookups").field("kept", &self.entries.lock().len()).finish_non_exhaustive()
    }
}
