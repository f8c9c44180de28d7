//! Which prepared statements a server connection holds.

use std::{fmt, num::NonZeroUsize};

use lru::LruCache;
use memchr::memmem;

use crate::wire::backend::ResultType;

/// What all names begin with that statements of clients have on servers.
pub const NAME_PREFIX: &[u8] = b"pgsluice_";

/// A statement's identity over all clients: a hash of its text, its parameter types and the settings that can change
/// its meaning, keyed per process. Its server-side name is made from it, so equal statements of different clients share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatementId(pub u128);

impl StatementId {
    /// The name the statement has on a server. No client can have chosen it: the hash is keyed. `round` is the server
    /// connection's count of DEALLOCATE ALLs, so that a name is never met again whose fate is not known.
    pub fn server_name(&self, round: u32) -> ServerName {
        let mut name = *b"pgsluice_00000000000000000000000000000000_00000000";
        for (i, byte) in name[42..].iter_mut().enumerate() {
            let nibble = (round >> (28 - 4 * i)) as u8 & 0xf;
            *byte = b"0123456789abcdef"[usize::from(nibble)];
        }
        for (i, byte) in name[9..41].iter_mut().enumerate() {
            let nibble = (self.0 >> (124 - 4 * i)) as u8 & 0xf;
            *byte = b"0123456789abcdef"[usize::from(nibble)];
        }
        ServerName(name)
    }

    /// Finds such a name in a text: where it stands, and whose it is.
    pub fn find_in(text: &[u8]) -> Option<(std::ops::Range<usize>, Self)> {
        let at = memmem::find(text, NAME_PREFIX)?;
        let name = text.get(at..at + SERVER_NAME)?;
        let id = u128::from_str_radix(std::str::from_utf8(name.get(9..41)?).ok()?, 16).ok()?;
        Some((at..at + SERVER_NAME, Self(id)))
    }
}

/// Length of a name.
const SERVER_NAME: usize = 50;

/// A name on the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ServerName([u8; SERVER_NAME]);

impl ServerName {
    /// Without a terminating NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// What a server connection has under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// The statement. Nobody has asked what it gives.
    Something,
    /// The statement, and this is what it gave when it was made there. If the schema changes, the server sees to it itself.
    Giving(ResultType),
    /// The statement, but its plan is known to give something else by now than when it was made.
    Stale,
}

/// The statements of one server connection, oldest use first out.
#[derive(Debug)]
pub struct Prepared {
    known: Option<LruCache<u128, Found>>,
    cap: NonZeroUsize,
    round: u32,
}

impl Prepared {
    /// At most `cap` statements (at least one).
    pub fn new(cap: usize) -> Self {
        Self { known: None, cap: NonZeroUsize::new(cap).unwrap_or(NonZeroUsize::MIN), round: 0 }
    }

    /// Is it there? Counts as a use.
    pub fn touch(&mut self, id: StatementId) -> Found {
        self.known.as_mut().and_then(|known| known.get(&id.0)).copied().unwrap_or(Found::Nothing)
    }

    /// Notes a statement.
    pub fn insert(&mut self, id: StatementId, found: Found) {
        self.known.get_or_insert_with(LruCache::unbounded).put(id.0, found);
    }

    /// Takes out a statement that must be closed before one more can be made. To be asked until there is none.
    pub fn make_room(&mut self) -> Option<StatementId> {
        let known = self.known.as_mut().filter(|known| known.len() >= self.cap.get())?;
        known.pop_lru().map(|(old, _)| StatementId(old))
    }

    /// Notes a statement that turned out to be there still, whatever the cap: the next ones make room for it.
    pub fn restore(&mut self, id: StatementId) {
        self.insert(id, Found::Something);
    }

    /// Notes what has been learnt of a statement, if it is there; no use of it.
    pub fn learn(&mut self, id: StatementId, found: Found) {
        let Some(known) = self.known.as_mut().and_then(|known| known.peek_mut(&id.0)) else { return };
        *known = match (found, *known) {
            (Found::Giving(is), Found::Giving(before)) => Found::Giving(is.or(before)),
            (found, _) => found,
        };
    }

    /// Forgets one.
    pub fn remove(&mut self, id: StatementId) {
        if let Some(known) = &mut self.known {
            known.pop(&id.0);
        }
    }

    /// Forgets all; names given from now on are new ones.
    pub fn clear(&mut self) {
        self.known = None;
        self.round = self.round.wrapping_add(1);
    }

    /// The name a statement has here.
    pub fn name_of(&self, id: StatementId) -> ServerName {
        id.server_name(self.round)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.known.as_ref().map_or(0, LruCache::len)
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hexadecimal_and_fixed_in_length() {
        let name = StatementId(0x0123_4567_89ab_cdef_0011_2233_4455_6677).server_name(0x1f);
        assert_eq!(name.as_bytes(), b"pgsluice_0123456789abcdef0011223344556677_0000001f");
    }

    #[test]
    fn a_name_is_found_in_a_text() {
        let id = StatementId(0xfedc_ba98_7654_3210_0011_2233_4455_6677);
        let text = [b"statement \"", id.server_name(3).as_bytes(), b"\" requires 2"].concat();
        assert_eq!(StatementId::find_in(&text), Some((11..61, id)));
        assert_eq!(StatementId::find_in(&text[..60]), None, "cut off");
        assert_eq!(StatementId::find_in(b"pgsluice_00112233445566770011223344556\xc3\xa4__00000000 and more"), None);
    }

    #[test]
    fn the_oldest_use_is_closed_first() {
        let mut prepared = Prepared::new(2);
        let id = StatementId;
        prepared.insert(id(1), Found::Something);
        assert_eq!(prepared.make_room(), None);
        prepared.insert(id(2), Found::Something);
        assert_eq!(prepared.touch(id(1)), Found::Something);
        assert_eq!((prepared.make_room(), prepared.make_room()), (Some(id(2)), None));
        prepared.insert(id(3), Found::Something);
        assert_eq!(prepared.touch(id(2)), Found::Nothing);
    }

    #[test]
    fn what_was_not_closed_after_all_is_made_room_for_later() {
        let mut prepared = Prepared::new(2);
        for n in 1..=4 {
            prepared.restore(StatementId(n));
        }
        let closed: Vec<_> = std::iter::from_fn(|| prepared.make_room()).collect();
        assert_eq!(closed, [1, 2, 3].map(StatementId));
    }

    #[test]
    fn only_what_is_there_is_learnt_of() {
        let mut prepared = Prepared::new(2);
        prepared.learn(StatementId(1), Found::Stale);
        assert!(prepared.is_empty());
        prepared.insert(StatementId(1), Found::Something);
        prepared.learn(StatementId(1), Found::Stale);
        assert_eq!(prepared.touch(StatementId(1)), Found::Stale);
    }
}
