//! Lease ⇄ client: bytes in both directions, and nothing else.
//!
//! The relay knows which replies are owed, in which order, and which of them are ours to swallow. It walks message headers,
//! reads only what it must, and never decodes a row it forwards. It knows nothing of SQL, pools or routes.

mod buffers;
mod client;
mod copy;
mod feed;
mod meter;
mod order;
mod pump;

pub use buffers::Buffers;
pub use client::{Client, ClientGone};
pub use feed::{Attempt, Feed, Misnamed, Violation};
pub use meter::{Amount, Bound, Meter};
pub use order::{Ack, Asked, NO_SUCH, Names, Owed, ReplyQueue, Show, What};
pub use pump::{Exchange, Outcome, Outgoing, Until};

#[cfg(test)]
mod tests;
