//! The pool against a scripted server that lets everybody in, and keeps count.

use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::{JoinHandle, LocalSet, spawn_local, yield_now},
    time::timeout,
};

use super::{CheckoutError, Lease, Local, Login, Pool, Proof, Settings};
use crate::{
    base::SqlState,
    net::Address,
    wire::{
        backend::{self, ErrorText, Severity, TxStatus},
        startup::CANCEL_REQUEST,
    },
};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

/// What the server did.
struct Fake {
    /// Connections logged in and not ended.
    open: watch::Sender<usize>,
    most: AtomicUsize,
    logins: AtomicUsize,
    cancels: AtomicUsize,
    /// Logins are answered only while this is true.
    answers: watch::Sender<bool>,
    /// The next logins are refused.
    refuses: AtomicUsize,
    /// Has one idle connection say something.
    speak: Notify,
}

impl Fake {
    async fn start() -> (Arc<Self>, Address) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
        let fake = Arc::new(Self {
            open: watch::channel(0).0,
            most: AtomicUsize::new(0),
            logins: AtomicUsize::new(0),
            cancels: AtomicUsize::new(0),
            answers: watch::channel(true).0,
            refuses: AtomicUsize::new(0),
            speak: Notify::new(),
        });
        let accepting = Arc::clone(&fake);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let fake = Arc::clone(&accepting);
                tokio::spawn(async move {
                    // A client that goes away is the end of it.
                    let _ = fake.serve(stream).await;
                });
            }
        });
        (fake, address)
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let len = stream.read_u32().await?;
        let code = stream.read_u32().await?;
        let mut rest = vec![0; len as usize - 8];
        stream.read_exact(&mut rest).await?;
        if code == CANCEL_REQUEST {
            self.cancels.fetch_add(1, SeqCst);
            return Ok(());
        }
        self.logins.fetch_add(1, SeqCst);
        let _ = self.answers.subscribe().wait_for(|answers| *answers).await;
        let mut out = Vec::new();
        if self.refuses.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok() {
            let text = ErrorText::new(Severity::Fatal, SqlState::TOO_MANY_CONNECTIONS, "no");
            backend::error_response(&mut out, &text);
            return stream.write_all(&out).await;
        }
        self.open.send_modify(|open| *open += 1);
        self.most.fetch_max(*self.open.borrow(), SeqCst);
        backend::authentication_ok(&mut out);
        backend::backend_key_data(&mut out, 7, &[1, 2, 3, 4]);
        backend::ready_for_query(&mut out, TxStatus::Idle);
        let mut byte = [0];
        let talk = async {
            stream.write_all(&out).await?;
            loop {
                tokio::select! {
                    () = self.speak.notified() => {
                        let mut out = Vec::new();
                        backend::parameter_status(&mut out, b"a", b"b");
                        stream.write_all(&out).await?;
                    }
                    // Terminate, or the end.
                    read = stream.read(&mut byte) => return read.map(|_| ()),
                }
            }
        };
        let ended = talk.await;
        self.open.send_modify(|open| *open -= 1);
        ended
    }

    async fn until_open(&self, count: usize) {
        let mut open = self.open.subscribe();
        timeout(LONG, open.wait_for(|open| *open == count)).await.expect("the count never comes").unwrap();
    }
}

fn settings(size: usize) -> Settings {
    Settings {
        size,
        min_idle: 0,
        checkout_timeout: LONG,
        idle_timeout: Duration::ZERO,
        max_lifetime: Duration::ZERO,
        max_prepared: 10,
        tls: Default::default(),
    }
}

fn login() -> Login {
    Login::new("u", "d", Proof::None, Arc::default())
}

/// The server and one way into the pool for each of two workers.
async fn pool(size: usize) -> (Arc<Fake>, Arc<Pool>, Rc<Local>, Rc<Local>) {
    let (fake, address) = Fake::start().await;
    let pool = Arc::new(Pool::new(address, login(), settings(size), 2));
    let local = |worker| Rc::new(Local { pool: Arc::clone(&pool), worker });
    let (one, two) = (local(0), local(1));
    (fake, pool, one, two)
}

/// A checkout on its way, of which it is known that it stands in line.
async fn waiter(local: &Rc<Local>, deadline: Duration) -> JoinHandle<Result<Lease, CheckoutError>> {
    let before = local.pool.census().2;
    let local = Rc::clone(local);
    let pool = Arc::clone(&local.pool);
    let task = spawn_local(async move { local.checkout(deadline).await });
    while pool.census().2 == before && !task.is_finished() {
        yield_now().await;
    }
    task
}

async fn soon<T>(task: JoinHandle<T>) -> T {
    timeout(LONG, task).await.expect("it waits for ever").unwrap()
}

async fn lease(local: &Rc<Local>) -> Lease {
    timeout(LONG, local.checkout(LONG)).await.expect("it waits for ever").unwrap()
}

/// Runs a test on one thread with tasks that are not `Send`, as a worker does.
fn on_a_worker(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn a_connection_is_used_again() {
    on_a_worker(async {
        let (fake, pool, one, _) = pool(2).await;
        for _ in 0..3 {
            lease(&one).await.give_back(Instant::now());
        }
        assert!(one.try_checkout(Instant::now()).is_some());
        assert_eq!((fake.logins.load(SeqCst), pool.census().0), (1, 1));
    });
}

#[test]
fn the_cap_is_never_exceeded() {
    on_a_worker(async {
        let (fake, pool, one, two) = pool(3).await;
        let tasks: Vec<_> = (0..60)
            .map(|i| {
                let local = Rc::clone(if i % 2 == 0 { &one } else { &two });
                spawn_local(async move {
                    let lease = local.checkout(LONG).await.unwrap();
                    for _ in 0..i % 5 {
                        yield_now().await;
                    }
                    match i % 4 {
                        // Left in the middle of something: its backend ends before its place is free.
                        0 => drop(lease),
                        _ => lease.give_back(Instant::now()),
                    }
                })
            })
            .collect();
        for task in tasks {
            soon(task).await;
        }
        assert!(fake.most.load(SeqCst) <= 3, "{} at once", fake.most.load(SeqCst));
        assert!(fake.logins.load(SeqCst) >= 15);
        let (total, idle, waiting) = pool.census();
        assert!(total <= 3 && idle <= total && waiting == 0, "{:?}", pool.census());
    });
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    on_a_worker(async {
        let (_fake, _, one, two) = pool(1).await;
        let held = lease(&one).await;
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        let mut tasks = Vec::new();
        for i in 0..6 {
            let before = one.pool.census().2;
            let (local, order) = (Rc::clone(if i % 2 == 0 { &one } else { &two }), Rc::clone(&order));
            tasks.push(spawn_local(async move {
                let lease = local.checkout(LONG).await.unwrap();
                order.borrow_mut().push(i);
                lease.give_back(Instant::now());
            }));
            while one.pool.census().2 == before {
                yield_now().await;
            }
        }
        assert!(one.try_checkout(Instant::now()).is_none());
        held.give_back(Instant::now());
        assert!(one.try_checkout(Instant::now()).is_none(), "nobody jumps the queue");
        for task in tasks {
            soon(task).await;
        }
        assert_eq!(*order.borrow(), [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn a_waiter_gives_up_at_its_deadline() {
    on_a_worker(async {
        let (_fake, pool, one, _) = pool(1).await;
        let held = lease(&one).await;
        assert!(matches!(one.checkout(SHORT).await, Err(CheckoutError::Timeout(_))));
        assert_eq!(pool.census(), (1, 0, 0));
        held.give_back(Instant::now());
        assert!(one.try_checkout(Instant::now()).is_some());
    });
}

#[test]
fn a_waiter_that_left_is_passed_over() {
    on_a_worker(async {
        let (_fake, pool, one, _) = pool(1).await;
        let held = lease(&one).await;
        let first = waiter(&one, LONG).await;
        let second = waiter(&one, LONG).await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        assert_eq!(pool.census().2, 1);
        held.give_back(Instant::now());
        assert!(soon(second).await.is_ok());
    });
}

#[test]
fn a_connection_on_its_way_to_a_waiter_that_left_is_not_lost() {
    on_a_worker(async {
        let (fake, pool, one, _) = pool(1).await;
        let held = lease(&one).await;
        let first = waiter(&one, LONG).await;
        let second = waiter(&one, LONG).await;
        // Handed over, but not taken: the task has not run since.
        held.give_back(Instant::now());
        assert_eq!(pool.census().2, 1);
        first.abort();
        let lease = soon(second).await.unwrap();
        assert_eq!(pool.census(), (1, 0, 0));
        lease.give_back(Instant::now());
        assert!(fake.most.load(SeqCst) <= 1 + 1);
    });
}

#[test]
fn a_failed_login_gives_its_room_back() {
    on_a_worker(async {
        let (fake, pool, one, _) = pool(1).await;
        fake.refuses.store(2, SeqCst);
        fake.answers.send_replace(false);
        let first = spawn_local({
            let one = Rc::clone(&one);
            async move { one.checkout(LONG).await }
        });
        while fake.logins.load(SeqCst) == 0 {
            yield_now().await;
        }
        let second = waiter(&one, LONG).await;
        let third = waiter(&one, LONG).await;
        assert_eq!(pool.census(), (1, 0, 2));
        fake.answers.send_replace(true);
        assert!(matches!(soon(first).await, Err(CheckoutError::Connect(_))));
        // The waiter gets the room, and its own refusal; then the next.
        assert!(matches!(soon(second).await, Err(CheckoutError::Connect(_))));
        assert!(soon(third).await.is_ok());
    });
}

#[test]
fn a_checkout_given_up_while_it_dials_gives_its_room_back() {
    on_a_worker(async {
        let (fake, pool, one, _) = pool(1).await;
        fake.answers.send_replace(false);
        assert!(timeout(SHORT, one.checkout(LONG)).await.is_err());
        assert_eq!(pool.census(), (0, 0, 0));
        fake.answers.send_replace(true);
        lease(&one).await.give_back(Instant::now());
    });
}

#[test]
fn another_workers_connection_is_taken_when_the_cap_is_reached() {
    on_a_worker(async {
        let (fake, pool, one, two) = pool(1).await;
        lease(&one).await.give_back(Instant::now());
        let lease = lease(&two).await;
        assert_eq!((lease.peek().unwrap().home, fake.logins.load(SeqCst)), (1, 1));
        lease.give_back(Instant::now());
        assert_eq!(pool.census(), (1, 1, 0));
        // It lies where it was used last, and still works.
        assert!(two.try_checkout(Instant::now()).is_some());
    });
}

#[test]
fn below_the_cap_a_worker_dials_its_own() {
    on_a_worker(async {
        let (fake, _, one, two) = pool(2).await;
        lease(&one).await.give_back(Instant::now());
        lease(&two).await.give_back(Instant::now());
        assert_eq!(fake.logins.load(SeqCst), 2);
    });
}

#[test]
fn connections_of_an_older_epoch_are_not_lent() {
    on_a_worker(async {
        let (fake, pool, one, two) = pool(3).await;
        lease(&one).await.give_back(Instant::now());
        lease(&two).await.give_back(Instant::now());
        let held = lease(&one).await;
        pool.require_epoch(1);
        assert_eq!(pool.census(), (1, 0, 0), "the idle one is gone, the other is on loan");
        fake.until_open(1).await;
        held.give_back(Instant::now());
        assert_eq!(pool.census(), (0, 0, 0));
        fake.until_open(0).await;
        assert_eq!(lease(&one).await.peek().unwrap().epoch, 1);
        pool.require_epoch(0);
        assert_eq!(pool.epoch(), 1, "time does not run back");
    });
}

#[test]
fn a_waiter_gets_the_room_of_a_connection_that_is_too_old() {
    on_a_worker(async {
        let (_fake, pool, one, _) = pool(1).await;
        let held = lease(&one).await;
        let waits = waiter(&one, LONG).await;
        pool.require_epoch(1);
        held.give_back(Instant::now());
        assert_eq!(soon(waits).await.unwrap().peek().unwrap().epoch, 1);
    });
}

#[test]
fn a_connection_that_speaks_or_ends_while_idle_is_not_lent() {
    on_a_worker(async {
        let (fake, pool, one, _) = pool(1).await;
        lease(&one).await.give_back(Instant::now());
        fake.speak.notify_one();
        // Until the reactor has seen it.
        while pool.census().1 == 1 {
            yield_now().await;
            pool.sweep(0, Instant::now());
        }
        assert_eq!(pool.census().0, 0);
        lease(&one).await.give_back(Instant::now());
        assert_eq!(fake.logins.load(SeqCst), 2);
    });
}

#[test]
fn age_and_idleness_end_a_connection() {
    let sweep = |settings: Settings, after: Duration, left: usize| {
        on_a_worker(async move {
            let (_fake, pool, one, _) = pool(3).await;
            pool.reconfigure(login(), settings);
            let leases = [lease(&one).await, lease(&one).await];
            leases.into_iter().for_each(|lease| lease.give_back(Instant::now()));
            let later = Instant::now() + after;
            pool.sweep(0, later);
            assert_eq!(pool.census(), (left, left, 0));
        });
    };
    let minute = Duration::from_secs(60);
    sweep(settings(3), minute * 600, 2);
    sweep(Settings { idle_timeout: minute, ..settings(3) }, minute / 2, 2);
    sweep(Settings { idle_timeout: minute, ..settings(3) }, minute * 2, 0);
    sweep(Settings { idle_timeout: minute, min_idle: 1, ..settings(3) }, minute * 2, 1);
    sweep(Settings { max_lifetime: minute, min_idle: 2, ..settings(3) }, minute / 2, 2);
    sweep(Settings { max_lifetime: minute, min_idle: 2, ..settings(3) }, minute * 2, 0);
}

#[test]
fn a_pool_is_warmed_up_to_what_it_wants() {
    on_a_worker(async {
        let (fake, pool, one, _) = pool(3).await;
        assert_eq!(pool.wants(), 0);
        pool.reconfigure(login(), Settings { min_idle: 2, ..settings(3) });
        assert_eq!(pool.wants(), 2);
        while pool.wants() > 0 {
            one.warm().await.unwrap();
        }
        assert_eq!((pool.census(), fake.logins.load(SeqCst)), ((2, 2, 0), 2));
        pool.reconfigure(login(), Settings { min_idle: 9, ..settings(3) });
        assert_eq!(pool.wants(), 1, "no more than fit");
    });
}

#[test]
fn a_larger_cap_serves_those_who_wait() {
    on_a_worker(async {
        let (_fake, pool, one, _) = pool(1).await;
        let _held = lease(&one).await;
        let waits = waiter(&one, LONG).await;
        pool.reconfigure(login(), settings(2));
        assert!(soon(waits).await.is_ok());
    });
}

#[test]
fn a_smaller_cap_is_reached_as_connections_come_back() {
    on_a_worker(async {
        let (_fake, pool, one, _) = pool(3).await;
        let leases = [lease(&one).await, lease(&one).await, lease(&one).await];
        pool.reconfigure(login(), settings(1));
        leases.into_iter().for_each(|lease| lease.give_back(Instant::now()));
        assert_eq!(pool.census(), (1, 1, 0));
    });
}

#[test]
fn a_closed_pool_ends_every_wait_and_keeps_nothing() {
    on_a_worker(async {
        let (fake, pool, one, two) = pool(2).await;
        lease(&two).await.give_back(Instant::now());
        let held = [lease(&one).await, lease(&two).await];
        let waits = waiter(&one, LONG).await;
        pool.close();
        assert!(matches!(soon(waits).await, Err(CheckoutError::Closed)));
        assert_eq!(pool.census().2, 0);
        let late = timeout(LONG / 2, one.checkout(LONG)).await.expect("nobody can ever serve it");
        assert!(matches!(late, Err(CheckoutError::Closed)), "{late:?}");
        held.into_iter().for_each(|lease| lease.give_back(Instant::now()));
        assert_eq!(pool.census(), (0, 0, 0));
        fake.until_open(0).await;
    });
}

#[test]
fn a_dropped_lease_is_cancelled_and_its_place_is_free_when_it_has_ended() {
    on_a_worker(async {
        let (fake, pool, one, _) = pool(1).await;
        drop(lease(&one).await);
        assert_eq!(pool.census().0, 1, "its backend may still run");
        lease(&one).await.give_back(Instant::now());
        assert_eq!((fake.cancels.load(SeqCst), fake.most.load(SeqCst)), (1, 1));
        lease(&one).await.gone();
        assert_eq!((pool.census(), fake.cancels.load(SeqCst)), ((0, 0, 0), 1));
    });
}
