//! A bounded table keyed by shape, with CLOCK as its eviction: a hit sets one flag and moves nothing.

use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

use super::shape::Shape;

/// At most `capacity` entries; the ones not asked for since the hand last came by go first.
pub struct Table<V> {
    capacity: usize,
    hand: usize,
    index: HashMap<Shape, usize, BuildHasherDefault<AsItIs>>,
    entries: Vec<Entry<V>>,
}

struct Entry<V> {
    shape: Shape,
    value: V,
    used: bool,
}

impl<V> Table<V> {
    /// An empty one.
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), hand: 0, index: HashMap::default(), entries: Vec::new() }
    }

    /// What is kept under a shape.
    #[inline]
    pub fn find(&mut self, shape: Shape) -> Option<&V> {
        let entry = self.entries.get_mut(*self.index.get(&shape)?)?;
        entry.used = true;
        Some(&entry.value)
    }

    /// Keeps something, in the place of what was there or of what was not asked for.
    pub fn insert(&mut self, shape: Shape, value: V) {
        let entry = Entry { shape, value, used: false };
        if let Some(old) = self.index.get(&shape).and_then(|&at| self.entries.get_mut(at)) {
            *old = entry;
            return;
        }
        if self.entries.len() < self.capacity {
            self.index.insert(shape, self.entries.len());
            self.entries.push(entry);
            return;
        }
        let victim = self.victim();
        if let Some(old) = self.entries.get_mut(victim) {
            self.index.remove(&old.shape);
            *old = entry;
            self.index.insert(shape, victim);
        }
    }

    /// The first entry at or after the hand that was not used since; after one full turn none is left used.
    fn victim(&mut self) -> usize {
        for _ in 0..=self.entries.len() {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.capacity;
            match self.entries.get_mut(at) {
                Some(entry) if entry.used => entry.used = false,
                _ => return at,
            }
        }
        self.hand
    }

    /// Everything that is kept.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|e| &mut e.value)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Shapes are uniform already, and keyed: hashing them again would add nothing.
#[derive(Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, shape: u128) {
        self.0 = shape as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays() {
        let mut table = Table::new(3);
        let found = |table: &mut Table<u128>, n| (table.find(Shape(n)).copied(), table.len(), table.index.len());
        for n in 0..3 {
            table.insert(Shape(n), n);
        }
        assert_eq!(found(&mut table, 1), (Some(1), 3, 3));
        table.insert(Shape(3), 3);
        table.insert(Shape(4), 4);
        assert_eq!(found(&mut table, 1), (Some(1), 3, 3));
        assert_eq!(found(&mut table, 0), (None, 3, 3));
        table.insert(Shape(1), 9);
        assert_eq!(found(&mut table, 1), (Some(9), 3, 3));
        for n in 10..1000 {
            table.insert(Shape(n), n);
            assert_eq!(found(&mut table, n), (Some(n), 3, 3));
        }
    }
}
