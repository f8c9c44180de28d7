//! pgsluice: a SQL-aware read/write splitting router for PostgreSQL.
//!
//! One process, one crate, one corridor. A statement enters at the client's socket, passes the rooms
//! in order and leaves at the server's socket; the answer comes back through `relay` only.
//! ARCHITECTURE.md is the map with the invariants; `tests/tidy.rs` checks the floors below.
//!
//! | floor | rooms |
//! |---|---|
//! | 0 | `base` |
//! | 1 | `config` (sees tls), `tls`, `wire`, `sql` |
//! | 2 | `policy` (sees sql), `route` (sees policy), `observe` |
//! | 3 | `net` (sees wire), `taps` |
//! | 4 | `pool` (sees net, wire), `cluster` (sees net, route) |
//! | 5 | `relay` (sees net, pool, wire) |
//! | 6 | `session` |
//! | 7 | `admin` |
//! | 8 | `app` |
//! | 9 | `cli`, `main` |

pub mod admin;
pub mod app;
pub mod base;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod net;
pub mod observe;
pub mod policy;
pub mod pool;
pub mod relay;
pub mod route;
pub mod session;
pub mod sql;
pub mod taps;
pub mod tls;
pub mod wire;
