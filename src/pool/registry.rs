//! All pools, by what they connect to. Asked at login and on reload only.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{Login, Pool, Settings};
use crate::{base::NodeId, net::Address};

/// What makes two clients share server connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// The node.
    pub node: NodeId,
    /// Where it listens.
    pub address: Address,
    /// Database name on the server.
    pub dbname: Box<str>,
    /// User name on the server.
    pub user: Box<str>,
}

/// The registry.
#[derive(Debug)]
pub struct Pools {
    pools: Mutex<HashMap<PoolKey, Arc<Pool>>>,
    workers: usize,
}

impl Pools {
    /// An empty one for `workers` reactors.
    pub fn new(workers: usize) -> Self {
        Self { pools: Mutex::new(HashMap::new()), workers }
    }

    /// The pool for a key, made if need be, with the settings of today.
    pub fn pool(&self, key: PoolKey, login: Login, settings: Settings) -> Arc<Pool> {
        let mut pools = self.pools.lock();
        if let Some(pool) = pools.get(&key) {
            pool.reconfigure(login, settings);
            return Arc::clone(pool);
        }
        let pool = Arc::new(Pool::new(key.address.clone(), login, settings, self.workers));
        pools.insert(key, Arc::clone(&pool));
        pool
    }

    /// All of them.
    pub fn all(&self) -> Vec<(PoolKey, Arc<Pool>)> {
        self.pools.lock().iter().map(|(k, p)| (k.clone(), Arc::clone(p))).collect()
    }

    /// Closes and forgets those that `keep` refuses.
    pub fn retain(&self, keep: impl Fn(&PoolKey) -> bool) {
        self.pools.lock().retain(|key, pool| {
            let kept = keep(key);
            if !kept {
                pool.close();
            }
            kept
        });
    }
}
