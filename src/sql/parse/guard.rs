//! What stands between a text from a stranger and a parser.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{self, ScopedJoinHandle},
};

use super::depth::{self, DEEP_STACK, Depth};

/// Lets `work` have the text, if the parser may see it, on a stack that is large enough. A panic ends here.
pub(super) fn guarded<T: Send>(text: &[u8], work: impl FnOnce(&str) -> T + Send) -> Result<T, &'static str> {
    if memchr::memchr(0, text).is_some() {
        return Err("zero byte in the text");
    }
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8, which client_encoding must be for that")?;
    let ended = match depth::of(text.as_bytes()) {
        Depth::TooDeep => return Err("nested too deep"),
        Depth::Shallow => catch_unwind(AssertUnwindSafe(|| work(text))),
        // Rare enough to afford a thread; its panic comes out of join.
        Depth::Deep => thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(DEEP_STACK);
            thread.spawn_scoped(scope, || work(text)).map(ScopedJoinHandle::join)
        })
        .map_err(|_| "no thread for a deep statement")?,
    };
    ended.map_err(|_| "the parser gave up")
}
