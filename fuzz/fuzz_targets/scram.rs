//! Any bytes as a SCRAM peer, on either side: nobody gets in.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use pgsluice::wire::scram::{
    ChannelBinding, ClientKeys, Nonce, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, Verifier, client, server,
};

static KEYS: LazyLock<ClientKeys> = LazyLock::new(|| ClientKeys::derive(b"secret", b"salt", 1));

fn await_first(binding: &ChannelBinding) -> server::AwaitFirst {
    server::AwaitFirst::new(Arc::new(Verifier::of_keys(&KEYS)), binding.clone(), Nonce::fixed("ours").unwrap())
}

fuzz_target!(|message: &[u8]| {
    for binding in [ChannelBinding::Unavailable, ChannelBinding::ServerEndPoint(vec![1; 32])] {
        for mechanism in [SCRAM_SHA_256, SCRAM_SHA_256_PLUS] {
            if let Ok((next, first)) = await_first(&binding).client_first(mechanism.as_bytes(), message) {
                assert!(first.starts_with(b"r="));
                let _ = next.client_final(message);
            }
        }
        let (next, _) = await_first(&binding).client_first(SCRAM_SHA_256.as_bytes(), b"n,,n=,r=theirs").unwrap();
        assert!(next.client_final(message).is_err());

        let opening = client::open(&binding, Nonce::fixed("ours").unwrap());
        let _ = opening.next.clone().server_first(message, client::ClientSecret::Keys(&KEYS));
        let honest = b"r=oursTheirs,s=c2FsdA==,i=1";
        let (next, _) = opening.next.server_first(honest, client::ClientSecret::Keys(&KEYS)).unwrap();
        assert!(next.server_final(message).is_err());
    }
    if let Ok(text) = std::str::from_utf8(message) {
        if let Ok(verifier) = text.parse::<Verifier>() {
            assert_eq!(verifier.to_string().parse(), Ok(verifier));
        }
    }
});
