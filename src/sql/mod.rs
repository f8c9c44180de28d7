//! Text → facts. Pure and synchronous: no I/O, no clock, no other room above floor 0.
//!
//! One pass of the lexer over the bytes yields the shape, the statement count, the first words and the hints;
//! a shape seen before costs one table look-up, a new one is parsed once by PostgreSQL's own grammar and walked
//! whole into [`Facts`]. This room must never guess "read": what it cannot prove is not proven.

pub mod facts;

pub use facts::Facts;
