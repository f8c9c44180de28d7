//! One script, said once: what came back.

use super::{
    dialogue::Dialogue,
    script::{End, Message, Names, Script},
};
use crate::{
    client::{Client, Login},
    frontend,
};

/// All that came back, message by message.
pub type Trace = Vec<String>;

/// Says `script` to `port`. `nodes` are the servers behind it, which are asked whether a statement runs.
pub fn run(script: &Script, names: &Names, port: u16, nodes: &[u16]) -> Trace {
    let login = Login { params: script.login.clone(), ..Login::default() };
    let client = match Client::login(port, &login) {
        Ok(client) => client,
        Err(trouble) => return vec![format!("login: {trouble}")],
    };
    let mut told: Vec<String> = client.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    told.sort();
    let mut dialogue = Dialogue::new(client, names);
    dialogue.trace.push(told.join(" "));
    for step in &script.steps {
        dialogue.say(&step.messages, step.cut);
        if step.cancel {
            cancel(&mut dialogue, names, port, nodes);
        }
        dialogue.listen();
        if dialogue.over {
            return dialogue.trace;
        }
    }
    match &script.end {
        End::Terminate(last) => {
            let in_order = dialogue.is_quiet();
            dialogue.say(last, None);
            dialogue.send_raw(&frontend::terminate());
            let kept = dialogue.trace.len();
            dialogue.listen_to_the_end();
            if !in_order || dialogue.was_unasked() || is_open(last) {
                // What was said and never flushed may or may not come.
                dialogue.trace.truncate(kept);
            }
        }
        End::Vanish => {}
        End::Break(last, part) => {
            let bytes = super::script::bytes(last, names);
            dialogue.send_raw(&bytes[..bytes.len() * part / 1000]);
        }
    }
    dialogue.finish()
}

/// Does it end in a group without its Sync? Of that a server says something if it fails.
fn is_open(messages: &[Message]) -> bool {
    let behind = messages.iter().rev().take_while(|message| **message != Message::Sync);
    behind.into_iter().any(|message| !matches!(message, Message::Query(_) | Message::Flush))
}

/// Cancels the statement that was just sent, once it is seen to run. One that fails at once needs no cancel.
fn cancel(dialogue: &mut Dialogue<'_>, names: &Names, port: u16, nodes: &[u16]) {
    let mut watchers: Vec<Client> = Vec::new();
    let running = format!(
        "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and query like '%/* {} */%'",
        names.table
    );
    while dialogue.awaits() && !dialogue.over {
        if dialogue.hears() {
            continue;
        }
        if watchers.is_empty() {
            let watch = |port: &u16| Client::login(*port, &Login::default().user("postgres"));
            watchers.extend(nodes.iter().filter_map(|port| watch(port).ok()));
        }
        if watchers.iter_mut().any(|watcher| watcher.value(&running) != "0") {
            let _ = dialogue.cancel(port);
            return;
        }
    }
}
