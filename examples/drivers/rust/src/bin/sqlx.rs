//! sqlx, its runtime queries and migrations, against pgsluice: one line per check, exit code 1 if any failed.
//!
//!     PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app cargo run --bin sqlx

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use futures_util::{TryStreamExt, future::try_join_all};
use pgsluice_driver_checks::{Checked, Report, checks, equal, fails, url, within};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, PgPool, QueryBuilder, Row, SqlSafeStr,
    Statement,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgListener, PgPoolCopyExt, PgPoolOptions, types::PgRange},
    types::Json,
};

#[derive(Debug, Clone, Copy, PartialEq, sqlx::Type)]
#[sqlx(type_name = "drv_sqlx.mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Happy,
}

#[derive(Debug, PartialEq, sqlx::FromRow)]
struct Author {
    name: String,
    mood: Option<Mood>,
    tags: Vec<String>,
}

fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(|e| e.code()).map(|code| code.into_owned())
}

fn address() -> Result<PgConnectOptions, sqlx::Error> {
    url().parse()
}

async fn connect() -> Result<PgConnection, sqlx::Error> {
    address()?.connect().await
}

async fn clean() -> Result<(), sqlx::Error> {
    connect().await?.execute("drop schema if exists drv_sqlx cascade; drop table if exists _sqlx_migrations").await?;
    Ok(())
}

/// Migrations take an advisory lock; three programs that start at once must not trip over each other.
async fn migrations() -> Checked {
    clean().await?;
    let migrator = Migrator::new(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlx"))).await?;
    let pools = try_join_all(
        (0..3).map(|_| PgPoolOptions::new().max_connections(2).connect(Box::leak(url().into_boxed_str()))),
    )
    .await?;
    try_join_all(pools.iter().map(|pool| migrator.run(pool))).await?;
    pools[0].execute("create index concurrently author_tags on drv_sqlx.author using gin (tags)").await?;
    migrator.undo(&pools[0], 1).await?;
    migrator.run(&pools[0]).await?;
    equal!(sqlx::query_scalar::<_, i64>("select count(*) from drv_sqlx.author").fetch_one(&pools[0]).await?, 100);
    equal!(
        sqlx::query_scalar::<_, i64>("select count(*) from pg_locks where locktype = 'advisory'")
            .fetch_one(&pools[0])
            .await?,
        0
    );
    for pool in pools {
        pool.close().await;
    }
    Ok(())
}

async fn types() -> Checked {
    for capacity in [0, 1, 100] {
        let mut c = address()?.statement_cache_capacity(capacity).connect().await?;
        for i in 0..30 {
            let row = sqlx::query("select $1::int + 1 as a, $2::text as b, $3::bytea as c, $4::int[] as d, $5::bool as e, $6::jsonb as f, $7::int4range as g, $8 as h")
                .bind(i)
                .bind("ü'\\")
                .bind(&b"\0\xff"[..])
                .bind(vec![1, 2])
                .bind(None::<bool>)
                .bind(Json(vec![1, 2]))
                .bind(PgRange::from(1..5))
                .bind(Mood::Happy)
                .fetch_one(&mut c)
                .await?;
            equal!((row.try_get::<i32, _>("a")?, row.try_get::<Mood, _>("h")?), (i + 1, Mood::Happy));
            equal!(row.try_get::<Json<Vec<i32>>, _>("f")?.0, [1, 2]);
            let text = format!("select $1::int + {}", i % 7);
            equal!(sqlx::query_scalar::<_, i32>(AssertSqlSafe(text)).bind(i).fetch_one(&mut c).await?, i + i % 7);
        }
        equal!(sqlx::query("select $1::int").persistent(false).bind(7).fetch_one(&mut c).await?.get::<i32, _>(0), 7);
        c.clear_cached_statements().await?;
        c.close().await?;
    }
    Ok(())
}

async fn queries() -> Checked {
    let pool = PgPool::connect_with(address()?).await?;
    let author: Author =
        sqlx::query_as("insert into drv_sqlx.author (name, mood, tags) values ($1, $2, $3) returning name, mood, tags")
            .bind("Ada")
            .bind(Mood::Sad)
            .bind(vec!["a".to_owned(), "ü".to_owned()])
            .fetch_one(&pool)
            .await?;
    equal!(author, Author { name: "Ada".into(), mood: Some(Mood::Sad), tags: vec!["a".into(), "ü".into()] });
    let mut many = QueryBuilder::new("insert into drv_sqlx.author (name) ");
    many.push_values(0..500, |mut row, i| {
        row.push_bind(format!("bulk {i}"));
    });
    equal!(many.build().execute(&pool).await?.rows_affected(), 500);
    let names: Vec<String> = sqlx::query_scalar("select name from drv_sqlx.author where name = any($1) order by name")
        .bind(vec!["bulk 1", "bulk 2"])
        .fetch_all(&pool)
        .await?;
    equal!(names, ["bulk 1", "bulk 2"]);
    let seen = sqlx::query("select generate_series(1, 1000) as n")
        .fetch(&pool)
        .try_fold(0, |sum, row| async move { Ok(sum + row.get::<i32, _>("n")) })
        .await?;
    equal!(seen, 500_500);
    {
        let mut left = sqlx::query("select generate_series(1, 100000)").fetch(&pool);
        left.try_next().await?;
    }
    let mut c = pool.acquire().await?;
    let prepared =
        (&mut *c).prepare(SqlSafeStr::into_sql_str("select id, name from drv_sqlx.author where id = $1")).await?;
    equal!(prepared.columns().len(), 2);
    equal!(sqlx::raw_sql("select 1; select 2; select 3").fetch_all(&mut *c).await?.len(), 3);
    drop(c);
    pool.close().await;
    Ok(())
}

async fn transactions() -> Checked {
    let mut c = connect().await?;
    let mut tx = c.begin().await?;
    sqlx::query("insert into drv_sqlx.author (name) values ('tx 1')").execute(&mut *tx).await?;
    let mut nested = sqlx::Connection::begin(&mut *tx).await?;
    fails!(
        sqlx::query("insert into drv_sqlx.author (name) values ('tx 1')").execute(&mut *nested).await,
        code,
        "23505"
    );
    fails!(sqlx::query("select 1").execute(&mut *nested).await, code, "25P02");
    nested.rollback().await?;
    tx.commit().await?;
    {
        let mut tx = c.begin_with("begin isolation level repeatable read").await?;
        sqlx::query("insert into drv_sqlx.author (name) values ('tx 2')").execute(&mut *tx).await?;
        // Dropped here: rolled back before the next use.
    }
    let mut tx = c.begin_with("begin isolation level serializable read only deferrable").await?;
    fails!(sqlx::query("delete from drv_sqlx.author").execute(&mut *tx).await, code, "25006");
    tx.rollback().await?;
    equal!(
        sqlx::query_scalar::<_, i64>("select count(*) from drv_sqlx.author where name like 'tx %'")
            .fetch_one(&mut c)
            .await?,
        1
    );
    fails!(sqlx::query("select 1 / $1::int").bind(0).execute(&mut c).await, code, "22012");
    fails!(sqlx::query("select * from no_such_table").execute(&mut c).await, code, "42P01");
    equal!(sqlx::query_scalar::<_, i32>("select 4").fetch_one(&mut c).await?, 4);
    c.close().await?;
    Ok(())
}

async fn schema_changes() -> Checked {
    for capacity in [0, 100] {
        let mut c = address()?.statement_cache_capacity(capacity).connect().await?;
        c.execute("drop table if exists drv_sqlx.change; create table drv_sqlx.change (a int); insert into drv_sqlx.change values (1)").await?;
        for _ in 0..3 {
            equal!(sqlx::query("select * from drv_sqlx.change").fetch_one(&mut c).await?.len(), 1);
        }
        c.execute("alter table drv_sqlx.change add b text").await?;
        match sqlx::query("select * from drv_sqlx.change").fetch_one(&mut c).await {
            Ok(row) => equal!(row.len(), 2),
            // What a server says of a plan that it kept.
            Err(error) => equal!((code(&error).as_deref(), capacity), (Some("0A000"), 100)),
        }
    }
    Ok(())
}

async fn copy() -> Checked {
    let pool = PgPool::connect_with(address()?).await?;
    let mut c = pool.acquire().await?;
    let mut sink = c.copy_in_raw("copy drv_sqlx.author (name) from stdin").await?;
    for i in 0..1000 {
        sink.send(format!("copied {i}\n").as_bytes()).await?;
    }
    equal!(sink.finish().await?, 1000);
    let mut sink = c.copy_in_raw("copy drv_sqlx.author (name) from stdin").await?;
    sink.send(&b"copied 1\n"[..]).await?;
    fails!(sink.finish().await, code, "23505");
    let mut sink = c.copy_in_raw("copy drv_sqlx.author (name) from stdin").await?;
    sink.send(&b"given up\n"[..]).await?;
    sink.abort("no more").await?;
    drop(c);
    let mut lines = 0;
    let mut out =
        pool.copy_out_raw("copy (select name from drv_sqlx.author where name like 'copied %') to stdout").await?;
    while let Some(part) = out.try_next().await? {
        lines += part.iter().filter(|b| **b == b'\n').count();
    }
    drop(out);
    equal!(lines, 1000);
    let mut tx = pool.begin().await?;
    let broken = tx.copy_out_raw("copy (select 1 / (5 - i) from generate_series(1, 10) i) to stdout").await?;
    fails!(broken.try_collect::<Vec<_>>().await, code, "22012");
    tx.rollback().await?;
    pool.close().await;
    Ok(())
}

async fn listener() -> Checked {
    let pool = PgPool::connect_with(address()?).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen_all(["drv_sqlx", "drv_sqlx_2"]).await?;
    sqlx::query("select pg_notify('drv_sqlx', $1)").bind("hello").execute(&pool).await?;
    let heard = tokio::time::timeout(Duration::from_secs(5), listener.recv()).await??;
    equal!(heard.payload(), "hello");
    listener.unlisten_all().await?;
    drop(listener);
    pool.close().await;
    Ok(())
}

async fn options() -> Checked {
    let named = address()?
        .application_name("drv")
        .extra_float_digits(2)
        .options([("search_path", "pg_catalog"), ("statement_timeout", "200ms")]);
    let mut c = named.connect().await?;
    for _ in 0..3 {
        let text = "select concat_ws(' ', current_setting('application_name'), current_setting('search_path'), current_setting('extra_float_digits'))";
        equal!(sqlx::query_scalar::<_, String>(text).fetch_one(&mut c).await?, "drv pg_catalog 2");
    }
    let started = Instant::now();
    fails!(sqlx::query("select pg_sleep(30)").execute(&mut c).await, code, "57014");
    within(started, Duration::from_secs(5))?;
    c.ping().await?;
    fails!(address()?.password("wrong").connect().await, code, "28P01");
    fails!(address()?.options([("no_such_setting", "1")]).connect().await, code, "42704");
    // A request that is dropped half-way: the pool reads on, or throws the connection away.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(10))
        .test_before_acquire(true)
        .connect_with(address()?)
        .await?;
    let slept =
        tokio::time::timeout(Duration::from_millis(50), sqlx::query("select pg_sleep(0.3)").execute(&pool)).await;
    equal!(slept.is_err(), true);
    equal!(sqlx::query_scalar::<_, i32>("select 5").fetch_one(&pool).await?, 5);
    equal!(sqlx::query("select pg_terminate_backend(pg_backend_pid())").execute(&pool).await.is_err(), true);
    equal!(sqlx::query_scalar::<_, i32>("select 6").fetch_one(&pool).await?, 6);
    pool.close().await;
    Ok(())
}

async fn many() -> Checked {
    let pool = PgPoolOptions::new().max_connections(30).connect_with(address()?).await?;
    try_join_all((0..30).map(|id| {
        let pool = &pool;
        async move {
            for i in 0..20_i64 {
                sqlx::query("insert into drv_sqlx.author (name) values ($1)")
                    .bind(format!("client {id} {i}"))
                    .execute(pool)
                    .await?;
            }
            let mut c = pool.acquire().await?;
            for i in 0..20_i64 {
                sqlx::query("insert into drv_sqlx.author (name) values ($1)")
                    .bind(format!("kept {id} {i}"))
                    .execute(&mut *c)
                    .await?;
                let seen: i64 = sqlx::query_scalar("select count(*) from drv_sqlx.author where name like $1")
                    .bind(format!("kept {id} %"))
                    .fetch_one(&mut *c)
                    .await?;
                assert_eq!(seen, i + 1);
            }
            Ok::<_, sqlx::Error>(())
        }
    }))
    .await?;
    pool.close().await;
    Ok(())
}

async fn all() -> ExitCode {
    let mut report = Report::default();
    checks!(report;
        "migrate: three at once, undo one, again; advisory lock" => migrations(),
        "parameters and types, statement_cache_capacity 0, 1 and 100" => types(),
        "query_as, QueryBuilder, streams, describe, raw_sql" => queries(),
        "transactions, savepoints, dropped ones, isolation, errors" => transactions(),
        "schema changes under a cached statement" => schema_changes(),
        "COPY in and out; failing at its end, given up, failing inside a transaction" => copy(),
        "LISTEN and NOTIFY" => listener(),
        "connect options, statement_timeout, a dropped request, a lost session" => options(),
        "30 clients at once, read your writes" => many(),
    );
    let _ = clean().await;
    report.code()
}

fn main() -> ExitCode {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(all())
}
