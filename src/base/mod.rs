//! Words every room may use: ids, LSNs, SQLSTATEs, who is to blame for an error.
//!
//! No I/O, no tokio, no knowledge of any other room.

mod blame;
mod clock;
mod ids;
mod lsn;
mod sqlstate;

pub use blame::{Blame, Report};
pub use clock::Clock;
pub use ids::{Generation, NodeId};
pub use lsn::Lsn;
pub use sqlstate::SqlState;
