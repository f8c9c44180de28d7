//! Who may use the API. Pure.

use std::net::IpAddr;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Granted,
    /// 401: a token is needed, or the one given is wrong.
    TokenNeeded,
    /// 403: no tokens are configured and the peer is not on this machine.
    LoopbackOnly,
}

/// Judges the `Authorization` header of a request from `peer`.
pub(super) fn judge(tokens: &[String], authorization: Option<&[u8]>, peer: IpAddr) -> Access {
    if tokens.is_empty() {
        return if peer.to_canonical().is_loopback() { Access::Granted } else { Access::LoopbackOnly };
    }
    let Some((scheme, given)) = authorization.and_then(|value| value.split_at_checked(7)) else {
        return Access::TokenNeeded;
    };
    // Hashes have one length, and all tokens are looked at: time tells neither length nor position.
    let given = Sha256::digest(given);
    let known = tokens
        .iter()
        .fold(Choice::from(0), |known, token| known | Sha256::digest(token).as_slice().ct_eq(given.as_slice()));
    if scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(known) { Access::Granted } else { Access::TokenNeeded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_or_this_machine() {
        use Access::*;
        let cases = [
            ("", None, "127.0.0.1", Granted),
            ("", None, "127.9.9.9", Granted),
            ("", None, "::1", Granted),
            ("", None, "::ffff:127.0.0.1", Granted),
            ("", Some("Bearer x"), "10.0.0.1", LoopbackOnly),
            ("", None, "::ffff:10.0.0.1", LoopbackOnly),
            ("one two", Some("Bearer two"), "10.0.0.1", Granted),
            ("one two", Some("bearer one"), "10.0.0.1", Granted),
            ("one two", Some("Bearer one two"), "127.0.0.1", TokenNeeded),
            ("one two", Some("Bearer on"), "127.0.0.1", TokenNeeded),
            ("one two", Some("Bearer "), "127.0.0.1", TokenNeeded),
            ("one two", Some("Basic  one"), "127.0.0.1", TokenNeeded),
            ("one two", Some("one"), "127.0.0.1", TokenNeeded),
            ("one two", None, "127.0.0.1", TokenNeeded),
        ];
        for (tokens, header, peer, expected) in cases {
            let tokens: Vec<String> = tokens.split_whitespace().map(str::to_owned).collect();
            let access = judge(&tokens, header.map(str::as_bytes), peer.parse().unwrap());
            assert_eq!(access, expected, "{tokens:?} {header:?} {peer}");
        }
    }
}
