//! Any bytes as the first packet of a connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgsluice::{
    base::Report,
    wire::startup::{First, MAX_STARTUP, next_first},
};

fuzz_target!(|buf: &[u8]| {
    match next_first(buf) {
        Ok(Some((first, consumed))) => {
            assert!(consumed <= buf.len() && consumed <= 4 + MAX_STARTUP);
            match first {
                First::Ssl | First::Gssenc => assert_eq!(consumed, 8),
                First::Cancel(cancel) => assert_eq!(consumed, 12 + cancel.key.len()),
                First::Startup(message) => {
                    assert!(!message.user.is_empty() && !message.database.is_empty());
                    assert!(message.agreed() <= message.protocol);
                    let _ = message.option_settings();
                }
            }
            for end in 0..consumed {
                assert_eq!(next_first(&buf[..end]), Ok(None));
            }
        }
        Ok(None) => assert!(buf.len() < 4 + MAX_STARTUP),
        Err(error) => assert!(!error.to_client().is_empty()),
    }
});
