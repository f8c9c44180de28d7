//! Keys that take one of a few words.

use super::{
    Balance, GuardMode, LogFormat, OnNoReplica, OnTimeout, PoolMode, Reads, RoleSetting, UnknownFunctions, value::words,
};
use crate::tls::{ClientMode, ServerMode};

/// Words of which this version does not know them all; `check` refuses the rest.
macro_rules! words_here {
    ($(#[doc = $doc:literal])+ $name:ident { $($word:literal => $variant:ident),+ $(,)? }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $name { $($variant),+ }
        words! { $name { $($word => $variant),+ } }
    };
}

words_here! {
    /// `auth.method`.
    AuthWord { "trust" => Trust, "md5" => Md5, "scram-sha-256" => ScramSha256, "cert" => Cert }
}
words_here! {
    /// `routing.consistency`.
    ConsistencyWord {
        "off" => Off, "session" => Session, "monotonic" => Monotonic, "global" => Global,
        "universal" => Universal, "bounded" => Bounded,
    }
}
words_here! {
    /// `cache.invalidation`.
    Invalidation { "statements" => Statements, "wal" => Wal, "redis" => Redis }
}
words_here! {
    /// `pool.reset`.
    ResetMode { "targeted" => Targeted }
}
words! { ClientMode { "disable" => Disable, "prefer" => Prefer, "require" => Require, "verify" => Verify } }
words! {
    ServerMode {
        "disable" => Disable, "prefer" => Prefer, "require" => Require, "verify-ca" => VerifyCa,
        "verify-full" => VerifyFull,
    }
}
words! { PoolMode { "transaction" => Transaction, "session" => Session, "statement" => Statement } }
words! { RoleSetting { "auto" => Auto, "primary" => Primary, "replica" => Replica } }
words! { Reads { "replica" => Replica, "primary" => Primary } }
words! { OnTimeout { "primary" => Primary, "error" => Error, "stale" => Stale } }
words! { OnNoReplica { "primary" => Primary, "wait" => Wait, "error" => Error } }
words! { UnknownFunctions { "primary" => Primary, "try_replica" => TryReplica } }
words! {
    Balance {
        "least_latency" => LeastLatency, "least_connections" => LeastConnections, "round_robin" => RoundRobin,
        "random" => Random,
    }
}
words! { GuardMode { "allow" => Allow, "warn" => Warn, "pin" => Pin, "block" => Block } }
words! { LogFormat { "text" => Text, "json" => Json } }
