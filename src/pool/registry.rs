//! All pools, by what they connect to. Asked at login and on reload only.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{Login, Pool, Settings};
use crate::{base::NodeId, net::Address, tls::TowardsServers};

/// What makes two clients share server connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// The database clients ask for.
    pub database: Box<str>,
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

    /// Servers are reached this way from now on, also by sessions that have not seen the new configuration yet.
    pub fn reach_by(&self, tls: &TowardsServers) {
        for pool in self.pools.lock().values() {
            pool.reach_by(tls);
        }
    }

    /// Forgets those that nobody holds and that have no connections.
    pub fn forget_unused(&self) {
        self.pools.lock().retain(|_, pool| Arc::strong_count(pool) > 1 || pool.census().0 > 0);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pool::Proof;

    #[test]
    fn pools_that_nobody_uses_are_forgotten() {
        let pools = Pools::new(2);
        let pool = |database: &str| {
            let key = PoolKey {
                database: database.into(),
                node: NodeId(0),
                address: Address::new("127.0.0.1", 5432),
                dbname: database.into(),
                user: "app".into(),
            };
            let settings = Settings {
                size: 1,
                min_idle: 0,
                checkout_timeout: Duration::from_secs(1),
                idle_timeout: Duration::ZERO,
                max_lifetime: Duration::ZERO,
                max_prepared: 1,
                tls: Default::default(),
            };
            pools.pool(key, Login::new("app", database, Proof::None, Arc::default()), settings)
        };
        let (held, filled) = (pool("held"), pool("filled"));
        for i in 0..100 {
            drop(pool(&format!("nosuch{i}")));
        }
        if let Some(room) = filled.reserve() {
            room.fill();
        }
        drop(filled);
        pools.forget_unused();
        let mut left: Vec<_> = pools.all().into_iter().map(|(key, _)| key.database).collect();
        left.sort();
        assert_eq!(left, ["filled".into(), "held".into()] as [Box<str>; 2]);
        drop(held);
    }
}
