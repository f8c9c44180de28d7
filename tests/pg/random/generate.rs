//! From a seed a client's script. It has an idea of where the client stands, so that most of what it says makes sense.

use std::collections::BTreeMap;

use super::{
    dice::Dice,
    script::{End, Message, Script, Step},
    sql::{self, Kind},
};

const NAMES: &[&str] = &["", "", "s1", "s2", "s3"];
const PORTALS: &[&str] = &["", "", "", "p1", "p2"];
/// Long enough to be cancelled for certain; the comment tells whose it is.
const SLEEP: &str = "select pg_sleep(8) /* @t */";

struct Maker {
    dice: Dice,
    /// Nothing was asked for at login. Otherwise RESET is not said: what a proxy makes of it is known to differ until the transaction
    /// ends (`login::a_reset_tells_what_startup_asked_for`).
    plain: bool,
    /// Statements that may be there, and how many parameters they take.
    statements: BTreeMap<&'static str, usize>,
    steps: Vec<Step>,
}

/// The script of a seed.
pub fn script(seed: u64) -> Script {
    let mut maker = Maker { dice: Dice::new(seed), plain: true, statements: BTreeMap::new(), steps: Vec::new() };
    let login = maker.login();
    maker.plain = login.is_empty();
    for _ in 0..3 + maker.dice.below(12) {
        maker.step();
    }
    let end = maker.end();
    Script { seed, login, steps: maker.steps, end }
}

impl Maker {
    fn login(&mut self) -> Vec<(String, String)> {
        let all: &[&[(&str, &str)]] = &[
            &[],
            &[],
            &[],
            &[("application_name", "random")],
            &[("options", "-c work_mem=7MB -c datestyle=German")],
            &[("TimeZone", "Asia/Seoul"), ("client_encoding", "UTF8")],
            &[("extra_float_digits", "3"), ("search_path", "public")],
        ];
        let chosen = all[self.dice.below(all.len())];
        chosen.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn step(&mut self) {
        let messages = match self.dice.below(100) {
            0..=34 => self.query(),
            35..=69 => self.batch(),
            70..=79 => self.pipeline(),
            80..=86 => return self.copy_in(),
            87..=89 => self.copy_out(),
            90..=92 => return self.cancel(),
            93..=94 => vec![Message::Sync],
            95 => vec![Message::Flush],
            96 => vec![Message::Call(1610)],
            97 => vec![Message::Data("x\n".to_owned()), Message::Done],
            _ => vec![Message::Sync, Message::Sync],
        };
        self.push(messages);
    }

    fn push(&mut self, messages: Vec<Message>) {
        let cut = self.dice.percent(10).then(|| self.dice.below(1000));
        self.steps.push(Step { messages, cut, cancel: false });
    }

    fn statement(&mut self) -> String {
        let kind = match self.dice.below(100) {
            0..=31 => Kind::Read,
            32..=47 => Kind::Write,
            48..=54 => Kind::Fault,
            55..=72 => Kind::Transaction,
            73..=83 => Kind::Setting,
            84..=95 => Kind::Living,
            _ => Kind::Schema,
        };
        let sql = sql::statement(&mut self.dice, kind);
        let resets = ["reset", "discard all", "set timezone to default"].iter().any(|word| sql.starts_with(word));
        if resets && !self.plain { "select 'no reset'".to_owned() } else { sql }
    }

    /// A Query of one statement, or of a few.
    fn query(&mut self) -> Vec<Message> {
        let count = if self.dice.percent(15) { 2 + self.dice.below(3) } else { 1 };
        let texts: Vec<String> = (0..count).map(|_| self.statement()).collect();
        vec![Message::Query(texts.join("; "))]
    }

    /// Extended messages, mostly up to a Sync.
    fn batch(&mut self) -> Vec<Message> {
        let mut out = Vec::new();
        for _ in 0..1 + self.dice.below(3) {
            self.piece(&mut out);
            if self.dice.percent(10) {
                out.push(Message::Flush);
            }
        }
        match self.dice.below(100) {
            0..=84 => out.push(Message::Sync),
            85..=93 => out.push(Message::Flush),
            _ => {}
        }
        out
    }

    /// Several requests in one write.
    fn pipeline(&mut self) -> Vec<Message> {
        let mut out = Vec::new();
        for _ in 0..2 + self.dice.below(3) {
            let more = if self.dice.percent(40) { self.query() } else { self.batch() };
            out.extend(more);
        }
        out
    }

    /// What drivers send together, and sometimes what nobody sends.
    fn piece(&mut self, out: &mut Vec<Message>) {
        let portal = self.dice.pick(PORTALS).to_owned();
        match self.dice.below(100) {
            0..=54 => {
                let name = self.dice.pick(NAMES);
                let values = self.parse(name, out);
                if self.dice.percent(15) {
                    out.push(Message::Describe(b'S', name.to_owned()));
                }
                if self.dice.percent(92) {
                    self.bind(&portal, name, values, out);
                    self.run(portal, out);
                }
            }
            55..=79 => {
                let known: Vec<_> = self.statements.iter().map(|(name, count)| (*name, *count)).collect();
                let (name, count) = if known.is_empty() { ("s3", 0) } else { known[self.dice.below(known.len())] };
                self.bind(&portal, name, count, out);
                self.run(portal, out);
            }
            80..=84 => out.push(Message::Describe(b'S', self.dice.pick(NAMES).to_owned())),
            85..=87 => out.push(Message::Describe(b'P', bound(portal, out))),
            88..=91 => out.push(Message::Execute(bound(portal, out), 0)),
            92..=97 => {
                let name = self.dice.pick(NAMES);
                self.statements.remove(name);
                out.push(Message::Close(b'S', name.to_owned()));
            }
            _ => out.push(Message::Close(b'P', portal)),
        }
    }

    /// Mostly closes a name before it is used again.
    fn parse(&mut self, name: &'static str, out: &mut Vec<Message>) -> usize {
        if !name.is_empty() && self.statements.contains_key(name) && self.dice.percent(80) {
            out.push(Message::Close(b'S', name.to_owned()));
        }
        let (sql, count) =
            if self.dice.percent(50) { sql::parameterised(&mut self.dice) } else { (self.statement(), 0) };
        self.statements.insert(name, count);
        out.push(Message::Parse { name: name.to_owned(), sql });
        count
    }

    fn bind(&mut self, portal: &str, statement: &str, count: usize, out: &mut Vec<Message>) {
        let count = if self.dice.percent(2) { count + 1 } else { count };
        let value = |dice: &mut Dice| match dice.below(20) {
            0 => None,
            1 => Some("x".to_owned()),
            2 => Some("0".to_owned()),
            _ => Some((1 + dice.below(12)).to_string()),
        };
        let values = (0..count).map(|_| value(&mut self.dice)).collect();
        let binary = self.dice.percent(10);
        let (portal, statement) = (portal.to_owned(), statement.to_owned());
        out.push(Message::Bind { portal, statement, values, binary });
    }

    fn run(&mut self, portal: String, out: &mut Vec<Message>) {
        if self.dice.percent(50) {
            out.push(Message::Describe(b'P', portal.clone()));
        }
        match self.dice.below(100) {
            0..=79 => out.push(Message::Execute(portal, 0)),
            80..=91 => {
                out.push(Message::Execute(portal.clone(), 2));
                if self.dice.percent(70) {
                    out.push(Message::Flush);
                }
                out.push(Message::Execute(portal, if self.dice.percent(50) { 2 } else { 0 }));
            }
            92..=95 => out.push(Message::Close(b'P', portal)),
            _ => {}
        }
    }

    fn copy_in(&mut self) {
        let (text, extended) = match self.dice.below(10) {
            0..=3 => ("copy @t(id, n, v) from stdin", false),
            4 => ("copy @t(id, n, v) from stdin; select count(*) from @t", false),
            5 => ("copy nosuch from stdin", self.dice.percent(50)),
            _ => ("copy @t(id, n, v) from stdin", true),
        };
        let sql = text.to_owned();
        let mut messages = if extended {
            let bind =
                Message::Bind { portal: String::new(), statement: String::new(), values: Vec::new(), binary: false };
            self.statements.remove("");
            vec![Message::Parse { name: String::new(), sql }, bind, Message::Execute(String::new(), 0)]
        } else {
            vec![Message::Query(sql)]
        };
        if extended && self.dice.percent(30) {
            messages.push(if self.dice.percent(70) { Message::Sync } else { Message::Flush });
        }
        if self.dice.percent(60) {
            self.push(std::mem::take(&mut messages));
        }
        for _ in 0..self.dice.below(4) {
            let id = 20 + self.dice.below(40);
            let row = match self.dice.below(12) {
                0 => "not a number\t1\tx\n".to_owned(),
                1 => format!("{id}\n"),
                2 => "1\t1\tdouble\n".to_owned(),
                _ => format!("{id}\t{}\tc\n", self.dice.below(9)),
            };
            messages.push(Message::Data(row));
            // No Sync here: whether it is ignored or ends the skipping after a bad row cannot be known from outside.
            if self.dice.percent(8) {
                messages.push(Message::Flush);
            }
        }
        messages.push(if self.dice.percent(80) { Message::Done } else { Message::Fail });
        if extended {
            messages.push(Message::Sync);
        }
        self.push(messages);
    }

    fn copy_out(&mut self) -> Vec<Message> {
        let texts = [
            "copy (select id, n, v from @t order by id) to stdout",
            "copy (select 1 / (3 - g) from generate_series(1, 5) g) to stdout",
            "copy (delete from @t where id = 5 returning id) to stdout",
            "copy (select g from generate_series(1, 300) g) to stdout (format csv); select 1",
        ];
        vec![Message::Query(self.dice.pick(&texts).to_owned())]
    }

    fn cancel(&mut self) {
        let sql = match self.dice.below(3) {
            0 => SLEEP.to_owned(),
            1 => format!("select 1; {SLEEP}; select 2"),
            _ => format!("update @t set n = n where id = 1; {SLEEP}"),
        };
        let simple = self.dice.percent(50);
        let messages = if simple {
            vec![Message::Query(sql)]
        } else {
            let bind =
                Message::Bind { portal: String::new(), statement: String::new(), values: Vec::new(), binary: false };
            self.statements.remove("");
            let parse = Message::Parse { name: String::new(), sql: SLEEP.to_owned() };
            vec![parse, bind, Message::Execute(String::new(), 0), Message::Sync]
        };
        self.steps.push(Step { messages, cut: None, cancel: true });
    }

    fn end(&mut self) -> End {
        match self.dice.below(10) {
            0..=3 => End::Terminate(Vec::new()),
            4 => {
                let last = if self.dice.percent(50) { self.query() } else { self.batch() };
                End::Terminate(last)
            }
            5..=6 => End::Vanish,
            _ => {
                let last = self.pipeline();
                End::Break(last, self.dice.below(1001))
            }
        }
    }
}

/// The unnamed portal only where the same group has bound it. A Query that fails while it runs leaves its own under that name until the
/// transaction ends, with a plan whose memory is gone (postgres.c, exec_simple_query), and an Execute of it may crash the server.
fn bound(portal: String, group: &[Message]) -> String {
    let is_bound = group.iter().any(|message| matches!(message, Message::Bind { portal, .. } if portal.is_empty()));
    if portal.is_empty() && !is_bound { "p1".to_owned() } else { portal }
}
