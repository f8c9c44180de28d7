//! What code that nobody could see into may have left in a server's session, and how to be rid of it.

use super::{Params, Server};
use crate::wire::frontend;

/// A session of a client, for as long as the process lives: never the same number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

/// Something may be left: to its owner it is its own, for anybody else the server is reset first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residue {
    /// Whose.
    pub owner: Owner,
    /// Statements prepared by SQL are among it.
    pub names: bool,
}

/// Each is a message of its own. The first cannot fail, whatever was set: neither takes a snapshot, and both are done long before the
/// shortest statement_timeout. With the settings of a new session the second cannot fail either. Together they are DISCARD ALL
/// (its documentation lists the parts) without DEALLOCATE ALL: prepared statements are ours.
const RESET: [&[u8]; 2] = [
    b"SET SESSION AUTHORIZATION DEFAULT;RESET ALL",
    b"CLOSE ALL;UNLISTEN *;SELECT pg_catalog.pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP",
];
const RESET_NAMES: &[u8] = b"DEALLOCATE ALL";

impl Server {
    /// Notes that its session may hold something of `owner`'s.
    pub fn leave(&mut self, owner: Owner, names: bool) {
        let names = names || self.residue.is_some_and(|residue| residue.names);
        self.residue = Some(Residue { owner, names });
    }

    /// Writes what must be sent before anybody but `borrower` may use it; says how many replies that makes.
    pub fn reset_for(&mut self, borrower: Owner, out: &mut Vec<u8>) -> usize {
        let Some(residue) = self.residue.take_if(|residue| residue.owner != borrower) else { return 0 };
        for sql in RESET {
            frontend::query(out, sql);
        }
        self.params = Params::default();
        self.unnamed = None;
        if !residue.names {
            return RESET.len();
        }
        frontend::query(out, RESET_NAMES);
        self.prepared.clear();
        RESET.len() + 1
    }
}
