//! Over TLS, what was written may wait in the layer: it must get out without anybody writing more.

use std::future::poll_fn;

use super::pump::Wires;
use crate::{
    net::tests::{narrow_pair, pattern, read_exactly},
    relay::{Outcome, Until},
};

/// More than the sockets take, and no more than the layer does.
const BYTES: usize = 60_000;

#[tokio::test]
async fn a_reply_that_was_passed_on_gets_out() {
    let (near, mut program) = narrow_pair().await;
    let mut wires = Wires::new("");
    wires.client.stream = near;
    let reply = pattern(BYTES);
    poll_fn(|cx| std::task::Poll::Ready(wires.client.pass(cx, &reply))).await.unwrap();
    assert!(wires.client.out.is_empty(), "the layer has not taken all of it");
    let (flushed, got) = tokio::join!(wires.client.flush(), read_exactly(&mut program, BYTES, 4096));
    flushed.unwrap();
    assert!(got == reply);
}

#[tokio::test]
async fn a_request_is_sent_only_when_it_is_out() {
    let (near, mut backend) = narrow_pair().await;
    let mut wires = Wires::new("");
    wires.server.stream = near;
    wires.outgoing.bytes = pattern(BYTES);
    let (outcome, got) = tokio::join!(wires.pump(Until::Sent), read_exactly(&mut backend, BYTES, 4096));
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    assert!(got == pattern(BYTES));
}
