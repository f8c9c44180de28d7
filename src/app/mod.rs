//! Wiring: builds the rooms in order, starts the threads, reloads and shuts down. It decides nothing about statements.

mod listen;
mod load;
mod reload;
mod run;
mod workers;

pub use load::{built_in, load};
pub use run::run;
