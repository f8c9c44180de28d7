//! Wiring: builds the rooms in order, starts the threads, reloads and shuts down. It decides nothing about statements.

mod listen;
mod reload;
mod run;
mod workers;

pub use run::run;
