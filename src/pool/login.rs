//! As whom we log in to servers, and what proves it.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

use super::ConnectError;
use crate::wire::{
    md5,
    scram::{ClientKeys, client::ClientSecret},
};

/// What a login to a server is made with. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// Nothing: the server must not ask.
    None,
    /// Clear text; answers every method.
    Password(Box<str>),
    /// `md5` and 32 hexadecimal digits, as in pg_authid: answers only servers that ask for md5.
    Md5(Box<str>),
    /// The SCRAM keys that a client proved to hold when it logged in to us; nothing before the first one did.
    Keys,
}

/// The SCRAM keys of one user, in memory only, shared by all its pools: what a client has proved, or what a password came to, which
/// saves 4,096 rounds of hashing as long as the server's salt stays. On purpose without `Debug`.
#[derive(Default)]
pub struct KnownKeys(Mutex<Option<ClientKeys>>);

impl KnownKeys {
    /// Keeps these instead of any earlier ones.
    pub fn keep(&self, keys: ClientKeys) {
        *self.0.lock() = Some(keys);
    }

    fn known(&self) -> Option<ClientKeys> {
        self.0.lock().clone()
    }
}

/// As whom we log in to a server. Its `Debug` shows names only.
#[derive(Clone)]
pub struct Login {
    /// User.
    pub user: Box<str>,
    /// Database.
    pub dbname: Box<str>,
    proof: Proof,
    keys: Arc<KnownKeys>,
}

impl Login {
    /// With the proof of `user`, and what is known of its keys.
    pub fn new(user: &str, dbname: &str, proof: Proof, keys: Arc<KnownKeys>) -> Self {
        Self { user: user.into(), dbname: dbname.into(), proof, keys }
    }

    /// The answer to AuthenticationCleartextPassword.
    pub(super) fn password(&self) -> Result<&str, ConnectError> {
        match &self.proof {
            Proof::Password(password) => Ok(password),
            Proof::None | Proof::Md5(_) => Err(ConnectError::NoPassword),
            Proof::Keys => Err(ConnectError::OnlyKeys),
        }
    }

    /// The answer to AuthenticationMD5Password.
    pub(super) fn md5(&self, salt: [u8; 4]) -> Result<String, ConnectError> {
        let answer = match &self.proof {
            Proof::Md5(shadow) => md5::answer(shadow, salt),
            _ => md5::answer(&md5::shadow(&self.user, self.password()?), salt),
        };
        answer.ok_or(ConnectError::NoPassword)
    }

    /// Calls `exchange` with what answers a SCRAM challenge; the keys it ends with are kept for the next login.
    pub(super) fn scram<T>(
        &self,
        exchange: impl FnOnce(ClientSecret<'_>) -> Result<T, ConnectError>,
    ) -> Result<T, ConnectError> {
        let known = self.keys.known();
        match (&self.proof, &known) {
            (Proof::Password(password), known) => {
                exchange(ClientSecret::Password { password: password.as_bytes(), known: known.as_ref() })
            }
            (Proof::Keys, Some(keys)) => exchange(ClientSecret::Keys(keys)),
            (Proof::Keys, None) => Err(ConnectError::NoKeys),
            (Proof::None | Proof::Md5(_), _) => Err(ConnectError::NoPassword),
        }
    }

    /// The server has accepted these keys.
    pub(super) fn accepted(&self, keys: ClientKeys) {
        if matches!(self.proof, Proof::Password(_)) {
            self.keys.keep(keys);
        }
    }

    /// Does `other` log in as the same user with the same proof? Then what this one has learnt holds for it, too.
    pub(super) fn is(&self, other: &Self) -> bool {
        let same = self.user == other.user && self.dbname == other.dbname && self.proof == other.proof;
        same && (self.proof != Proof::Keys || Arc::ptr_eq(&self.keys, &other.keys))
    }

    /// Can a login succeed at all? Not with the keys of a client that none has proved yet.
    pub fn is_ready(&self) -> bool {
        self.proof != Proof::Keys || self.keys.0.lock().is_some()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("dbname", &self.dbname).finish_non_exhaustive()
    }
}
