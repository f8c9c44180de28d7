//! The routes.

use std::{future::Future, io, time::Duration};

use axum::{
    Json, Router,
    extract::{ConnectInfo, Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::route::{ClusterView, Health, NodeView, Role, Suspicion};

use super::{
    AdminState,
    access::{Access, judge},
    listen::{Peer, Seats},
};

/// How long a reload waits for servers.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// Serves until `shutdown` resolves. Call on the control runtime; the listener is bound by the caller, so that tests
/// may use port 0 and a fault shows before anything runs.
pub async fn serve(
    listener: std::net::TcpListener,
    state: AdminState,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let service = router(state).into_make_service_with_connect_info::<Peer>();
    let server = axum::serve(Seats::new(listener)?, service);
    // Every answer is made soon, so there is nothing to drain.
    tokio::select! {
        result = server.into_future() => result,
        () = shutdown => Ok(()),
    }
}

fn router(state: AdminState) -> Router {
    let guarded = Router::new()
        .route("/nodes", get(nodes))
        .route("/reload", post(reload))
        .route("/version", get(version))
        .layer(middleware::from_fn_with_state(state.clone(), guard));
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .merge(guarded)
        .with_state(state)
}

async fn guard(
    State(state): State<AdminState>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let authorization = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    match judge(&(state.tokens)(), authorization, peer.ip()) {
        Access::Granted => next.run(request).await,
        Access::TokenNeeded => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge, "a bearer token of admin.tokens is needed\n").into_response()
        }
        Access::LoopbackOnly => {
            (StatusCode::FORBIDDEN, "without admin.tokens only this machine may ask\n").into_response()
        }
    }
}

async fn metrics(State(state): State<AdminState>) -> Response {
    match (state.metrics)() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(fault) => (StatusCode::INTERNAL_SERVER_ERROR, fault + "\n").into_response(),
    }
}

async fn readyz(State(state): State<AdminState>) -> Response {
    let unserved: String = (state.views)()
        .iter()
        .filter(|(_, view)| !serves(view))
        .map(|(name, _)| format!("database {name}: neither a primary nor a replica answers\n"))
        .collect();
    if unserved.is_empty() {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, unserved).into_response()
    }
}

fn serves(view: &ClusterView) -> bool {
    let usable = |node: &NodeView| node.role == Role::Replica && node.health == Health::Up;
    view.primary().is_some_and(|node| node.health == Health::Up) || view.nodes.iter().any(usable)
}

async fn nodes(State(state): State<AdminState>) -> Json<Value> {
    let database = |(name, view): (std::sync::Arc<str>, std::sync::Arc<ClusterView>)| {
        json!({
            "database": &*name,
            "generation": view.generation.0,
            "term": view.term,
            "primary": view.primary().map(|node| &*node.name),
            "nodes": view.nodes.iter().map(node).collect::<Vec<_>>(),
        })
    };
    Json(json!({ "databases": (state.views)().into_iter().map(database).collect::<Vec<_>>() }))
}

fn node(node: &NodeView) -> Value {
    json!({
        "id": node.id.0,
        "name": &*node.name,
        "role": node.role.as_str(),
        "health": node.health.as_str(),
        "suspect": node.suspicion == Suspicion::Suspect,
        "lsn": node.position.map(|position| position.lsn.to_string()),
        "lag_ms": node.lag_time.map(|lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX)),
        "lag_bytes": node.lag_bytes,
        "weight": node.weight,
        "tags": &*node.tags,
        "epoch": node.epoch,
        "in_flight": node.load.in_flight(),
        "failures": node.load.failures(),
    })
}

async fn reload(State(state): State<AdminState>) -> Response {
    match (state.reload)() {
        Ok(()) => {
            // Whoever has changed a schema behind our back may wait for us to know of it.
            let _ = timeout(LONGEST_LOOK, (state.looked)()).await;
            "reloaded\n".into_response()
        }
        Err(faults) => (StatusCode::BAD_REQUEST, faults).into_response(),
    }
}

async fn version() -> Json<Value> {
    Json(json!({ "version": env!("CARGO_PKG_VERSION") }))
}
