//! One file per command of `pgsluice`. A command reads its arguments, calls the rooms and prints; it thinks nothing itself.

pub mod demo;
