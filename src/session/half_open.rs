//! Clients that have not proved who they are. They cost little and may be anybody, so they are bounded by themselves: one too many, and
//! the one that has taken longest is cut. Whoever knows its password is through long before it is that one.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use tokio::sync::Notify;

/// The least bound of a worker: a few clients log in at once wherever few are allowed.
const LEAST: usize = 16;

/// One worker's half-open logins, by the order of their coming.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    open: RefCell<BTreeMap<u64, Rc<Notify>>>,
    next: Cell<u64>,
}

/// One of them; it is one until dropped.
#[derive(Debug)]
pub(super) struct Login {
    of: Rc<HalfOpen>,
    number: u64,
    cut: Rc<Notify>,
}

impl HalfOpen {
    /// As many as may be logged in, over all `workers`: with those it is twice that, as for PostgreSQL's postmaster
    /// (`MaxLivePostmasterChildren`).
    pub(super) fn most(clients: usize, workers: usize) -> usize {
        clients.div_ceil(workers.max(1)).max(LEAST)
    }

    /// One more; cuts the oldest if that is more than `most`.
    pub(super) fn begin(self: &Rc<Self>, most: usize) -> Login {
        let (number, cut) = (self.next.get(), Rc::new(Notify::new()));
        self.next.set(number + 1);
        let mut open = self.open.borrow_mut();
        open.insert(number, Rc::clone(&cut));
        while open.len() > most.max(1) {
            let Some((_, oldest)) = open.pop_first() else { break };
            oldest.notify_one();
        }
        Login { of: Rc::clone(self), number, cut }
    }

    /// Cuts all of them.
    pub(super) fn end(&self) {
        for (_, login) in std::mem::take(&mut *self.open.borrow_mut()) {
            login.notify_one();
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.open.borrow().len()
    }
}

impl Login {
    /// Notified when it is to be cut, if it is still one then.
    pub(super) fn watch(&self) -> Rc<Notify> {
        Rc::clone(&self.cut)
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        self.of.open.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn is_cut(login: &Login) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async { tokio::time::timeout(Duration::ZERO, login.watch().notified()).await.is_ok() })
    }

    #[test]
    fn the_oldest_makes_room() {
        let all = Rc::new(HalfOpen::default());
        let (first, second) = (all.begin(3), all.begin(3));
        drop(first);
        let (third, fourth, fifth) = (all.begin(3), all.begin(3), all.begin(3));
        assert_eq!([&second, &third, &fourth, &fifth].map(is_cut), [true, false, false, false]);
        assert_eq!(all.len(), 3);
        all.end();
        assert_eq!([&third, &fourth, &fifth].map(is_cut), [true; 3]);
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn the_bound_is_shared_by_the_workers() {
        assert_eq!(HalfOpen::most(10_000, 4), 2_500);
        assert_eq!(HalfOpen::most(3, 2), 16);
    }
}
