//! Complaints that would flood the log: the first is said at once, those that follow as a number.

use std::{
    collections::HashMap,
    fmt::Display,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// How long equal complaints are only counted.
pub const QUIET: Duration = Duration::from_secs(10);
/// Most things complained about at a time; all further ones are said each time.
const MOST: usize = 1024;

/// What was said, and how often it would have been said since.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<HashMap<Box<str>, Said>>);

#[derive(Debug)]
struct Said {
    since: Instant,
    more: u64,
    words: String,
}

/// Complaints that were only counted.
#[derive(Debug, PartialEq, Eq)]
pub struct Repeated {
    /// What they are about.
    pub about: Box<str>,
    /// The last one's words.
    pub words: String,
    /// How many there were.
    pub times: u64,
}

impl Repeats {
    /// Is this to be said? If not, it is counted.
    pub fn is_new(&self, about: &str, words: &dyn Display, now: Instant) -> bool {
        let mut said = self.0.lock();
        if let Some(said) = said.get_mut(about) {
            said.more += 1;
            said.words = words.to_string();
            return false;
        }
        if said.len() < MOST {
            said.insert(about.into(), Said { since: now, more: 0, words: String::new() });
        }
        true
    }

    /// What was counted for [`QUIET`] and has not been said yet. What nobody repeated is new again from now on.
    pub fn due(&self, now: Instant) -> Vec<Repeated> {
        let mut due = Vec::new();
        self.0.lock().retain(|about, said| {
            if now.duration_since(said.since) < QUIET {
                return true;
            }
            if said.more > 0 {
                let words = std::mem::take(&mut said.words);
                due.push(Repeated { about: about.clone(), words, times: said.more });
            }
            let goes_on = said.more > 0;
            (said.since, said.more) = (now, 0);
            goes_on
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_and_the_rest_is_counted() {
        let repeats = Repeats::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(repeats.is_new("a", &"refused", at(0)));
        assert!(repeats.is_new("b", &"refused", at(0)));
        for _ in 0..5 {
            assert!(!repeats.is_new("a", &"refused again", at(1)));
        }
        assert_eq!(repeats.due(at(9)), []);
        let summary = |times| Repeated { about: "a".into(), words: "refused again".into(), times };
        assert_eq!(repeats.due(at(10)), [summary(5)]);
        // It goes on, so it stays a number; `b` was over.
        assert!(!repeats.is_new("a", &"refused again", at(11)));
        assert!(repeats.is_new("b", &"refused", at(11)));
        assert_eq!(repeats.due(at(19)), []);
        assert_eq!(repeats.due(at(20)), [summary(1)]);
        assert_eq!(repeats.due(at(30)), []);
        assert!(repeats.is_new("a", &"refused", at(31)));
    }
}
