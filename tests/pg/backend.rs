//! Backend messages as they came, and how a trace shows them.

use std::fmt::Write as _;

/// One backend message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Msg {
    pub tag: u8,
    pub body: Vec<u8>,
}

/// How much of a message a trace shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// `1 2 T D C(SELECT 1) Z(I)`, errors with their SQLSTATE.
    Letters,
    /// What must be the same even if the proxy made the errors: not the place in PostgreSQL's source.
    Meaning,
    /// Everything that must be the same on two runs.
    Full,
}

impl Msg {
    /// An ErrorResponse's or NoticeResponse's field.
    pub fn field(&self, code: u8) -> Option<String> {
        fields(&self.body).into_iter().find(|(c, _)| *c == code).map(|(_, text)| text)
    }

    /// The SQLSTATE of an ErrorResponse.
    pub fn sqlstate(&self) -> Option<String> {
        (self.tag == b'E').then(|| self.field(b'C').unwrap_or_else(|| "none".to_owned()))
    }

    /// A DataRow's values as text.
    pub fn values(&self) -> Vec<Option<String>> {
        let mut at = Reader(&self.body);
        let count = at.int16();
        (0..count).map(|_| at.counted().map(|v| show(&v))).collect()
    }

    /// A RowDescription's names.
    pub fn column_names(&self) -> Vec<String> {
        let mut at = Reader(&self.body);
        let count = at.int16();
        let name = |at: &mut Reader<'_>| {
            let name = at.text();
            at.take(18);
            name
        };
        (0..count).map(|_| name(&mut at)).collect()
    }

    /// A ParameterStatus.
    pub fn parameter(&self) -> Option<(String, String)> {
        let mut at = Reader(&self.body);
        (self.tag == b'S').then(|| (at.text(), at.text()))
    }

    /// As a trace shows it.
    pub fn render(&self, detail: Detail) -> String {
        let letter = char::from(self.tag).to_string();
        let mut at = Reader(&self.body);
        match (self.tag, detail) {
            (b'Z', _) => format!("Z({})", show(&self.body)),
            (b'C', _) => format!("C({})", at.text()),
            (b'E', Detail::Letters) => format!("E({})", self.sqlstate().unwrap_or_default()),
            (b'E' | b'N', Detail::Full | Detail::Meaning) => {
                // File, line and routine tell where in PostgreSQL's source an error was raised.
                let compared = |code: u8| detail == Detail::Full || !matches!(code, b'F' | b'L' | b'R');
                let fields = fields(&self.body).into_iter().filter(|(code, _)| compared(*code));
                let all: Vec<String> = fields.map(|(code, text)| format!("{}={text}", char::from(code))).collect();
                format!("{letter}({})", all.join(" "))
            }
            (b'S', Detail::Letters) => format!("S({})", at.text()),
            (b'S', Detail::Full | Detail::Meaning) => format!("S({}={})", at.text(), at.text()),
            (b'D', Detail::Full | Detail::Meaning) => {
                let values = self.values().into_iter().map(|v| v.unwrap_or_else(|| "∅".to_owned()));
                format!("D({})", values.collect::<Vec<_>>().join(","))
            }
            (b'T', Detail::Full | Detail::Meaning) => format!("T({})", row_description(&self.body)),
            // The process id differs between runs.
            (b'A', Detail::Full | Detail::Meaning) => {
                at.int32();
                format!("A({} {})", at.text(), at.text())
            }
            (b'K', _) => "K".to_owned(),
            (b'n' | b'1' | b'2' | b'3' | b's' | b'I' | b'c', _) | (_, Detail::Letters) => letter,
            (_, Detail::Full | Detail::Meaning) => format!("{letter}({})", show(&self.body)),
        }
    }
}

/// `name oid size typmod format` of each column. The table's OID becomes a mere yes or no: tables are made anew for each run.
fn row_description(body: &[u8]) -> String {
    let mut at = Reader(body);
    let count = at.int16();
    let columns = (0..count).map(|_| {
        let name = at.text();
        let (table, column) = (at.int32(), at.int16());
        let (oid, size, typmod, format) = (at.int32(), at.int16(), at.int32(), at.int16());
        // Types made by the test have other OIDs on each run, too.
        let oid = if oid < 16384 { oid.to_string() } else { "user".to_owned() };
        format!("{name} {}.{column} {oid} {size} {typmod} {format}", if table == 0 { "-" } else { "t" })
    });
    columns.collect::<Vec<_>>().join(", ")
}

fn fields(body: &[u8]) -> Vec<(u8, String)> {
    let mut at = Reader(body);
    let mut all = Vec::new();
    loop {
        let code = at.byte();
        if code == 0 {
            return all;
        }
        all.push((code, at.text()));
    }
}

/// Printable text as it is, everything else escaped.
fn show(bytes: &[u8]) -> String {
    let mut out = String::new();
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(['\0', '\u{1}', '\u{2}', '\u{3}']) => {
            out.push_str(&text.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\""))
        }
        _ => bytes.iter().for_each(|b| write!(out, "\\x{b:02x}").expect("writing to a string")),
    }
    out
}

/// Reads fields; a body that ends early reads as zeros, which no test expects.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, n: usize) -> Vec<u8> {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        let mut head = head.to_vec();
        head.resize(n, 0);
        head
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn int16(&mut self) -> i16 {
        let b = self.take(2);
        i16::from_be_bytes([b[0], b[1]])
    }

    fn int32(&mut self) -> i32 {
        let b = self.take(4);
        i32::from_be_bytes([b[0], b[1], b[2], b[3]])
    }

    fn counted(&mut self) -> Option<Vec<u8>> {
        usize::try_from(self.int32()).ok().map(|n| self.take(n.min(self.0.len())))
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = &self.0[(end + 1).min(self.0.len())..];
        text
    }
}
