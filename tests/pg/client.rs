//! A raw protocol client: blocking, with a deadline on every read, and no opinion on what is allowed.

use std::{
    fmt, io,
    sync::Arc,
    time::{Duration, Instant},
};

use postgres_protocol::authentication::{md5_hash, sasl};
use rustls::ClientConfig;

use crate::{
    backend::{Detail, Msg},
    carrier::Carrier,
    frontend,
};

/// How long a reply may take. Long enough for a busy machine, short enough that a hang is a result.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Protocol 3.0.
pub const V3: u32 = 196_608;

/// Who logs in, and with what in the startup packet.
#[derive(Clone, Debug)]
pub struct Login {
    pub user: String,
    pub password: String,
    pub database: String,
    pub version: u32,
    pub params: Vec<(String, String)>,
}

impl Default for Login {
    fn default() -> Self {
        Self {
            user: "app".to_owned(),
            password: "secret".to_owned(),
            database: "app".to_owned(),
            version: V3,
            params: Vec::new(),
        }
    }
}

impl Login {
    pub fn user(mut self, user: &str) -> Self {
        self.user = user.to_owned();
        self
    }

    pub fn password(mut self, password: &str) -> Self {
        self.password = password.to_owned();
        self
    }

    pub fn database(mut self, database: &str) -> Self {
        self.database = database.to_owned();
        self
    }

    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    pub fn param(mut self, name: &str, value: &str) -> Self {
        self.params.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn packet(&self) -> Vec<u8> {
        let mut params = vec![("user", self.user.as_str()), ("database", self.database.as_str())];
        params.extend(self.params.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        frontend::startup(self.version, &params)
    }
}

/// Why a read or a login gave no message.
#[derive(Debug)]
pub enum Trouble {
    /// The other side closed the connection.
    Eof,
    /// Nothing came in time.
    Timeout,
    /// The socket failed.
    Io(io::Error),
    /// The server refused the login.
    Refused(Msg),
    /// Something came that has no place here.
    Odd(String),
}

impl Trouble {
    /// As a trace shows it.
    pub fn render(&self, detail: Detail) -> String {
        match self {
            Self::Eof => "EOF".to_owned(),
            Self::Timeout => "TIMEOUT".to_owned(),
            // Reset or FIN is chance when the other side closes with bytes unread.
            Self::Io(e) if matches!(e.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                "EOF".to_owned()
            }
            Self::Io(e) => format!("IO({e})"),
            Self::Refused(msg) => format!("REFUSED {}", msg.render(detail)),
            Self::Odd(what) => format!("ODD({what})"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Detail::Full))
    }
}

/// Messages of one reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply(pub Vec<Msg>);

impl Reply {
    /// `T D C(SELECT 1) Z(I)`.
    pub fn letters(&self) -> String {
        self.render(Detail::Letters)
    }

    pub fn render(&self, detail: Detail) -> String {
        self.0.iter().map(|m| m.render(detail)).collect::<Vec<_>>().join(" ")
    }

    /// All rows' values; NULL is `∅`.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let rows = self.0.iter().filter(|m| m.tag == b'D');
        rows.map(|m| m.values().into_iter().map(|v| v.unwrap_or_else(|| "∅".to_owned())).collect()).collect()
    }

    /// The first row's first value, or "" without rows.
    pub fn value(&self) -> String {
        self.rows().into_iter().flatten().next().unwrap_or_default()
    }

    /// The first error's SQLSTATE.
    pub fn sqlstate(&self) -> Option<String> {
        self.0.iter().find_map(Msg::sqlstate)
    }

    /// The status byte of the last ReadyForQuery.
    pub fn status(&self) -> Option<char> {
        self.0.iter().rev().find(|m| m.tag == b'Z').and_then(|m| m.body.first()).map(|&b| char::from(b))
    }
}

/// The columns of SHOW pgsluice.route that tests ask about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub node: String,
    pub role: String,
    pub reason: String,
    pub rule: String,
    pub cache: String,
    pub pinned: String,
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: Carrier,
    unread: Vec<u8>,
    /// How much of `unread` has been handed out.
    taken: usize,
    /// What BackendKeyData told.
    pub pid: u32,
    /// The cancel key.
    pub key: Vec<u8>,
    /// ParameterStatus messages seen during login, in order.
    pub parameters: Vec<(String, String)>,
    /// Everything that came during login.
    pub greeting: Vec<Msg>,
}

impl Client {
    /// A TCP connection on which nothing has been said.
    pub fn dial(port: u16) -> io::Result<Self> {
        Ok(Self {
            stream: Carrier::dial(port)?,
            unread: Vec::new(),
            taken: 0,
            pid: 0,
            key: Vec::new(),
            parameters: Vec::new(),
            greeting: Vec::new(),
        })
    }

    /// Begins TLS on a connection on which nothing is under way.
    pub fn start_tls(&mut self, config: &Arc<ClientConfig>, name: &str) -> Result<(), Trouble> {
        assert_eq!(self.unread.len(), self.taken, "bytes in the clear before TLS");
        self.stream.start_tls(config, name, PATIENCE).map_err(Trouble::Io)
    }

    /// The other side's certificate in DER, if TLS is on.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        self.stream.certificate()
    }

    /// Connects and logs in up to the first ReadyForQuery, by whatever method the server asks for.
    pub fn login(port: u16, login: &Login) -> Result<Self, Trouble> {
        let mut client = Self::dial(port).map_err(Trouble::Io)?;
        client.send(&login.packet()).map_err(Trouble::Io)?;
        client.authenticate(login)?;
        Ok(client)
    }

    /// Goes on after the startup packet, up to the first ReadyForQuery; what was said is in `greeting` afterwards.
    pub fn authenticate(&mut self, login: &Login) -> Result<(), Trouble> {
        let mut scram = None;
        loop {
            let msg = self.recv()?;
            self.greeting.push(msg.clone());
            match msg.tag {
                b'R' => {
                    let (kind, rest) =
                        msg.body.split_first_chunk::<4>().ok_or_else(|| Trouble::Odd("short R".to_owned()))?;
                    self.answer(i32::from_be_bytes(*kind), rest, login, &mut scram)?;
                }
                b'S' => self.parameters.extend(msg.parameter()),
                b'K' => {
                    let (pid, key) =
                        msg.body.split_first_chunk::<4>().ok_or_else(|| Trouble::Odd("short K".to_owned()))?;
                    (self.pid, self.key) = (u32::from_be_bytes(*pid), key.to_vec());
                }
                b'E' => return Err(Trouble::Refused(msg)),
                b'N' | b'v' => {}
                b'Z' => return Ok(()),
                other => return Err(Trouble::Odd(format!("{} during login", char::from(other)))),
            }
        }
    }

    fn answer(
        &mut self,
        kind: i32,
        rest: &[u8],
        login: &Login,
        scram: &mut Option<sasl::ScramSha256>,
    ) -> Result<(), Trouble> {
        let odd = |e: io::Error| Trouble::Odd(e.to_string());
        let reply = match kind {
            0 => return Ok(()),
            3 => frontend::password(format!("{}\0", login.password).as_bytes()),
            5 => {
                let salt = rest.first_chunk::<4>().ok_or_else(|| Trouble::Odd("short salt".to_owned()))?;
                let hash = md5_hash(login.user.as_bytes(), login.password.as_bytes(), *salt);
                frontend::password(format!("{hash}\0").as_bytes())
            }
            10 => {
                let started = sasl::ScramSha256::new(login.password.as_bytes(), sasl::ChannelBinding::unsupported());
                let first = frontend::sasl_initial("SCRAM-SHA-256", started.message());
                *scram = Some(started);
                first
            }
            11 => {
                let scram = scram.as_mut().ok_or_else(|| Trouble::Odd("SASL continues before it began".to_owned()))?;
                scram.update(rest).map_err(odd)?;
                frontend::password(scram.message())
            }
            12 => {
                let scram = scram.as_mut().ok_or_else(|| Trouble::Odd("SASL ends before it began".to_owned()))?;
                return scram.finish(rest).map_err(odd);
            }
            other => return Err(Trouble::Odd(format!("authentication request {other}"))),
        };
        self.send(&reply).map_err(Trouble::Io)
    }

    /// Writes bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next message.
    pub fn recv(&mut self) -> Result<Msg, Trouble> {
        self.recv_within(PATIENCE)
    }

    /// The next message, if it comes in time.
    pub fn recv_within(&mut self, patience: Duration) -> Result<Msg, Trouble> {
        let deadline = Instant::now() + patience;
        loop {
            let unread = &self.unread[self.taken..];
            if let Some(&[tag, a, b, c, d]) = unread.first_chunk::<5>() {
                let total = 1 + u32::from_be_bytes([a, b, c, d]) as usize;
                if let Some(message) = unread.get(..total) {
                    let body = message.get(5..).unwrap_or_default().to_vec();
                    self.taken += total;
                    return Ok(Msg { tag, body });
                }
            }
            self.fill(deadline)?;
        }
    }

    /// One byte that is not a message (the answer to SSLRequest).
    pub fn recv_byte(&mut self) -> Result<u8, Trouble> {
        let deadline = Instant::now() + PATIENCE;
        while self.unread.len() == self.taken {
            self.fill(deadline)?;
        }
        self.taken += 1;
        Ok(self.unread[self.taken - 1])
    }

    fn fill(&mut self, deadline: Instant) -> Result<(), Trouble> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Trouble::Timeout);
        }
        self.unread.drain(..self.taken);
        self.taken = 0;
        let mut chunk = [0; 65_536];
        match self.stream.read_within(&mut chunk, left) {
            Ok(0) => Err(Trouble::Eof),
            Ok(n) => {
                self.unread.extend_from_slice(&chunk[..n]);
                Ok(())
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Err(Trouble::Timeout),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(Trouble::Io(e)),
        }
    }

    /// Messages up to and including the `count`-th of this tag. What came before trouble is kept in the error's place.
    pub fn recv_until(&mut self, tag: u8, count: usize) -> (Reply, Option<Trouble>) {
        let mut reply = Reply::default();
        let mut seen = 0;
        while seen < count {
            match self.recv() {
                Ok(msg) => {
                    seen += usize::from(msg.tag == tag);
                    reply.0.push(msg);
                }
                Err(trouble) => return (reply, Some(trouble)),
            }
        }
        (reply, None)
    }

    /// Up to ReadyForQuery, if anything comes within a moment.
    pub fn hears_to_the_end(&mut self) -> Option<Reply> {
        let first = match self.recv_within(Duration::from_millis(50)) {
            Ok(msg) => msg,
            Err(Trouble::Timeout) => return None,
            Err(trouble) => panic!("{trouble}"),
        };
        let (rest, trouble) = self.recv_until(b'Z', 1);
        assert!(trouble.is_none(), "{trouble:?} after {}", rest.letters());
        Some(Reply([vec![first], rest.0].concat()))
    }

    /// Sends bytes that end in one Query or Sync and reads up to ReadyForQuery.
    ///
    /// Panics on a lost or silent connection: no test that uses this expects one.
    pub fn ask(&mut self, bytes: &[u8]) -> Reply {
        match self.try_ask(bytes) {
            Ok(reply) => reply,
            Err((reply, trouble)) => panic!("{trouble} after: {}", reply.render(Detail::Full)),
        }
    }

    /// Like [`Client::ask`], with the trouble as a value.
    pub fn try_ask(&mut self, bytes: &[u8]) -> Result<Reply, (Reply, Trouble)> {
        self.send(bytes).map_err(|e| (Reply::default(), Trouble::Io(e)))?;
        match self.recv_until(b'Z', 1) {
            (reply, None) => Ok(reply),
            (reply, Some(trouble)) => Err((reply, trouble)),
        }
    }

    /// A simple query.
    pub fn query(&mut self, sql: &str) -> Reply {
        self.ask(&frontend::query(sql))
    }

    /// A simple query that must succeed; returns its first value.
    pub fn value(&mut self, sql: &str) -> String {
        let reply = self.query(sql);
        assert_eq!(reply.sqlstate(), None, "{sql}: {}", reply.render(Detail::Full));
        reply.value()
    }

    /// The status byte after a simple query.
    pub fn status_after(&mut self, sql: &str) -> char {
        self.query(sql).status().unwrap_or_default()
    }

    /// Where the statement before ran.
    pub fn route(&mut self) -> Route {
        let reply = self.query("SHOW pgsluice.route");
        let names = reply.0.iter().find(|m| m.tag == b'T').map(Msg::column_names).unwrap_or_default();
        let row = reply.rows().into_iter().next().unwrap_or_default();
        let column =
            |name: &str| names.iter().position(|n| n == name).and_then(|i| row.get(i).cloned()).unwrap_or_default();
        assert_eq!(reply.sqlstate(), None, "{}", reply.render(Detail::Full));
        Route {
            node: column("node"),
            role: column("role"),
            reason: column("reason"),
            rule: column("rule"),
            cache: column("cache"),
            pinned: column("pinned"),
        }
    }

    /// An extended query with text parameters.
    pub fn extended(&mut self, sql: &str, params: &[&str]) -> Reply {
        self.ask(&frontend::extended(sql, &frontend::Values::text(params)))
    }

    /// Whether something comes in time; it is not taken.
    pub fn has_something(&mut self, patience: Duration) -> bool {
        self.taken < self.unread.len() || self.fill(Instant::now() + patience).is_ok()
    }

    /// Whether the other side closes without another message.
    pub fn closed(&mut self) -> bool {
        match self.recv() {
            Err(Trouble::Eof) => true,
            Err(Trouble::Io(e)) => e.kind() == io::ErrorKind::ConnectionReset,
            Ok(_) | Err(_) => false,
        }
    }

    /// Sends FIN but goes on reading.
    pub fn half_close(&mut self) -> io::Result<()> {
        self.stream.half_close()
    }

    /// Closes with bytes unread, so that the other side sees a reset. There must be some: this waits for them.
    pub fn reset(self) {
        // What has come stays with the kernel; closing a socket that holds unread bytes sends a reset instead of an end.
        assert_eq!(self.stream.peek_within(PATIENCE).expect("bytes to leave unread"), 1);
        drop(self.stream);
    }

    /// Closes without a word, as a killed client does.
    pub fn vanish(self) {
        drop(self.stream);
    }

    /// Asks the server on `port` to cancel what this connection runs.
    pub fn cancel(&self, port: u16) -> io::Result<()> {
        let mut other = Self::dial(port)?;
        other.send(&frontend::cancel_request(self.pid, &self.key))?;
        // The server closes once it has passed the signal on.
        let _ = other.recv_within(Duration::from_secs(5));
        Ok(())
    }
}
