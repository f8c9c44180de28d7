//! One file per command of `pgsluice`. A command reads its arguments, calls the rooms and prints; it thinks nothing itself.

pub mod args;
mod check;
pub mod demo;
mod explain;
mod firewall;
mod run;
mod schema;
mod test;

pub use check::check;
pub use explain::explain;
pub use firewall::firewall;
pub use run::run;
pub use schema::schema;
pub use test::test;
