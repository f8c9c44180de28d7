//! After the fact: what is written down of statements that have run. Queues are bounded; what does not fit is dropped and counted.
//!
//! This room must never make a statement wait.

mod learn;

pub use learn::{Home, Learner, Lesson, save, utc};
