//! Shapes that a replica refused: taken for reads, found to write.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::shape::Shape;

/// Shapes learned to be writers. Shared by all workers and bounded; asking whether anything is new costs one load.
#[derive(Debug)]
pub struct Misroutes {
    capacity: usize,
    generation: AtomicU64,
    shapes: Mutex<HashSet<Shape>>,
}

impl Misroutes {
    /// Room for `capacity` shapes.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, generation: AtomicU64::new(0), shapes: Mutex::new(HashSet::new()) }
    }

    /// Remembers `shape` as a writer. False if there is no room: it will be misrouted, and repaired, again.
    pub fn learn(&self, shape: Shape) -> bool {
        let mut shapes = self.shapes.lock();
        if shapes.len() >= self.capacity && !shapes.contains(&shape) {
            return false;
        }
        if shapes.insert(shape) {
            self.generation.fetch_add(1, Ordering::Release);
        }
        true
    }

    /// Forgets `shape` (the operator knows better). False if it was not there.
    pub fn forget(&self, shape: Shape) -> bool {
        let gone = self.shapes.lock().remove(&shape);
        if gone {
            self.generation.fetch_add(1, Ordering::Release);
        }
        gone
    }

    /// Is `shape` known to write?
    pub fn contains(&self, shape: Shape) -> bool {
        self.shapes.lock().contains(&shape)
    }

    /// All shapes, in no order.
    pub fn shapes(&self) -> Vec<Shape> {
        self.shapes.lock().iter().copied().collect()
    }

    /// Counts changes: while it is the same, nothing was learned or forgotten.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learns_up_to_its_capacity() {
        let memory = Misroutes::new(2);
        assert!(memory.learn(Shape(1)) && memory.learn(Shape(2)) && memory.learn(Shape(1)));
        assert_eq!(memory.generation(), 2);
        assert!(!memory.learn(Shape(3)) && !memory.contains(Shape(3)));
        assert!(memory.forget(Shape(1)) && !memory.forget(Shape(1)));
        assert_eq!((memory.generation(), memory.shapes()), (3, vec![Shape(2)]));
    }
}
