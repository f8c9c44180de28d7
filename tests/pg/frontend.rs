//! Builders for every frontend message (PostgreSQL documentation, "Message Formats"). Wrong messages are possible on purpose.

/// One message: tag, length, body.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    out.extend_from_slice(&length(body.len() + 4));
    out.extend_from_slice(body);
    out
}

/// A startup-like packet: no tag.
pub fn untagged(body: &[u8]) -> Vec<u8> {
    let mut out = length(body.len() + 4).to_vec();
    out.extend_from_slice(body);
    out
}

fn length(n: usize) -> [u8; 4] {
    u32::try_from(n).expect("a test message below 4 GiB").to_be_bytes()
}

fn int16(n: usize) -> [u8; 2] {
    u16::try_from(n).expect("at most 65535 items").to_be_bytes()
}

fn cstr(text: &str) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    out.push(0);
    out
}

pub fn startup(version: u32, params: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in params {
        body.extend(cstr(name));
        body.extend(cstr(value));
    }
    body.push(0);
    untagged(&body)
}

pub fn ssl_request() -> Vec<u8> {
    untagged(&80877103u32.to_be_bytes())
}

pub fn gssenc_request() -> Vec<u8> {
    untagged(&80877104u32.to_be_bytes())
}

pub fn cancel_request(pid: u32, key: &[u8]) -> Vec<u8> {
    let mut body = 80877102u32.to_be_bytes().to_vec();
    body.extend_from_slice(&pid.to_be_bytes());
    body.extend_from_slice(key);
    untagged(&body)
}

pub fn password(bytes: &[u8]) -> Vec<u8> {
    message(b'p', bytes)
}

pub fn sasl_initial(mechanism: &str, data: &[u8]) -> Vec<u8> {
    let mut body = cstr(mechanism);
    body.extend_from_slice(&length(data.len()));
    body.extend_from_slice(data);
    message(b'p', &body)
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &cstr(sql))
}

pub fn parse(name: &str, sql: &str, oids: &[u32]) -> Vec<u8> {
    let mut body = cstr(name);
    body.extend(cstr(sql));
    body.extend_from_slice(&int16(oids.len()));
    oids.iter().for_each(|oid| body.extend_from_slice(&oid.to_be_bytes()));
    message(b'P', &body)
}

/// What Bind carries beside the names.
#[derive(Clone, Debug, Default)]
pub struct Values {
    pub formats: Vec<u16>,
    pub params: Vec<Option<Vec<u8>>>,
    pub results: Vec<u16>,
}

impl Values {
    pub fn text(params: &[&str]) -> Self {
        Self { params: params.iter().map(|p| Some(p.as_bytes().to_vec())).collect(), ..Self::default() }
    }
}

pub fn bind(portal: &str, statement: &str, values: &Values) -> Vec<u8> {
    let mut body = cstr(portal);
    body.extend(cstr(statement));
    body.extend_from_slice(&int16(values.formats.len()));
    values.formats.iter().for_each(|f| body.extend_from_slice(&f.to_be_bytes()));
    body.extend_from_slice(&int16(values.params.len()));
    for param in &values.params {
        match param {
            None => body.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(bytes) => {
                body.extend_from_slice(&length(bytes.len()));
                body.extend_from_slice(bytes);
            }
        }
    }
    body.extend_from_slice(&int16(values.results.len()));
    values.results.iter().for_each(|f| body.extend_from_slice(&f.to_be_bytes()));
    message(b'B', &body)
}

pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend(cstr(name));
    message(b'D', &body)
}

pub fn close(kind: u8, name: &str) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend(cstr(name));
    message(b'C', &body)
}

pub fn execute(portal: &str, max_rows: i32) -> Vec<u8> {
    let mut body = cstr(portal);
    body.extend_from_slice(&max_rows.to_be_bytes());
    message(b'E', &body)
}

pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

pub fn flush() -> Vec<u8> {
    message(b'H', &[])
}

pub fn copy_data(data: &[u8]) -> Vec<u8> {
    message(b'd', data)
}

pub fn copy_done() -> Vec<u8> {
    message(b'c', &[])
}

pub fn copy_fail(why: &str) -> Vec<u8> {
    message(b'f', &cstr(why))
}

/// A fast-path call with text arguments and a text result.
pub fn function_call(oid: u32, args: &[&str]) -> Vec<u8> {
    let mut body = oid.to_be_bytes().to_vec();
    body.extend_from_slice(&int16(0));
    body.extend_from_slice(&int16(args.len()));
    for arg in args {
        body.extend_from_slice(&length(arg.len()));
        body.extend_from_slice(arg.as_bytes());
    }
    body.extend_from_slice(&int16(0));
    message(b'F', &body)
}

pub fn terminate() -> Vec<u8> {
    message(b'X', &[])
}

/// Parse, Bind, Describe, Execute of the unnamed statement, and Sync, as most drivers do.
pub fn extended(sql: &str, values: &Values) -> Vec<u8> {
    [parse("", sql, &[]), bind("", "", values), describe(b'P', ""), execute("", 0), sync()].concat()
}
