//! Server connections: how they are made, kept, lent and cleaned.
//!
//! One cap per (address, database, user), one shelf per worker. A connection on loan starts dirty; only an explicit
//! [`Lease::give_back`] makes it somebody else's. This room never looks at a client.

mod checkout;
mod connect;
mod lease;
mod login;
mod params;
mod pinned;
mod prepared;
mod registry;
mod residue;
mod server;

pub use checkout::{CheckoutError, Pool, Settings};
pub use connect::{ConnectError, LOGIN_DEADLINE};
pub use lease::{Lease, Local, Why};
pub use login::{KnownKeys, Login, Proof};
pub use params::{Change, Idle, Params, Together, is_safe, quote_literal, set_all};
pub use pinned::Pinned;
pub use prepared::{Found, NAME_PREFIX, Prepared, ServerName, StatementId};
pub use registry::{PoolKey, Pools};
pub use residue::{Owner, Residue};
pub use server::{BackendKey, CancelTarget, Server, Welcome, cancel};

#[cfg(test)]
mod tests;
