//! Shapes that a replica refused: taken for reads, found to write.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::shape::Shape;

/// A shape in the light of one snapshot of one catalog. What was learnt of it holds for that snapshot: the next one may know better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The shape.
    pub shape: Shape,
    /// Which catalog; 0: none.
    pub catalog: u64,
    /// Which of its snapshots.
    pub snapshot: u64,
}

impl Route {
    /// Of a shape whose names were looked up nowhere.
    pub fn of(shape: Shape) -> Self {
        Self { shape, catalog: 0, snapshot: 0 }
    }
}

/// Shapes learned to be writers. Shared by all workers and bounded; asking whether anything is new costs one load.
#[derive(Debug)]
pub struct Misroutes {
    capacity: usize,
    generation: AtomicU64,
    /// The newest snapshot for which it is so.
    routes: Mutex<HashMap<(Shape, u64), u64>>,
}

impl Misroutes {
    /// Room for `capacity` shapes.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, generation: AtomicU64::new(0), routes: Mutex::new(HashMap::new()) }
    }

    /// Remembers a shape as a writer. False if there is no room: it will be misrouted, and repaired, again.
    pub fn learn(&self, route: Route) -> bool {
        let mut routes = self.routes.lock();
        let key = (route.shape, route.catalog);
        if routes.len() >= self.capacity && !routes.contains_key(&key) {
            return false;
        }
        if routes.insert(key, route.snapshot) != Some(route.snapshot) {
            self.generation.fetch_add(1, Ordering::Release);
        }
        true
    }

    /// Forgets a shape (the operator knows better). False if it was not there.
    pub fn forget(&self, route: Route) -> bool {
        let gone = self.routes.lock().remove(&(route.shape, route.catalog)).is_some();
        if gone {
            self.generation.fetch_add(1, Ordering::Release);
        }
        gone
    }

    /// Is it known to write?
    pub fn contains(&self, route: Route) -> bool {
        self.routes.lock().get(&(route.shape, route.catalog)) == Some(&route.snapshot)
    }

    /// All shapes, in no order.
    pub fn shapes(&self) -> Vec<Shape> {
        self.routes.lock().keys().map(|(shape, _)| *shape).collect()
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
        let route = |shape| Route::of(Shape(shape));
        assert!(memory.learn(route(1)) && memory.learn(route(2)) && memory.learn(route(1)));
        assert_eq!(memory.generation(), 2);
        assert!(!memory.learn(route(3)) && !memory.contains(route(3)));
        assert!(memory.forget(route(1)) && !memory.forget(route(1)));
        assert_eq!((memory.generation(), memory.shapes()), (3, vec![Shape(2)]));
    }

    #[test]
    fn a_new_snapshot_is_judged_anew() {
        let memory = Misroutes::new(1);
        let route = |catalog, snapshot| Route { shape: Shape(1), catalog, snapshot };
        assert!(memory.learn(route(7, 1)));
        assert!(memory.contains(route(7, 1)) && !memory.contains(route(7, 2)) && !memory.contains(route(8, 1)));
        assert!(memory.learn(route(7, 2)), "it takes the place of what it was");
        assert!(!memory.contains(route(7, 1)) && memory.contains(route(7, 2)));
    }
}
