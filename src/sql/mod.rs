//! Text → facts. Pure and synchronous: no I/O, no clock, no other room above floor 0.
//!
//! One pass of the lexer over the bytes yields the shape, the statement count, the first words and the hints;
//! a shape seen before costs one table look-up, a new one is parsed once by PostgreSQL's own grammar and walked
//! whole into [`Facts`]. This room must never guess "read": what it cannot prove is not proven.

mod act;
pub mod catalog;
mod classify;
pub mod edit;
pub mod facts;
mod fingerprint;
mod form;
mod functions;
mod hints;
pub mod lexer;
mod mentions;
mod misroutes;
mod moments;
mod parse;
pub mod places;
mod shape;
mod table;
mod words;

pub use classify::{Caps, Classified, Classifier, ClassifyPath, Known};
pub use edit::{CannotEdit, Edited, PositionMap, quoted};
pub use facts::Facts;
pub use fingerprint::{BadFingerprint, Fingerprint};
pub use form::form;
pub use functions::{BadFunctions, Declared, FunctionClass, Functions};
pub use hints::{HintTarget, Hints};
pub use lexer::{Encoding, StringRules};
pub use mentions::{Field, Mentions};
pub use misroutes::{Misroutes, Route};
pub use moments::tells_time;
pub use parse::{can_edit, condition, edited, fingerprint, normalize, places};
pub use shape::{Shape, ShapeKey};
pub use table::Table;
