//! Saying a script and comparing the traces.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    thread::sleep,
    time::Duration,
};

use super::{Act, Read, Script, Step};
use crate::{
    backend::Detail,
    client::{Client, Login, Reply, Trouble},
    frontend,
    world::{Setup, Via, World, eventually},
};

/// What a fresh session must find on a server connection that others have used: nothing of theirs.
const LEFTOVERS: &str = "begin read write; \
    select session_user, current_user, (select string_agg(name || '=' || setting, ' ' order by name) from pg_settings \
    where name in ('search_path','TimeZone','DateStyle','IntervalStyle','client_encoding','standard_conforming_strings',\
    'application_name','statement_timeout','lock_timeout','work_mem','default_transaction_read_only','default_transaction_isolation',\
    'client_min_messages','bytea_output','extra_float_digits','synchronous_commit','enable_seqscan','row_security')), \
    coalesce(current_setting('app.x', true), '') || coalesce(current_setting('app.tenant', true), ''), \
    (select count(*) from pg_cursors), \
    (select count(*) from pg_class where relpersistence = 't' and pg_table_is_visible(oid)), \
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()), \
    (select count(*) from pg_listening_channels()); commit";

/// The proxies a case is checked with.
pub(super) fn setups(script: &Script) -> Vec<(&'static str, Setup)> {
    let all = [
        ("pool", Setup::default().size(script.pool)),
        ("cache", Setup::default().size(script.pool).cached()),
        ("session", Setup::default().mode("session").size(8)),
    ];
    let further = [("evict", Setup::default().size(script.pool).pool("max_prepared: 1"))];
    let said = |words: &[String], word: &str| words.iter().any(|w| w == word);
    let further = further.into_iter().filter(|(word, _)| said(&script.also, word));
    all.into_iter().chain(further).filter(|(word, _)| !said(&script.except, word)).collect()
}

/// One line of a trace per step, both ways.
struct Said {
    letters: Vec<String>,
    full: Vec<String>,
}

pub(super) fn check(world: &World, script: &Script, setup: &Setup) {
    before(world, script);
    let native = say(world, script, world.cluster().primary().port(), None);
    for (step, letters) in script.steps.iter().zip(&native.letters) {
        if let Some(expected) = &step.expected {
            assert_eq!(letters, expected, "line {}: straight to the primary", step.line);
        }
    }
    before(world, script);
    let proxy = world.proxy(setup);
    let mut wrong_routes = Vec::new();
    // A pooled session stays where it began.
    let asked = world.via == Via::Pgsluice && setup.mode == "transaction";
    let routes = asked.then_some(&mut wrong_routes);
    let proxied = say(world, script, proxy.port, routes);
    let mut report = String::new();
    for (i, (want, got)) in native.full.iter().zip(&proxied.full).enumerate() {
        let line = script.steps.get(i).map_or("end".to_owned(), |step| format!("line {}", step.line));
        let sign = if want == got { "  " } else { "- " };
        report.push_str(&format!("{sign}{line} {want}\n"));
        if want != got {
            report.push_str(&format!("+ {line} {got}\n"));
        }
    }
    assert!(native.full == proxied.full, "not as the server itself (-) but (+):\n{report}");
    assert!(wrong_routes.is_empty(), "{}", wrong_routes.join("\n"));
    hygiene(world, proxy.port);
}

fn before(world: &World, script: &Script) {
    if !script.before.is_empty() {
        world.prepare(&script.before.join(";\n"));
    }
}

/// Nobody is left in a transaction, and a newcomer finds a server connection as if it were new.
fn hygiene(world: &World, port: u16) {
    let open = "select count(*) from pg_stat_activity where usename in ('app', 'bob') and backend_type = 'client backend' \
        and (state like 'idle in transaction%' or state = 'active')";
    eventually("open transactions to end", || world.superuser(open) == "0");
    let leftovers = |port: u16| {
        let mut client = Client::login(port, &Login::default()).unwrap_or_else(|t| panic!("login after the case: {t}"));
        let reply = client.query(LEFTOVERS);
        let row = reply.rows().concat().join(" | ");
        if row.is_empty() { reply.render(Detail::Full) } else { row }
    };
    assert_eq!(leftovers(port), leftovers(world.cluster().primary().port()), "left behind for the next client");
}

fn say(world: &World, script: &Script, port: u16, mut wrong_routes: Option<&mut Vec<String>>) -> Said {
    let mut clients: BTreeMap<char, Client> = BTreeMap::new();
    let mut said = Said { letters: Vec::new(), full: Vec::new() };
    for step in &script.steps {
        let (reply, trouble) = act(world, &mut clients, step, port);
        let silent = matches!(trouble, Some(Trouble::Timeout));
        note(&mut said, script, step.client, &reply, trouble);
        if silent {
            // Out of step: everything after this would wait in vain, too.
            return said;
        }
        if let (Some(want), Some(wrong), Some(client)) =
            (&step.route, wrong_routes.as_mut(), clients.get_mut(&step.client))
        {
            let answer = client.query("SHOW pgsluice.route");
            let role = answer.rows().first().and_then(|row| row.get(1).cloned()).unwrap_or_default();
            if role != *want {
                wrong.push(format!(
                    "line {}: went to {role:?}, not to {want}: {}",
                    step.line,
                    answer.render(Detail::Full)
                ));
            }
        }
    }
    for (name, mut client) in clients {
        // Whatever still comes after Terminate was never asked for.
        let _ = client.send(&frontend::terminate());
        let (reply, trouble) = to_the_end(&mut client);
        note(&mut said, script, name, &reply, trouble);
    }
    said
}

fn note(said: &mut Said, script: &Script, client: char, reply: &Reply, trouble: Option<Trouble>) {
    let kept = Reply(reply.0.iter().filter(|m| !script.ignore.contains(&char::from(m.tag))).cloned().collect());
    let detail = if script.ours { Detail::Meaning } else { Detail::Full };
    let trouble = trouble.map(|t| format!(" {}", t.render(detail))).unwrap_or_default();
    said.letters.push(format!("{}{trouble}", kept.letters()).trim().to_owned());
    said.full.push(format!("{client}: {}{trouble}", kept.render(detail)));
}

fn act(world: &World, clients: &mut BTreeMap<char, Client>, step: &Step, port: u16) -> (Reply, Option<Trouble>) {
    match &step.act {
        Act::Login { user, params } => {
            let mut login = Login::default().user(user);
            login.params.clone_from(params);
            match Client::login(port, &login) {
                Ok(client) => {
                    clients.insert(step.client, client);
                    (Reply::default(), None)
                }
                Err(trouble) => (Reply::default(), Some(trouble)),
            }
        }
        Act::Vanish => {
            if let Some(client) = clients.remove(&step.client) {
                client.vanish();
            }
            (Reply::default(), None)
        }
        Act::Cancel => {
            // It may not run yet; a cancel that comes too early does nothing.
            let runs = "select count(*) from pg_stat_activity where usename = 'app' and state = 'active' and \
                wait_event in ('PgSleep', 'ClientWrite')";
            let nodes = world.cluster().nodes();
            eventually("the statement to run", || nodes.iter().any(|node| world.ask(node, "postgres", runs) != "0"));
            if let Some(client) = clients.get_mut(&step.client) {
                client.cancel(port).expect("cancel");
            }
            (Reply::default(), None)
        }
        Act::Say { segments, read } => {
            let client = match clients.entry(step.client) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => match Client::login(port, &Login::default()) {
                    Ok(client) => place.insert(client),
                    Err(trouble) => return (Reply::default(), Some(trouble)),
                },
            };
            for (i, segment) in segments.iter().enumerate() {
                if i > 0 {
                    // Provokes separate reads; nothing depends on it.
                    sleep(Duration::from_millis(3));
                }
                if let Err(e) = client.send(segment) {
                    return (Reply::default(), Some(Trouble::Io(e)));
                }
            }
            match *read {
                Read::Until { tag, count } => client.recv_until(tag, count),
                Read::ToTheEnd => to_the_end(client),
            }
        }
    }
}

fn to_the_end(client: &mut Client) -> (Reply, Option<Trouble>) {
    client.recv_until(b'\0', 1)
}
