//! Hashing of passwords: milliseconds of work, kept off the threads that serve, and a few at a time only.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::wire::scram::{ClientKeys, Verifier};

/// Where passwords are hashed. Who finds no room waits; the login's deadline bounds that.
#[derive(Debug)]
pub struct Hashing {
    room: Arc<Semaphore>,
}

impl Hashing {
    /// At most `threads` at once, ≥ 1.
    pub fn new(threads: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(threads.max(1))) }
    }

    /// The keys of a password in clear text, if it is the right one.
    pub(super) async fn keys(&self, verifier: Arc<Verifier>, password: Vec<u8>) -> Option<ClientKeys> {
        self.run(move || verifier.keys_of(&password)).await.flatten()
    }

    /// Runs what may hash. `None`: it panicked, or the process is ending.
    pub(super) async fn run<T: Send + 'static>(&self, hash: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let room = Arc::clone(&self.room).acquire_owned().await.ok()?;
        let hashed = tokio::task::spawn_blocking(move || {
            // Also if nobody waits for it any more.
            let _room = room;
            hash()
        });
        hashed.await.ok()
    }
}
