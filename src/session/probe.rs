//! A question to a server on behalf of a client that has no session yet.

use std::{
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    end::End,
    worker::{Tenant, Worker},
};
use crate::{
    base::{Report, SqlState},
    pool::{CheckoutError, Lease, Params, Welcome},
    relay::{Ack, Feed, Names, Outcome, Owed, Show, What},
    route::{ClusterView, Health, Role},
    wire::{backend::TxStatus, frontend},
};

/// A server answers such a question at once or not at all.
const DEADLINE: Duration = Duration::from_secs(10);

/// `nodes` nodes in the order to ask them: the primary first, but a login must not need it.
pub(super) fn order(view: &ClusterView, nodes: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes).collect();
    order.sort_by_key(|i| match view.nodes.get(*i) {
        _ if view.primary == Some(*i) => 0,
        Some(node) if node.health == Health::Up && node.role == Role::Replica => 1,
        Some(node) if node.health == Health::Unknown => 2,
        _ => 3,
    });
    order
}

/// Asks for one tenant.
pub(super) struct Probe<'a> {
    worker: &'a Rc<Worker>,
    tenant: &'a Rc<Tenant>,
}

impl<'a> Probe<'a> {
    pub(super) fn new(worker: &'a Rc<Worker>, tenant: &'a Rc<Tenant>) -> Self {
        Self { worker, tenant }
    }

    /// Nodes in the order to ask them.
    fn order(&self) -> Vec<usize> {
        let view = self.tenant.view.load_full();
        for (node, local) in self.tenant.locals.iter().enumerate() {
            if let Some(seen) = view.nodes.get(node) {
                local.pool.follow_defaults(self.tenant.catalog.defaults());
                local.pool.require_epoch(seen.epoch);
            }
        }
        order(&view, self.tenant.locals.len())
    }

    /// A server that is free right now.
    pub(super) fn idle_server(&self) -> Option<Lease> {
        let now = Instant::now();
        self.order().into_iter().find_map(|node| self.tenant.locals[node].try_checkout(now))
    }

    /// What a server told at login last.
    pub(super) fn welcome(&self) -> Option<Arc<Welcome>> {
        self.order().into_iter().find_map(|node| self.tenant.locals[node].pool.welcome())
    }

    /// A server: from any node that has one or room for one, else from the first in time.
    pub(super) async fn server(&self) -> Result<Lease, End> {
        let mut failure = None;
        let mut full = Vec::new();
        for node in self.order() {
            let local = &self.tenant.locals[node];
            match local.checkout_now().await {
                None => full.push(node),
                Some(Ok(lease)) => return Ok(lease),
                Some(Err(error)) => failure = Some(self.failed(node, &error)),
            }
        }
        for node in full {
            let local = &self.tenant.locals[node];
            match local.checkout(local.pool.settings().checkout_timeout).await {
                Ok(lease) => return Ok(lease),
                Err(error) => {
                    let waited = matches!(error, CheckoutError::Timeout(_));
                    failure = Some(self.failed(node, &error));
                    if waited {
                        // Long enough for one login.
                        break;
                    }
                }
            }
        }
        Err(failure.unwrap_or_else(|| End::Fatal(SqlState::CANNOT_CONNECT_NOW, "no server is available".into())))
    }

    fn failed(&self, node: usize, error: &CheckoutError) -> End {
        if let CheckoutError::Connect(error) = error {
            self.worker.no_connection(self.tenant, node, error);
        }
        End::Fatal(error.sqlstate(), error.to_client().into_owned())
    }

    /// Runs one statement of ours on a server without settings of anybody, and gives what was learnt.
    pub(super) async fn ask(&self, mut lease: Lease, sql: &str) -> Result<(Lease, Feed), End> {
        let lost = || End::Fatal(SqlState::CONNECTION_FAILURE, "the server connection was lost during login".into());
        let mut feed = Feed::default();
        let mut message = Vec::with_capacity(sql.len() + 128);
        // Nobody's yet.
        let owner = self.worker.owner();
        let server = lease.server().ok_or_else(lost)?;
        for _ in 0..server.reset_for(owner, &mut message) {
            feed.queue.push(Owed::swallow(What::Query, Ack::Nothing));
        }
        if let Some(change) = server.params.change_to(&Params::default()) {
            frontend::query(&mut message, change.sql.as_bytes());
            feed.queue.push(Owed::swallow(What::Query, Ack::Nothing));
            server.params = Params::default();
        }
        frontend::query(&mut message, sql.as_bytes());
        server.unnamed = None;
        feed.queue.push(Owed::Reply {
            what: What::Query,
            show: Show::Collect,
            ack: Ack::Nothing,
            names: Names::Untouched,
        });
        let talk = async {
            server.stream.write_all(&message).await.ok()?;
            let mut bytes = std::mem::take(&mut server.tail);
            let mut nothing = Vec::new();
            let mut chunk = vec![0u8; 8 * 1024];
            while !feed.is_settled() {
                match server.stream.read(&mut chunk).await.ok()? {
                    0 => return None,
                    n => bytes.extend_from_slice(&chunk[..n]),
                }
                let fed = feed.feed(&bytes, &mut nothing).ok()?;
                bytes.drain(..fed.consumed);
                nothing.clear();
            }
            server.tail = bytes;
            Some(Outcome::Done)
        };
        match tokio::time::timeout(DEADLINE, talk).await {
            Ok(Some(_)) if feed.status == Some(TxStatus::Idle) => Ok((lease, feed)),
            _ => Err(feed.fatal.map_or_else(lost, |said| End::Fatal(said.0, said.1.into()))),
        }
    }

    /// Done; the server has these settings now.
    pub(super) fn release(&self, mut lease: Lease, params: &Params) {
        debug_assert_eq!(lease.local().worker, self.worker.index);
        if let Some(server) = lease.server() {
            server.params = params.clone();
        }
        lease.give_back(Instant::now());
    }
}
