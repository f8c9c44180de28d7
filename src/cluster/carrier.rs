//! Lets tokio-postgres talk over our own streams, so that probes reach a server the same way as everybody else.

use std::{
    future::{Ready, ready},
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use crate::{net::Stream, tls::server_end_point};

/// A stream in the library's terms.
pub(super) struct Carrier(pub(super) Stream);

/// "Begins" TLS on a stream on which it has begun.
pub(super) struct Begun;

impl TlsConnect<Carrier> for Begun {
    type Stream = Carrier;
    type Error = io::Error;
    type Future = Ready<io::Result<Carrier>>;

    fn connect(self, stream: Carrier) -> Self::Future {
        ready(Ok(stream))
    }
}

impl TlsStream for Carrier {
    fn channel_binding(&self) -> ChannelBinding {
        match self.0.peer_certificate().and_then(server_end_point) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}

impl AsyncRead for Carrier {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read(cx, buf.initialize_unfilled()).map_ok(|n| buf.advance(n))
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.shut_write();
        Poll::Ready(Ok(()))
    }
}
