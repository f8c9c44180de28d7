//! Who may log in, with what checks a login and what it proves.

use std::sync::Arc;

use super::{rate::Allowance, shared::Snapshot};
use crate::{
    config::{Secret, User},
    pool::{KnownKeys, Proof},
    wire::scram::Verifier,
};

/// Somebody who may log in.
pub struct Account {
    /// What is configured, or was looked up.
    pub user: Arc<User>,
    /// Checks a SCRAM exchange. Made of a clear-text password once, not per login: 4,096 rounds of hashing.
    pub verifier: Option<Arc<Verifier>>,
    /// Its SCRAM keys, for logging in to servers as itself.
    pub keys: Arc<KnownKeys>,
    /// What is left of its rate; one for all its sessions.
    pub(super) allowance: Option<Arc<Allowance>>,
}

impl Account {
    /// The account of `user`; with the secret of the `old` one it keeps what that has learnt, and with its rate what is left of that.
    pub fn new(user: Arc<User>, old: Option<&Self>) -> Self {
        let old = old.filter(|old| old.user.name == user.name);
        let allowance = user.rate.map(|rate| {
            let kept = old.and_then(|old| old.allowance.clone()).filter(|kept| kept.is_of(rate));
            kept.unwrap_or_else(|| Arc::new(Allowance::new(rate)))
        });
        if let Some(old) = old.filter(|old| old.user.secret == user.secret) {
            return Self { user, verifier: old.verifier.clone(), keys: Arc::clone(&old.keys), allowance };
        }
        let verifier = match &user.secret {
            Secret::Password(password) => Some(Verifier::from_password(password.as_bytes())),
            Secret::Verifier(text) => text.parse().ok(),
            Secret::Md5(_) | Secret::None => None,
        };
        Self { user, verifier: verifier.map(Arc::new), keys: Arc::default(), allowance }
    }

    /// Of a user whose secret was looked up: it has one rate, as configured, whichever database was asked.
    pub(super) fn sharing_rate_of(self, configured: Option<&Arc<Self>>) -> Self {
        match configured {
            Some(known) => Self { allowance: known.allowance.clone(), ..self },
            None => self,
        }
    }

    /// The same person as the configuration of today has it. Somebody who is not configured, or not any more, stays who it was; somebody
    /// whose secret was looked up keeps that.
    pub(super) fn today(self: &Arc<Self>, snapshot: &Snapshot) -> Arc<Self> {
        match snapshot.account(&self.user.name) {
            Some(known) if known.user.secret == Secret::None && self.user.secret != Secret::None => {
                let user = User { secret: self.user.secret.clone(), ..(*known.user).clone() };
                Arc::new(Self::new(Arc::new(user), Some(self)).sharing_rate_of(Some(known)))
            }
            Some(known) => Arc::clone(known),
            None => Arc::clone(self),
        }
    }

    /// What a login to a server as this user is made with.
    pub(super) fn proof(&self) -> Proof {
        match &self.user.secret {
            Secret::Password(password) => Proof::Password(password.as_str().into()),
            Secret::Md5(shadow) => Proof::Md5(shadow.as_str().into()),
            Secret::Verifier(_) => Proof::Keys,
            Secret::None => Proof::None,
        }
    }

    /// Do both stand for the same person with the same secret and the same rights?
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys) && (Arc::ptr_eq(&self.user, &other.user) || self.user == other.user)
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("user", &self.user).finish_non_exhaustive()
    }
}
