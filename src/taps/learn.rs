//! What the allow list has learned goes to its store: a thread of its own gathers it and writes the file now and then.
//!
//! Only what was added since is known here; the file is read before it is written, so that what people change in it stays.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::config::rules::{Learned, ListedFor, Store};

/// Lessons on their way; what is more is dropped by whoever tells it.
const QUEUE: usize = 4096;
/// How long lessons are gathered before the file is written.
const GATHER: Duration = Duration::from_secs(1);
/// How long the end of the process waits for the last writing.
const LAST: Duration = Duration::from_secs(2);
/// Of so many places one may be taken by statements that nobody has allowed.
const TRIALS: usize = 10;

/// A statement that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// Whose list.
    pub listed_for: Arc<ListedFor>,
    /// The statement's public id.
    pub fingerprint: String,
    /// With `$n` in the place of values.
    pub text: Arc<str>,
    /// As `explain` names it.
    pub kind: &'static str,
    /// Relations it reads or writes.
    pub tables: Arc<[String]>,
    /// Whether it is allowed from now on, if it is new.
    pub allowed: bool,
    /// How often it was seen.
    pub count: u64,
}

/// Where the store is, as the configuration says now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The file.
    pub path: PathBuf,
    /// Most statements in it.
    pub capacity: usize,
}

enum Letter {
    Lesson(Lesson),
    /// Write now, and say when it is done.
    Finish(SyncSender<()>),
}

/// The way to the thread that writes.
#[derive(Clone, Debug)]
pub struct Learner {
    letters: SyncSender<Letter>,
    overflow: Arc<AtomicU64>,
}

impl Learner {
    /// Starts the thread. `home` says where the store is each time it is written; `None`: there is none.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(home: impl Fn() -> Option<Home> + Send + 'static) -> io::Result<Self> {
        let (letters, inbox) = mpsc::sync_channel(QUEUE);
        let overflow = Arc::new(AtomicU64::new(0));
        let writer = Writer { home: Box::new(home), fresh: HashMap::new(), overflow: Arc::clone(&overflow) };
        thread::Builder::new().name("learner".to_owned()).spawn(move || writer.run(&inbox))?;
        Ok(Self { letters, overflow })
    }

    /// Tells of a statement without waiting; false: it was dropped.
    pub fn tell(&self, lesson: Lesson) -> bool {
        self.letters.try_send(Letter::Lesson(lesson)).is_ok()
    }

    /// Statements for which the store had no room.
    pub fn overflow(&self) -> u64 {
        self.overflow.load(Relaxed)
    }

    /// Has everything written that was told, if that does not take long.
    pub fn finish(&self) {
        let (done, told) = mpsc::sync_channel(1);
        if self.letters.try_send(Letter::Finish(done)).is_ok() {
            let _ = told.recv_timeout(LAST);
        }
    }
}

struct Writer {
    home: Box<dyn Fn() -> Option<Home> + Send>,
    fresh: HashMap<(Arc<ListedFor>, String), Fresh>,
    overflow: Arc<AtomicU64>,
}

/// What is not in the file yet.
struct Fresh {
    lesson: Lesson,
    first: SystemTime,
    last: SystemTime,
}

impl Writer {
    fn run(mut self, inbox: &Receiver<Letter>) {
        let mut due: Option<Instant> = None;
        loop {
            let letter = match due {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => inbox.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match letter {
                Ok(Letter::Lesson(lesson)) => {
                    self.take(lesson, SystemTime::now());
                    due.get_or_insert_with(|| Instant::now() + GATHER);
                    if due.is_some_and(|due| due > Instant::now()) {
                        continue;
                    }
                }
                Ok(Letter::Finish(done)) => {
                    self.write();
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.write();
                    return;
                }
            }
            self.write();
            due = None;
        }
    }

    fn take(&mut self, lesson: Lesson, now: SystemTime) {
        let key = (Arc::clone(&lesson.listed_for), lesson.fingerprint.clone());
        if let Some(fresh) = self.fresh.get_mut(&key) {
            fresh.lesson.count += lesson.count;
            fresh.last = now;
            return;
        }
        let room = (self.home)().map_or(0, |home| home.capacity);
        if self.fresh.len() >= room {
            self.overflow.fetch_add(1, Relaxed);
            return;
        }
        self.fresh.insert(key, Fresh { lesson, first: now, last: now });
    }

    fn write(&mut self) {
        let Some(home) = (self.home)() else {
            self.fresh.clear();
            return;
        };
        if self.fresh.is_empty() {
            return;
        }
        match self.merge(&home) {
            Ok(()) => self.fresh.clear(),
            Err(error) => tracing::error!(store = %home.path.display(), %error, "the allow list was not written"),
        }
    }

    fn merge(&self, home: &Home) -> Result<(), String> {
        let mut store = match fs::read_to_string(&home.path) {
            Ok(text) => {
                let read = Store::parse(&home.path.display().to_string(), &text);
                read.map_err(|faults| faults.to_string())?.0
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Store::default(),
            Err(error) => return Err(error.to_string()),
        };
        let mut trials = store.principals.iter().flat_map(|list| &list.statements).filter(|s| !s.allowed).count();
        let mut fresh: Vec<&Fresh> = self.fresh.values().collect();
        fresh.sort_by(|a, b| (a.first, &a.lesson.fingerprint).cmp(&(b.first, &b.lesson.fingerprint)));
        for Fresh { lesson, first, last } in fresh {
            let full = store.len() >= home.capacity;
            let list = store.list_mut(&lesson.listed_for);
            if let Some(known) = list.statements.iter_mut().find(|known| known.fingerprint == lesson.fingerprint) {
                // Whether it is allowed is for people to say.
                known.count = known.count.saturating_add(lesson.count).min(u64::from(u32::MAX));
                known.last_seen = utc(*last);
                continue;
            }
            if full || (!lesson.allowed && trials >= (home.capacity / TRIALS).max(1)) {
                self.overflow.fetch_add(1, Relaxed);
                continue;
            }
            trials += usize::from(!lesson.allowed);
            list.statements.push(Learned {
                fingerprint: lesson.fingerprint.clone(),
                allowed: lesson.allowed,
                text: lesson.text.to_string(),
                kind: lesson.kind.to_owned(),
                tables: lesson.tables.to_vec(),
                first_seen: utc(*first),
                last_seen: utc(*last),
                count: lesson.count,
            });
        }
        save(&home.path, &store)
    }
}

/// Writes a store in one step: whoever reads the file meanwhile reads the old one or the new one.
///
/// # Errors
/// What the system says.
pub fn save(path: &Path, store: &Store) -> Result<(), String> {
    let text = store.to_yaml()?;
    let beside = path.with_extension("yaml.new");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| error.to_string())
}

/// A moment as `2026-12-01T00:00:00Z`.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // The civil calendar from a count of days; eras of 400 years begin on the first of March (Howard Hinnant's algorithm).
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_083_201, "2026-12-01T00:00:01Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    fn lesson(fingerprint: &str, allowed: bool) -> Lesson {
        Lesson {
            listed_for: Arc::new(ListedFor::anybody()),
            fingerprint: fingerprint.to_owned(),
            text: "select $1".into(),
            kind: "read",
            tables: Arc::default(),
            allowed,
            count: 2,
        }
    }

    #[test]
    fn what_people_change_stays_and_the_store_has_an_end() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("learned.yaml");
        let home = Home { path: path.clone(), capacity: 3 };
        let at = home.clone();
        let learner = Learner::start(move || Some(at.clone())).expect("a thread");
        let (one, two) = ("0000000000000001", "0000000000000002");
        assert!(learner.tell(lesson(one, true)) && learner.tell(lesson(one, true)) && learner.tell(lesson(two, false)));
        learner.finish();
        let read = || Store::parse("x", &fs::read_to_string(&path).expect("the store")).expect("a store").0;
        let shown = |store: &Store| {
            let statements = store.principals.iter().flat_map(|list| &list.statements);
            let words = statements.map(|s| format!("{} {} {}", &s.fingerprint[15..], s.allowed, s.count));
            words.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(shown(&read()), "1 true 4, 2 false 2");
        // Somebody takes one away and allows the other.
        let mut store = read();
        store.principals[0].statements.remove(0);
        store.principals[0].statements[0].allowed = true;
        save(&path, &store).expect("writable");
        learner.tell(lesson(two, false));
        learner.finish();
        assert_eq!(shown(&read()), "2 true 4");
        for print in ["0000000000000003", "0000000000000004", "0000000000000005"] {
            learner.tell(lesson(print, true));
        }
        learner.finish();
        assert_eq!((shown(&read()).as_str(), learner.overflow()), ("2 true 4, 3 true 2, 4 true 2", 1));
    }
}
