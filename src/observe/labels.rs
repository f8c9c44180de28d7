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
    /// Label `state` of clients.
    ClientState {
        /// Waits for its user.
        Idle = "idle",
        /// A server works for it.
        Active = "active",
        /// Waits for a server connection.
        Waiting = "waiting",
    }
    /// Label `state` of servers.
    ServerState {
        /// On a shelf.
        Idle = "idle",
        /// On loan.
        Active = "active",
    }
}
