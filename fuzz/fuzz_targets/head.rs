//! Any bytes, walked as messages: what is yielded is what was consumed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgsluice::wire::Frames;

fuzz_target!(|buf: &[u8]| {
    let mut frames = Frames::new(buf, 1 << 20);
    let mut bytes = 0;
    let mut errors = 0;
    for frame in frames.by_ref() {
        match frame {
            Ok(frame) => {
                assert_eq!(frame.raw.len(), frame.head.total());
                assert_eq!(frame.body.len(), frame.head.body());
                bytes += frame.raw.len();
            }
            Err(_) => errors += 1,
        }
    }
    assert_eq!(bytes, frames.consumed());
    assert!(errors <= 1 && frames.consumed() <= buf.len());
});
