//! Finding a server for what is about to be sent.

use std::{rc::Rc, task::Poll, time::Instant};

use super::{
    refusal::Refusal,
    state::{Held, Session},
    tx::Tx,
};
use crate::{
    base::{Report, SqlState},
    config::PoolMode,
    observe::ClientState,
    policy::{RouteOrder, Verdict},
    pool::{CheckoutError, Lease, Together},
    relay::{Ack, Client, Owed, Until, What},
    route::{
        Ask, ClusterView, Defaults, Need, Patience, Phase, Placement, Preference, Role, RouteReason, Tried, Where,
        Wish, decide, place,
    },
    sql::Classified,
};

/// What was chosen for a statement, and what is known of it.
struct Choice {
    placement: Placement,
    role: Option<Role>,
    /// The node's incarnation.
    epoch: u64,
}

/// What a client has been answered already does not wait with its next request. Never ends.
async fn keep_flushing(client: &mut Client) {
    std::future::poll_fn(|cx| {
        // A socket that fails is found out by whoever writes to it next.
        let _ = client.poll_flush(cx);
        Poll::Pending
    })
    .await
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    ToItsEnd,
    Canceled,
}

impl Session {
    /// What a statement wishes, outside a transaction that has its server already.
    pub(super) fn wish(&self, classified: &Classified, verdict: Option<&Rc<Verdict>>) -> Wish {
        let phase = match &self.tx {
            Tx::Begun(deferred) => Phase::Begun(deferred.options),
            Tx::Idle | Tx::Failed(_) => Phase::Autocommit,
        };
        let defaults = Defaults {
            read_only: self.params.read_only_by_default(),
            serializable: self.params.serializable_by_default().unwrap_or(self.serializable),
        };
        let route = verdict.and_then(|verdict| verdict.route.as_ref());
        let preference = Preference { rule: route.map(RouteOrder::place), ..(&self.tenant.database.routing).into() };
        decide(&classified.known.facts, self.believed(classified.hints), phase, defaults, preference)
    }

    /// Gets a server for `wish`, leaving out those in `tried`. The session holds it afterwards.
    pub(super) async fn acquire(&mut self, wish: Wish, tried: &mut Tried) -> Result<(), Refusal> {
        if self.held.is_some() {
            return Ok(());
        }
        let started = self.mark;
        let mut patience = Patience::Left;
        let mut last_error: Option<CheckoutError> = None;
        loop {
            let Choice { placement, role, epoch } = self.choose(wish, tried, patience);
            let (node, reason) = match placement {
                Placement::Node { index, reason } => (index, reason),
                Placement::Wait { .. } => {
                    self.mark = Instant::now();
                    let waited = self.mark.saturating_duration_since(started);
                    if waited >= self.tenant.database.routing.wait {
                        patience = Patience::Spent;
                    } else if self.wait_a_little().await == Waited::Canceled {
                        let error = CheckoutError::Canceled;
                        return Err(Refusal::new(error.sqlstate(), error.to_client().into_owned()));
                    }
                    continue;
                }
                Placement::NoReplica { reason: RouteReason::NotFresh } => {
                    return Err(Refusal::new(
                        SqlState::CANNOT_CONNECT_NOW,
                        "no replica has caught up with this session's writes in time",
                    ));
                }
                Placement::NoReplica { .. } => {
                    return Err(Refusal::new(SqlState::CANNOT_CONNECT_NOW, "no replica is available for this read"));
                }
                Placement::NoPrimary => {
                    return Err(match last_error {
                        Some(error) => Refusal::new(error.sqlstate(), error.to_client().into_owned()),
                        None if self.tenant.database.pool.mode == PoolMode::Session => Refusal::new(
                            SqlState::CANNOT_CONNECT_NOW,
                            "no primary is available, and in session mode every session begins on it; try again later",
                        ),
                        None if wish.place == Where::Primary => Refusal::new(
                            SqlState::CANNOT_CONNECT_NOW,
                            "no primary is available; reads still work, try again later",
                        ),
                        None => Refusal::new(
                            SqlState::CANNOT_CONNECT_NOW,
                            "no primary is available, and no replica that is known to have this session's writes",
                        ),
                    });
                }
            };
            match self.lend_from(node, epoch).await {
                Ok(lease) => {
                    if let Some(load) = self.tenant.loads.get(node) {
                        load.started(self.worker.index);
                    }
                    self.last.node = Some(node);
                    self.last.refused = false;
                    self.last.role = role;
                    if role == Some(Role::Replica) {
                        self.usual = Some(node);
                    }
                    self.last.reason = Some(if tried.is_empty() { reason } else { RouteReason::Retried });
                    self.last.waited = self.mark.saturating_duration_since(started);
                    self.last.pinned = None;
                    self.last.verdict.clone_from(&self.orders.verdict);
                    self.worker.metrics.checkout(self.last.waited);
                    if wish.place == Where::Replica && self.last.role == Some(Role::Primary) {
                        self.worker.metrics.read_fallback(reason.index());
                    }
                    self.feed.status = Some(crate::wire::backend::TxStatus::Idle);
                    self.held = Some(Held { lease, node, since: self.mark, lent_names: Vec::new() });
                    return Ok(());
                }
                Err(error) => {
                    let doubtful = match &error {
                        CheckoutError::Connect(connect) => {
                            self.worker.no_connection(&self.tenant, node, connect);
                            connect.doubts_node()
                        }
                        CheckoutError::Timeout(_) | CheckoutError::Canceled | CheckoutError::Closed => false,
                    };
                    if doubtful {
                        (self.worker.shared.suspect)(self.tenant.database.nodes[node].id);
                    }
                    if matches!(error, CheckoutError::Connect(_)) && wish.place != Where::Primary {
                        tried.add(self.tenant.database.nodes[node].id);
                        last_error = Some(error);
                        continue;
                    }
                    return Err(Refusal::new(error.sqlstate(), error.to_client().into_owned()));
                }
            }
        }
    }

    /// The view changes only when the control plane has news; looking every millisecond costs nothing beside it.
    async fn wait_a_little(&mut self) -> Waited {
        self.handle.wait();
        let waited = tokio::select! {
            biased;
            () = self.handle.interrupted() => Waited::Canceled,
            () = tokio::time::sleep(std::time::Duration::from_millis(1)) => Waited::ToItsEnd,
            () = keep_flushing(&mut self.client) => Waited::ToItsEnd,
        };
        self.handle.rest();
        waited
    }

    fn choose(&mut self, wish: Wish, tried: &Tried, patience: Patience) -> Choice {
        let view = self.tenant.view.load();
        let view: &ClusterView = &view;
        self.floor = self.floor.resolve(view);
        let order = self.orders.verdict.as_ref().and_then(|verdict| verdict.route.as_ref());
        let mut ask = Ask {
            need: if wish.place == Where::Replica { Need::Replica } else { Need::Primary },
            reason: wish.reason,
            floor: self.floor,
            routing: &self.tenant.database.routing,
            max_lag: order.and_then(|order| order.max_lag),
            tags: order.map(|order| &*order.tags).unwrap_or_default(),
            tried,
            usual: self.usual,
            patience,
        };
        let now = self.marked();
        let mut dice = self.worker.dice.borrow_mut();
        let mut placement = place(&ask, view, &mut dice, now);
        // The whole session lives on the server of its first statement, and it may write later.
        let for_good = self.tenant.database.pool.mode == PoolMode::Session;
        if for_good && wish.place == Where::Replica {
            ask.need = Need::Primary;
            placement = place(&ask, view, &mut dice, now);
        }
        if placement == Placement::NoPrimary && wish.place == Where::Any && !for_good {
            ask.need = Need::Replica;
            placement = place(&ask, view, &mut dice, now);
        }
        let node = match placement {
            Placement::Node { index, .. } => view.nodes.get(index),
            Placement::Wait { .. } | Placement::NoReplica { .. } | Placement::NoPrimary => None,
        };
        Choice { placement, role: node.map(|n| n.role), epoch: node.map_or(0, |n| n.epoch) }
    }

    async fn lend_from(&mut self, node: usize, epoch: u64) -> Result<Lease, CheckoutError> {
        let local = std::rc::Rc::clone(&self.tenant.locals[node]);
        local.pool.follow_defaults(self.tenant.catalog.defaults());
        local.pool.require_epoch(epoch);
        if let Some(lease) = local.try_checkout(self.mark) {
            return Ok(lease);
        }
        let deadline = local.pool.settings().checkout_timeout;
        self.handle.wait();
        let (metrics, slot) = (&self.worker.metrics, self.tenant.slot);
        metrics.client_turns(slot, ClientState::Active, ClientState::Waiting);
        let (handle, client) = (&self.handle, &mut self.client);
        let lease = tokio::select! {
            biased;
            () = handle.interrupted() => Err(CheckoutError::Canceled),
            lease = Box::pin(local.checkout(deadline)) => lease,
            () = keep_flushing(client) => Err(CheckoutError::Canceled),
        };
        metrics.client_turns(slot, ClientState::Waiting, ClientState::Active);
        self.handle.rest();
        self.mark = Instant::now();
        lease
    }

    /// Puts what must come first into the outgoing bytes: the client's settings, and a BEGIN that is still owed.
    /// [`Together::No`]: it must be answered before the client's own request may follow.
    pub(super) fn prologue(&mut self) -> Together {
        let question = self.question_in_front();
        let Some(held) = &mut self.held else { return Together::Yes };
        let Some(server) = held.lease.server() else { return Together::Yes };
        let mut together = Together::Yes;
        if self.feed.status == Some(crate::wire::backend::TxStatus::InTransaction) && !self.group_open {
            let sql = self.deeds.defaults_to_restore(&self.startup);
            if !sql.is_empty() {
                crate::wire::frontend::query(&mut self.outgoing.bytes, sql.as_bytes());
                server.unnamed = None;
                self.feed.queue.push(Owed::swallow(What::Query, Ack::Nothing));
            }
        }
        if self.feed.status != Some(crate::wire::backend::TxStatus::Idle) {
            return together;
        }
        for _ in 0..server.reset_for(self.owner, &mut self.outgoing.bytes) {
            self.feed.queue.push(Owed::swallow(What::Query, Ack::Nothing));
        }
        if std::mem::take(&mut self.deeds.recalls) {
            self.recalls = true;
            self.tenant.recalls.set(true);
        }
        let is_another = server.borrower.replace(self.owner) != Some(self.owner);
        if is_another {
            server.strange_sequences |= std::mem::take(&mut server.own_sequences);
            // As a session of its own would have none.
            server.stale_plans |= server.code && server.temporary;
        }
        // What another client's sequences gave it is nobody else's to see; without it the server says 55000, as to a new session. Who has
        // perhaps asked one itself is shown its own. Where clients are known to ask, the rest is thrown away as soon as it is strange.
        let recalls = self.recalls || self.tenant.recalls.get();
        if server.strange_sequences && !server.own_sequences && recalls {
            crate::wire::frontend::query(&mut self.outgoing.bytes, b"DISCARD SEQUENCES");
            self.feed.queue.push(Owed::swallow(What::Query, Ack::Nothing));
            server.unnamed = None;
            server.strange_sequences = false;
        }
        if let Some(question) = question {
            crate::wire::frontend::query(&mut self.outgoing.bytes, question.as_bytes());
            self.feed.queue.push(Owed::attempt());
            server.unnamed = None;
        }
        let wanted = self.deeds.wanted(&self.params);
        if let Some(change) = server.params.change_to(&wanted) {
            crate::wire::frontend::query(&mut self.outgoing.bytes, change.sql.as_bytes());
            self.feed.queue.push(Owed::swallow(What::Query, Ack::Nothing));
            server.params = wanted.into_owned();
            server.unnamed = None;
            together = change.together;
            server.stale_plans |= is_another && server.code;
        }
        if std::mem::take(&mut server.stale_plans) {
            crate::wire::frontend::query(&mut self.outgoing.bytes, b"DISCARD PLANS");
            self.feed.queue.push(Owed::swallow(What::Query, Ack::Nothing));
            server.unnamed = None;
        }
        if let Tx::Begun(deferred) | Tx::Failed(deferred) = &self.tx {
            crate::wire::frontend::query(&mut self.outgoing.bytes, &deferred.sql);
            server.unnamed = None;
            self.feed.queue.push(Owed::swallow(What::Query, Ack::Nothing));
        }
        if matches!(self.tx, Tx::Failed(_)) {
            // What comes is not for us to answer; but it must find what the client has been told.
            self.write_failing(Box::default());
            crate::wire::frontend::sync(&mut self.outgoing.bytes);
            self.feed.queue.push(Owed::swallow(What::Sync, Ack::Nothing));
        }
        together
    }

    /// Waits until what [`Session::prologue`] sent is answered; false if it failed.
    pub(super) async fn finish_prologue(&mut self) -> bool {
        if let Some(server) = self.held.as_ref().and_then(|held| held.lease.peek()) {
            self.handle.begin(&server.target, true);
        }
        let done = matches!(self.pump(Until::Settled).await, crate::relay::Outcome::Done);
        done && self.feed.hidden_error.is_none()
    }
}
