//! tokio-postgres against pgsluice: one line per check, exit code 1 if any failed.
//!
//!     PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app cargo run --bin tokio_postgres

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use futures_util::{
    SinkExt, StreamExt, TryStreamExt,
    future::{join_all, poll_fn, try_join_all},
    pin_mut,
};
use pgsluice_driver_checks::{Checked, Report, checks, equal, fails, url, url_with, within};
use tokio_postgres::{AsyncMessage, Client, Config, Error, IsolationLevel, NoTls, config::TargetSessionAttrs};

fn code(error: &Error) -> Option<String> {
    error.code().map(|code| code.code().to_owned())
}

async fn connect_with(config: &Config) -> Result<Client, Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::task::spawn_local(async move {
        // An error shows in the request that needed the connection.
        let _ = connection.await;
    });
    Ok(client)
}

async fn connect() -> Result<Client, Error> {
    connect_with(&url().parse()?).await
}

async fn login() -> Checked {
    let c = connect().await?;
    equal!(c.query_one("select current_user::text", &[]).await?.get::<_, String>(0), "app");
    c.batch_execute("drop table if exists drv_tokio; create table drv_tokio (id int primary key, name text)").await?;
    Ok(())
}

async fn parameters() -> Checked {
    let c = connect().await?;
    let row = c
        .query_one(
            "select $1::int, $2::text, $3::bytea, $4::float8, $5::int[], $6::bool",
            &[&7, &"ü'\\", &&b"\0\xff"[..], &1.5, &vec![1, 2], &None::<bool>],
        )
        .await?;
    equal!(
        (row.get::<_, i32>(0), row.get::<_, &str>(1), row.get::<_, &[u8]>(2), row.get::<_, Vec<i32>>(4)),
        (7, "ü'\\", &b"\0\xff"[..], vec![1, 2])
    );
    equal!(row.get::<_, Option<bool>>(5), None);
    for i in 0..100 {
        let row = c.query_typed("select $1 + 1", &[(&i, tokio_postgres::types::Type::INT4)]).await?;
        equal!(row[0].get::<_, i32>(0), i + 1);
    }
    equal!(c.simple_query("select 1; select 2, 3").await?.len(), 6);
    Ok(())
}

/// Types of one's own make the driver ask pg_type, with statements it keeps.
async fn own_types() -> Checked {
    let c = connect().await?;
    c.batch_execute(
        "drop type if exists drv_tokio_pair, drv_tokio_mood; create type drv_tokio_mood as enum ('sad', 'happy');
         create type drv_tokio_pair as (a int, m drv_tokio_mood)",
    )
    .await?;
    for _ in 0..3 {
        let c = connect().await?;
        for _ in 0..3 {
            let statement = c.prepare("select $1::drv_tokio_mood, $2::drv_tokio_pair, $3::drv_tokio_mood[]").await?;
            equal!(
                statement.params().iter().map(|t| t.name()).collect::<Vec<_>>(),
                ["drv_tokio_mood", "drv_tokio_pair", "_drv_tokio_mood"]
            );
            c.clear_type_cache();
        }
    }
    c.batch_execute("drop type drv_tokio_pair, drv_tokio_mood").await?;
    Ok(())
}

async fn prepared() -> Checked {
    let c = connect().await?;
    for round in 0..20 {
        let statement = c.prepare(&format!("select $1::int + {}", round % 3)).await?;
        for i in 0..20 {
            equal!(c.query_one(&statement, &[&i]).await?.get::<_, i32>(0), i + round % 3);
        }
        // Dropped here: a Close goes out without anybody waiting for it.
    }
    fails!(c.prepare("select * from no_such_table").await, code, "42P01");
    fails!(c.query("select 1 / $1::int", &[&0]).await, code, "22012");
    equal!(c.query_one("select $1::int", &[&8]).await?.get::<_, i32>(0), 8);
    Ok(())
}

async fn pipelined() -> Checked {
    let c = connect().await?;
    let statement = c.prepare("select $1::int").await?;
    let numbers: Vec<i32> = (0..200).collect();
    let answers = try_join_all(
        numbers.iter().map(|i| async { Ok::<_, Error>(c.query_one(&statement, &[i]).await?.get::<_, i32>(0)) }),
    )
    .await?;
    equal!(answers, numbers);
    let mixed = join_all(numbers.iter().map(|i| {
        let c = &c;
        async move { c.query_one("select 10 / $1::int", &[&(i % 2)]).await }
    }))
    .await;
    equal!(mixed.iter().filter(|answer| answer.is_err()).count(), 100);
    Ok(())
}

async fn transactions() -> Checked {
    let mut c = connect().await?;
    let mut tx = c.transaction().await?;
    tx.execute("insert into drv_tokio values (1)", &[]).await?;
    let savepoint = tx.savepoint("s").await?;
    fails!(savepoint.execute("insert into drv_tokio values (1)", &[]).await, code, "23505");
    fails!(savepoint.execute("select 1", &[]).await, code, "25P02");
    savepoint.rollback().await?;
    tx.commit().await?;
    let tx = c.transaction().await?;
    tx.execute("insert into drv_tokio values (2)", &[]).await?;
    drop(tx); // rolls back without anybody waiting for it
    equal!(c.query_one("select count(*) from drv_tokio", &[]).await?.get::<_, i64>(0), 1);
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let tx = c.build_transaction().isolation_level(level).read_only(true).deferrable(true).start().await?;
        equal!(tx.query_one("show transaction_read_only", &[]).await?.get::<_, &str>(0), "on");
        fails!(tx.execute("insert into drv_tokio values (3)", &[]).await, code, "25006");
        tx.rollback().await?;
    }
    Ok(())
}

async fn portals() -> Checked {
    let mut c = connect().await?;
    let tx = c.transaction().await?;
    let portal = tx.bind("select generate_series(1, 250)", &[]).await?;
    for want in [100, 100, 50, 0] {
        equal!(tx.query_portal(&portal, 100).await?.len(), want);
    }
    let left = tx.bind("select generate_series(1, 250)", &[]).await?;
    equal!(tx.query_portal(&left, 10).await?.len(), 10);
    tx.commit().await?;
    {
        let rows = c.query_raw("select generate_series(1, 100000)", Vec::<i32>::new()).await?;
        pin_mut!(rows);
        rows.try_next().await?;
        // Dropped here: the rest is read and thrown away.
    }
    equal!(c.query_one("select 4", &[]).await?.get::<_, i32>(0), 4);
    Ok(())
}

async fn copy() -> Checked {
    let c = connect().await?;
    {
        let sink = c.copy_in("copy drv_tokio from stdin").await?;
        pin_mut!(sink);
        for i in 1000..6000 {
            sink.feed(std::io::Cursor::new(format!("{i}\trow {i}\n").into_bytes())).await?;
        }
        equal!(sink.finish().await?, 5000);
    }
    let out = c.copy_out("copy (select id from drv_tokio where id >= 1000) to stdout").await?;
    pin_mut!(out);
    let mut lines = 0;
    while let Some(part) = out.next().await {
        lines += part?.as_ref().iter().filter(|b| **b == b'\n').count();
    }
    equal!(lines, 5000);
    {
        let sink = c.copy_in("copy drv_tokio (id) from stdin").await?;
        pin_mut!(sink);
        sink.send(std::io::Cursor::new(b"x\n".to_vec())).await?;
        fails!(sink.finish().await, code, "22P02");
    }
    {
        let sink = c.copy_in("copy drv_tokio (id) from stdin").await?;
        pin_mut!(sink);
        sink.send(std::io::Cursor::new(b"7000\n".to_vec())).await?;
        // Dropped here: CopyFail.
    }
    equal!(c.query_one("select count(*) from drv_tokio where id = 7000", &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}

async fn cancel() -> Checked {
    let c = connect().await?;
    let token = c.cancel_token();
    let started = Instant::now();
    let (slept, cancelled) = tokio::join!(c.batch_execute("select pg_sleep(30)"), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel_query(NoTls).await
    });
    cancelled?;
    fails!(slept, code, "57014");
    within(started, Duration::from_secs(5))?;
    // A future that is dropped: its answer is read and thrown away.
    let _ = tokio::time::timeout(Duration::from_millis(50), c.batch_execute("select pg_sleep(0.2)")).await;
    equal!(c.query_one("select 5", &[]).await?.get::<_, i32>(0), 5);
    Ok(())
}

async fn notifications() -> Checked {
    let (c, mut connection) = url().parse::<Config>()?.connect(NoTls).await?;
    let (send, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::task::spawn_local(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(n) = message {
                let _ = send.send(n.payload().to_owned());
            }
        }
    });
    c.batch_execute("listen drv_tokio").await?;
    connect().await?.batch_execute("notify drv_tokio, 'hello'").await?;
    let payload = tokio::time::timeout(Duration::from_secs(5), heard.recv()).await?;
    equal!(payload.as_deref(), Some("hello"));
    Ok(())
}

async fn options() -> Checked {
    let address = url().parse::<Config>()?;
    let mut named = address.clone();
    named
        .application_name("drv")
        .options("-c search_path=pg_catalog -c statement_timeout=7s")
        .connect_timeout(Duration::from_secs(5))
        .tcp_user_timeout(Duration::from_secs(5))
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(30));
    let c = connect_with(&named).await?;
    for _ in 0..3 {
        let text = "select concat_ws(' ', current_setting('application_name'), current_setting('search_path'), current_setting('statement_timeout'))";
        equal!(c.query_one(text, &[]).await?.get::<_, &str>(0), "drv pg_catalog 7s");
    }
    for (attrs, fits) in
        [(TargetSessionAttrs::Any, true), (TargetSessionAttrs::ReadWrite, true), (TargetSessionAttrs::ReadOnly, false)]
    {
        let mut config = address.clone();
        config.target_session_attrs(attrs);
        equal!(connect_with(&config).await.is_ok(), fits);
    }
    let hosts = url().replace("@127.0.0.1:", "@127.0.0.1:1,127.0.0.1:");
    connect_with(&format!("{hosts}?load_balance_hosts=random&target_session_attrs=read-write").parse()?).await?;
    let mut wrong = address.clone();
    wrong.password("wrong");
    fails!(connect_with(&wrong).await, code, "28P01");
    wrong = address;
    wrong.options("-c no_such_setting=1");
    fails!(connect_with(&wrong).await, code, "42704");
    Ok(())
}

async fn lost() -> Checked {
    let c = connect_with(&url_with("options=-c%20statement_timeout%3D200").parse()?).await?;
    fails!(c.batch_execute("select pg_sleep(30)").await, code, "57014");
    equal!(c.batch_execute("select pg_terminate_backend(pg_backend_pid())").await.is_err(), true);
    equal!(connect().await?.query_one("select 7", &[]).await?.get::<_, i32>(0), 7);
    Ok(())
}

async fn read_your_writes() -> Checked {
    let c = connect().await?;
    c.batch_execute("set synchronous_commit = local").await?; // replicas may lag
    let insert = c.prepare("insert into drv_tokio values ($1)").await?;
    let newest = c.prepare("select max(id) from drv_tokio where id < 50000").await?;
    for i in 40000..40200 {
        c.execute(&insert, &[&i]).await?;
        equal!(c.query_one(&newest, &[]).await?.get::<_, i32>(0), i);
    }
    Ok(())
}

async fn client(id: i32) -> Checked {
    let c = connect().await?;
    let name = format!("client {id}");
    for i in 0..20 {
        equal!(c.query_one("select $1::int", &[&(id * 100 + i)]).await?.get::<_, i32>(0), id * 100 + i);
        c.execute("insert into drv_tokio values ($1, $2)", &[&(100_000 + id * 100 + i), &name]).await?;
        equal!(
            c.query_one("select count(*) from drv_tokio where name = $1", &[&name]).await?.get::<_, i64>(0),
            i64::from(i) + 1
        );
    }
    Ok(())
}

async fn many() -> Checked {
    try_join_all((0..30).map(client)).await?;
    Ok(())
}

async fn all() -> ExitCode {
    let mut report = Report::default();
    checks!(report;
        "login, DDL" => login(),
        "parameters of many types, query_typed, several statements in one message" => parameters(),
        "types of one's own: questions to pg_type" => own_types(),
        "prepared statements, used often, closed by dropping" => prepared(),
        "200 statements pipelined, with errors in between" => pipelined(),
        "transactions, savepoints, dropped ones, isolation, read only" => transactions(),
        "portals read in parts, rows thrown away" => portals(),
        "COPY in and out; failing, given up" => copy(),
        "cancel within seconds, a dropped request; the session goes on" => cancel(),
        "LISTEN and NOTIFY" => notifications(),
        "connect options: names, options, keepalives, target_session_attrs, several hosts, wrong ones" => options(),
        "statement_timeout, a lost session, a new one" => lost(),
        "read your writes, 200 times" => read_your_writes(),
        "30 clients at once, each sees its own answers" => many(),
    );
    if let Ok(c) = connect().await {
        let _ = c.batch_execute("drop table if exists drv_tokio").await;
    }
    report.code()
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, all())
}
