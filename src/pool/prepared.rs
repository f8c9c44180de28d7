//! Which prepared statements a server connection holds.

use std::{fmt, num::NonZeroUsize};

use lru::LruCache;

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
}

/// A name on the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ServerName([u8; 50]);

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

/// The statements of one server connection, oldest use first out.
#[derive(Debug)]
pub struct Prepared {
    known: Option<LruCache<u128, ()>>,
    cap: NonZeroUsize,
    round: u32,
}

impl Prepared {
    /// At most `cap` statements (at least one).
    pub fn new(cap: usize) -> Self {
        Self { known: None, cap: NonZeroUsize::new(cap).unwrap_or(NonZeroUsize::MIN), round: 0 }
    }

    /// Is it there? Counts as a use.
    pub fn touch(&mut self, id: StatementId) -> bool {
        self.known.as_mut().is_some_and(|known| known.get(&id.0).is_some())
    }

    /// Notes a statement; answers the one that must be closed to make room.
    pub fn insert(&mut self, id: StatementId) -> Option<StatementId> {
        let known = self.known.get_or_insert_with(LruCache::unbounded);
        known.put(id.0, ());
        if known.len() <= self.cap.get() {
            return None;
        }
        known.pop_lru().map(|(old, ())| StatementId(old))
    }

    /// Notes a statement that turned out to be there still, whatever the cap.
    pub fn restore(&mut self, id: StatementId) {
        self.known.get_or_insert_with(LruCache::unbounded).put(id.0, ());
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
    fn the_oldest_use_is_closed_first() {
        let mut prepared = Prepared::new(2);
        let id = |n| StatementId(n);
        assert_eq!(prepared.insert(id(1)), None);
        assert_eq!(prepared.insert(id(2)), None);
        assert!(prepared.touch(id(1)));
        assert_eq!(prepared.insert(id(3)), Some(id(2)));
        assert!(!prepared.touch(id(2)));
        prepared.restore(id(2));
        assert_eq!(prepared.len(), 3);
    }
}
