//! The closed sets of label values that this room owns.

macro_rules! labels {
    ($($(#[$doc:meta])* $set:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $set { $($(#[$inner])* $variant,)* }

        impl $set {
            /// Every label value, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            /// The label value.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            pub(super) fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

labels! {
    /// Where a statement went: label `route`, and `role` of the latency.
    Sent {
        /// A replica.
        Replica = "replica",
        /// The primary.
        Primary = "primary",
        /// The server that a transaction or a pin holds.
        Held = "held",
        /// Nowhere: we refused it.
        Refused = "refused",
        /// Nowhere: we answered it ourselves.
        Answered = "answered",
    }
    /// How the facts of a text came about: label `path`.
    ClassifyPath {
        /// The shape was known.
        Table = "table",
        /// It was parsed.
        Parse = "parse",
        /// It could not be.
        Unparsable = "unparsable",
    }
    /// How a login ended: label `outcome`.
    LoginEnd {
        /// The client is in.
        Ok = "ok",
        /// It could not prove who it is, or may not come this way or to this database.
        Refused = "refused",
        /// A limit was reached; `pgsluice_limits_total` tells which.
        Limited = "limited",
        /// Anything else: it left, broke the protocol, or no server answered.
        Failed = "failed",
    }
    /// What became of the search for a user by `auth.query`: label `outcome`.
    LookupEnd {
        /// It was told not long ago.
        Kept = "kept",
        /// A server knows it.
        Found = "found",
        /// A server does not know it.
        Unknown = "unknown",
        /// No server could say.
        Failed = "failed",
    }
    /// A limit that was reached: label `limit`.
    LimitHit {
        /// `limits.clients`.
        Clients = "clients",
        /// `limits.per_user`, or the user's `max_clients`.
        PerUser = "per_user",
        /// `limits.per_database`.
        PerDatabase = "per_database",
        /// More logins at once than clients are allowed: the oldest was cut.
        HalfOpen = "half_open",
        /// `limits.login`.
        Login = "login",
        /// `limits.idle_client`.
        IdleClient = "idle_client",
        /// `limits.idle_in_transaction`.
        IdleInTransaction = "idle_in_transaction",
        /// `limits.query`, or the user's `statement_timeout`.
        Query = "query",
        /// The user's `rate`.
        Rate = "rate",
    }
    /// Label `state` of clients.
    ClientState {
        /// Waits for its user.
        Idle = "idle",
        /// A server works for it.
        Active = "active",
        /// Waits for a server connection.
        Waiting = "waiting",
    }
}
