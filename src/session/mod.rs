//! One client's life, from its first packet to its last: the only room that sees the whole corridor.
//!
//! `startup` and `auth` let it in, `cycle` reads requests, `place` finds them a server, `exchange` carries them, `settle` leaves that
//! server clean.
//! A session lives and dies on one worker; what it must share with others goes through [`Shared`].

mod account;
mod admission;
mod auth;
mod cancel;
mod cursors;
mod cycle;
mod deeds;
mod dotted;
mod end;
mod exchange;
mod extended;
mod first;
mod guard;
mod half_open;
mod hashing;
mod introduce;
mod lent;
mod local;
mod lookup;
mod metering;
mod place;
mod prepared_by_sql;
mod probe;
mod rate;
mod read_back;
mod refusal;
mod rewriting;
mod route_shown;
mod rules;
mod scope;
mod settle;
mod shared;
mod simple;
mod startup;
mod state;
mod statements;
mod temporary;
mod tx;
mod unseen;
mod wait;
mod welcome;
mod wishes;
mod worker;

pub use admission::{Admission, Admitted, Connected};
pub use cancel::{Handle, Keys, LongKey};
pub use hashing::Hashing;
pub use shared::{FindCatalog, Shared, Snapshot};
pub use startup::serve;
pub use state::PIN_REASONS;
pub use welcome::Singles;
pub use worker::{Tenant, Worker};
