//! What carries a test client's bytes: TCP in the clear, or TLS over it.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};

/// A blocking connection with a deadline on every read.
#[derive(Debug)]
pub struct Carrier {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Carrier {
    pub fn dial(port: u16) -> io::Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, tls: None })
    }

    /// Begins TLS at once; what the other side must answer before that has been read.
    pub fn start_tls(&mut self, config: &Arc<ClientConfig>, name: &str, patience: Duration) -> io::Result<()> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        self.socket.set_read_timeout(Some(patience))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut self.socket)?;
        }
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// The other side's certificate in DER.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        let chain = self.tls.as_ref()?.peer_certificates()?;
        chain.first().map(|certificate| certificate.to_vec())
    }

    pub fn read_within(&mut self, buf: &mut [u8], patience: Duration) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(patience))?;
        match &mut self.tls {
            None => self.socket.read(buf),
            Some(tls) => match rustls::Stream::new(&mut **tls, &mut self.socket).read(buf) {
                // Without TLS's goodbye.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                other => other,
            },
        }
    }

    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(tls) => {
                let mut stream = rustls::Stream::new(&mut **tls, &mut self.socket);
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    /// Waits for a byte that is not taken.
    pub fn peek_within(&self, patience: Duration) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(patience))?;
        self.socket.peek(&mut [0])
    }

    /// FIN, but goes on reading.
    pub fn half_close(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            while tls.wants_write() {
                tls.write_tls(&mut self.socket)?;
            }
        }
        self.socket.shutdown(Shutdown::Write)
    }
}
