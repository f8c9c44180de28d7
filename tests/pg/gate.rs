//! A gate between the proxy and a server: connections pass, wait, or are turned away.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

#[derive(Debug, Default)]
struct Now {
    shut: bool,
    /// How often those who waited were turned away.
    turned_away: u32,
}

/// In front of one port of this machine. Its threads end with the process.
#[derive(Debug)]
pub struct Gate {
    port: u16,
    now: Arc<(Mutex<Now>, Condvar)>,
}

impl Gate {
    /// An open gate before `server`.
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let now = Arc::<(Mutex<Now>, Condvar)>::default();
        let gate = Self { port, now: Arc::clone(&now) };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let now = Arc::clone(&now);
                thread::spawn(move || pass(client, server, &now));
            }
        });
        gate
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// What comes from now on waits. What has passed is not held up.
    pub fn shut(&self) {
        self.set(|now| now.shut = true);
    }

    pub fn open(&self) {
        self.set(|now| now.shut = false);
    }

    /// What waits is closed; what comes later passes.
    pub fn turn_away(&self) {
        self.set(|now| (now.shut, now.turned_away) = (false, now.turned_away + 1));
    }

    fn set(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.now.0.lock().expect("the gate"));
        self.now.1.notify_all();
    }
}

fn pass(client: TcpStream, server: u16, now: &(Mutex<Now>, Condvar)) {
    let mut state = now.0.lock().expect("the gate");
    let turned_away = state.turned_away;
    while state.shut && state.turned_away == turned_away {
        state = now.1.wait(state).expect("the gate");
    }
    if state.turned_away != turned_away {
        return;
    }
    drop(state);
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { return };
    let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
    let there = thread::spawn(move || copy(from, to));
    copy(server, client);
    let _ = there.join();
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
