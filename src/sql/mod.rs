//! Text → facts. Pure and synchronous: no I/O, no clock, no other room above floor 0.
//!
//! One pass of the lexer over the bytes yields the shape, the statement count, the first words and the hints;
//! a shape seen before costs one table look-up, a new one is parsed once by PostgreSQL's own grammar and walked
//! whole into [`Facts`]. This room must never guess "read": what it cannot prove is not proven.

mod act;
mod classify;
pub mod facts;
mod fingerprint;
mod functions;
mod hints;
pub mod lexer;
mod misroutes;
mod parse;
mod shape;
mod table;
mod words;

pub use classify::{Caps, Classified, Classifier, ClassifyPath, Known};
pub use facts::Facts;
pub use fingerprint::{BadFingerprint, Fingerprint};
pub use functions::{BadFunctions, FunctionClass, Functions};
pub use hints::{HintTarget, Hints};
pub use lexer::{Encoding, StringRules};
pub use misroutes::Misroutes;
pub use parse::{fingerprint, normalize};
pub use shape::{Shape, ShapeKey};
pub use table::Table;
