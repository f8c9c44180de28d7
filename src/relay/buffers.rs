//! A worker's buffers: one to read servers into, and a few to lend to clients that have something in flight.

use std::cell::RefCell;

/// Bytes read from a server at once. Large, so that a big result costs few system calls.
const SCRATCH: usize = 128 * 1024;
/// A lent buffer starts this large.
const LENT: usize = 8 * 1024;
/// A buffer that has grown beyond this is not kept.
const KEEP: usize = 64 * 1024;
/// Most free buffers kept.
const FREE: usize = 64;

/// Owned by one worker, shared by its sessions. An idle client holds none of it.
#[derive(Debug)]
pub struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
    inboxes: RefCell<Vec<Vec<u8>>>,
    scratch: RefCell<Box<[u8]>>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            free: RefCell::default(),
            inboxes: RefCell::default(),
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
        }
    }
}

impl Buffers {
    /// An empty buffer with some capacity.
    pub fn lend(&self) -> Vec<u8> {
        self.free.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(LENT))
    }

    /// Takes a buffer back; its contents are gone.
    pub fn give_back(&self, mut buffer: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if buffer.capacity() > 0 && buffer.capacity() <= KEEP && free.len() < FREE {
            buffer.clear();
            free.push(buffer);
        }
    }

    /// A buffer to read a client into: its length is its capacity, its contents are anything.
    pub fn lend_inbox(&self) -> Vec<u8> {
        self.inboxes.borrow_mut().pop().unwrap_or_else(|| vec![0; LENT])
    }

    /// Takes an inbox back.
    pub fn give_back_inbox(&self, inbox: Vec<u8>) {
        let mut inboxes = self.inboxes.borrow_mut();
        if inbox.len() == LENT && inboxes.len() < FREE {
            inboxes.push(inbox);
        }
    }

    /// The worker's read buffer, for the duration of one poll.
    pub fn scratch(&self) -> std::cell::RefMut<'_, Box<[u8]>> {
        self.scratch.borrow_mut()
    }
}
