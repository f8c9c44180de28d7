//! Sixty clients over three server connections: every answer says whose it is and which, so one that crossed over is seen.

use std::thread;

use crate::{
    Case, cases,
    client::{Client, Login},
    frontend::{self, Values},
    world::{Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("crowd", Nothing: no_answer_crosses))
}

const CLIENTS: u32 = 60;
/// Turns of each client. Some end with it gone and back again.
const TURNS: u32 = 8;

fn no_answer_crosses(world: &World) {
    world.prepare("drop table if exists crowd; create table crowd(who int not null, turn int not null)");
    let port = world.proxy(&Setup::default().size(3).checkout_timeout("30s")).port;
    let wrote: u32 = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|who| scope.spawn(move || Talker::new(port, who).talk())).collect();
        clients.into_iter().map(|client| client.join().expect("a client heard what was not its own")).sum()
    });
    let open = "select count(*) from pg_stat_activity where usename = 'app' and application_name <> 'keep' and state <> 'idle'";
    eventually("all statements to end", || world.superuser(open) == "0");
    let rows = world.superuser("select count(*) || ' ' || count(distinct (who, turn)) from crowd");
    assert_eq!(rows, format!("{wrote} {wrote}"), "every row that was acknowledged, once");
}

/// One client, and what it has been told is written.
struct Talker {
    port: u16,
    who: u32,
    turn: u32,
    client: Client,
    wrote: u32,
}

fn enter(port: u16, who: u32) -> Client {
    let login = Login::default().param("application_name", &format!("crowd {who}"));
    Client::login(port, &login).unwrap_or_else(|trouble| panic!("client {who}: {trouble}"))
}

impl Talker {
    fn new(port: u16, who: u32) -> Self {
        Self { port, who, turn: 0, client: enter(port, who), wrote: 0 }
    }

    fn talk(mut self) -> u32 {
        let named = [frontend::parse("mine", "select $1::text", &[]), frontend::sync()].concat();
        assert_eq!(self.client.ask(&named).letters(), "1 Z(I)");
        for turn in 0..TURNS {
            self.turn = turn;
            // Clients are at different kinds at any time.
            match (self.who + turn) % 8 {
                0 => self.simple(),
                1 => self.extended(),
                2 => self.prepared(),
                3 => self.pipelined(),
                4 => self.transaction(),
                5 => self.rows(),
                6 if self.who.is_multiple_of(5) => self.cancelled(),
                6 => self.setting(),
                _ => self.leaves_in_the_middle(&named),
            }
        }
        self.wrote
    }

    /// What only this turn of this client says.
    fn mark(&self, part: &str) -> String {
        format!("{}-{}-{part}", self.who, self.turn)
    }

    fn simple(&mut self) {
        let mark = self.mark("simple");
        assert_eq!(self.client.value(&format!("select '{mark}'")), mark);
    }

    fn extended(&mut self) {
        let mark = self.mark("extended");
        assert_eq!(self.client.extended("select $1::text", &[&mark]).value(), mark);
    }

    fn prepared(&mut self) {
        let mark = self.mark("prepared");
        let run = [frontend::bind("", "mine", &Values::text(&[&mark])), frontend::execute("", 0), frontend::sync()];
        let reply = self.client.ask(&run.concat());
        assert_eq!((reply.value(), reply.letters().as_str()), (mark, "2 D C(SELECT 1) Z(I)"));
    }

    /// Three batches and a query in one write; the second batch fails.
    fn pipelined(&mut self) {
        let marks = [self.mark("a"), self.mark("b"), self.mark("c")];
        let text = |mark: &str| frontend::extended("select $1::text", &Values::text(&[mark]));
        let fails = frontend::extended("select 1 / $1::int", &Values::text(&["0"]));
        let all = [text(&marks[0]), fails, text(&marks[1]), frontend::query(&format!("select '{}'", marks[2]))];
        self.client.send(&all.concat()).expect("send");
        let (reply, trouble) = self.client.recv_until(b'Z', 4);
        assert!(trouble.is_none(), "client {}: {trouble:?} after {}", self.who, reply.letters());
        assert_eq!(reply.rows().concat(), marks);
        assert_eq!(reply.sqlstate().as_deref(), Some("22012"));
    }

    fn transaction(&mut self) {
        let (who, turn) = (self.who, self.turn);
        assert_eq!(self.client.query("begin").letters(), "C(BEGIN) Z(T)");
        let insert = format!("insert into crowd values ({who}, {turn}) returning who || '-' || turn");
        assert_eq!(self.client.query(&insert).value(), format!("{who}-{turn}"));
        let commits = turn % 3 != 0;
        let end = if commits { "commit" } else { "rollback" };
        assert_eq!(self.client.query(end).status(), Some('I'));
        self.wrote += u32::from(commits);
        let mine = self.client.value(&format!("select count(*) from crowd where who = {who}"));
        assert_eq!(mine, self.wrote.to_string(), "client {who} sees what it wrote");
    }

    fn rows(&mut self) {
        let mark = self.mark("row");
        let reply = self.client.query(&format!("select '{mark}-' || g from generate_series(1, 200) g"));
        let wanted: Vec<String> = (1..=200).map(|g| format!("{mark}-{g}")).collect();
        assert_eq!(reply.rows().concat(), wanted);
    }

    fn setting(&mut self) {
        let mark = self.mark("setting");
        self.client.query(&format!("set app.x = '{mark}'"));
        assert_eq!(self.client.value("select current_setting('app.x')"), mark);
        assert_eq!(self.client.value("show application_name"), format!("crowd {}", self.who));
        self.client.query("reset app.x");
    }

    /// Its own statement is cancelled and nobody else's. A cancel that comes too early hits nothing, so it is said until it does.
    fn cancelled(&mut self) {
        self.client
            .send(&frontend::query(&format!("select '{}', pg_sleep(30)", self.mark("cancelled"))))
            .expect("send");
        let reply = loop {
            self.client.cancel(self.port).expect("cancel");
            if let Some(reply) = self.client.hears_to_the_end() {
                break reply;
            }
        };
        let cancelled = reply.sqlstate().as_deref() == Some("57014") && reply.rows().is_empty();
        assert!(cancelled, "client {}: {}", self.who, reply.letters());
    }

    /// Gone with an answer half read; back as somebody who must hear nothing of it.
    fn leaves_in_the_middle(&mut self, named: &[u8]) {
        let mark = self.mark("unread");
        let many = format!("select '{mark}-' || g, repeat('x', 200) from generate_series(1, 1000) g");
        self.client.send(&frontend::query(&many)).expect("send");
        let first = self.client.recv().unwrap_or_else(|trouble| panic!("client {}: {trouble}", self.who));
        assert_eq!(first.tag, b'T', "client {}", self.who);
        std::mem::replace(&mut self.client, enter(self.port, self.who)).vanish();
        assert_eq!(self.client.ask(named).letters(), "1 Z(I)");
    }
}
