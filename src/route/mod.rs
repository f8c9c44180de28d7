//! Verdict → target. Pure: what is known of the cluster is one immutable [`ClusterView`], time is an argument.
//!
//! Decides which node a statement goes to, and says why in one word. It must never call a replica fit on a guess:
//! an unknown role, lag or position means "not eligible", and a read without a fit replica belongs to the primary.

mod balance;
mod decide;
mod dice;
mod floor;
mod load;
mod place;
mod reason;
mod view;

pub use decide::{Defaults, Phase, Preference, Where, Wish, decide};
pub use dice::Dice;
pub use floor::Floor;
pub use load::{NodeLoad, Outcome};
pub use place::{Ask, Need, Patience, Placement, Tried, place};
pub use reason::RouteReason;
pub use view::{ClusterView, Health, NodeView, Position, Role, Suspicion};
