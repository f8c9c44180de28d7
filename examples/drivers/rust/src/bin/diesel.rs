//! Diesel (libpq) against pgsluice: one line per check, exit code 1 if any failed.
//!
//!     PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app cargo run --bin diesel

use std::{
    io::Read,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use diesel::{
    connection::{CacheSize, DefaultLoadingMode},
    pg::PgRowByRowLoadingMode,
    prelude::*,
    r2d2::{ConnectionManager, Pool},
    result::{DatabaseErrorKind, Error},
    sql_query,
    sql_types::{Integer, Text},
};
use diesel_migrations::{FileBasedMigrations, MigrationHarness};
use pgsluice_driver_checks::{Checked, Report, equal, url, url_with, within};

diesel::table! {
    drv_diesel_author (id) { id -> Int4, name -> Text, rank -> Int4, tags -> Array<Text>, }
}
diesel::table! {
    drv_diesel_book (id) { id -> Int4, author_id -> Int4, title -> Text, }
}
diesel::joinable!(drv_diesel_book -> drv_diesel_author (author_id));
diesel::allow_tables_to_appear_in_same_query!(drv_diesel_author, drv_diesel_book);

use drv_diesel_author::dsl as author;
use drv_diesel_book::dsl as book;

#[derive(Debug, Queryable, Selectable, Identifiable)]
#[diesel(table_name = drv_diesel_author)]
struct Author {
    id: i32,
    name: String,
    tags: Vec<String>,
}

#[derive(Queryable, Selectable, Identifiable, Associations)]
#[diesel(table_name = drv_diesel_book, belongs_to(Author))]
struct Book {
    id: i32,
    author_id: i32,
}

#[derive(QueryableByName)]
struct Text1 {
    #[diesel(sql_type = Text)]
    v: String,
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = Integer)]
    n: i32,
}

fn connect_to(url: &str) -> Result<PgConnection, ConnectionError> {
    PgConnection::establish(url)
}

fn connect() -> Result<PgConnection, ConnectionError> {
    connect_to(&url())
}

fn number(c: &mut PgConnection, text: &str) -> QueryResult<i32> {
    Ok(sql_query(text).get_result::<Number>(c)?.n)
}

fn clean() -> Checked {
    sql_query("drop table if exists drv_diesel_book, drv_diesel_author, __diesel_schema_migrations")
        .execute(&mut connect()?)?;
    Ok(())
}

fn migrations() -> Checked {
    clean()?;
    let all = || FileBasedMigrations::from_path(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/diesel"));
    let mut c = connect()?;
    equal!(c.run_pending_migrations(all()?)?.len(), 2);
    c.revert_last_migration(all()?)?;
    equal!(c.has_pending_migration(all()?)?, true);
    c.revert_all_migrations(all()?)?;
    c.run_pending_migrations(all()?)?;
    equal!(c.applied_migrations()?.len(), 2);
    equal!(author::drv_diesel_author.count().get_result::<i64>(&mut c)?, 100);
    Ok(())
}

fn queries() -> Checked {
    for cache in [CacheSize::Unbounded, CacheSize::Disabled] {
        let mut c = connect()?;
        c.set_prepared_statement_cache_size(cache);
        let ada: i32 = diesel::insert_into(author::drv_diesel_author)
            .values((author::name.eq("Ada"), author::tags.eq(vec!["a", "ü'\\"])))
            .returning(author::id)
            .get_result(&mut c)?;
        let books: Vec<_> = (0..500).map(|i| (book::author_id.eq(ada), book::title.eq(format!("book {i}")))).collect();
        equal!(diesel::insert_into(book::drv_diesel_book).values(&books).execute(&mut c)?, 500);
        let (found, first): (Author, String) = author::drv_diesel_author
            .inner_join(book::drv_diesel_book)
            .filter(author::name.eq("Ada"))
            .order(book::id)
            .select((Author::as_select(), book::title))
            .first(&mut c)?;
        equal!((found.name.as_str(), found.tags.len(), first.as_str()), ("Ada", 2, "book 0"));
        let all = author::drv_diesel_author.filter(author::rank.lt(10)).select(Author::as_select()).load(&mut c)?;
        let theirs = Book::belonging_to(&all).select(Book::as_select()).load(&mut c)?.grouped_by(&all);
        equal!(theirs.iter().map(Vec::len).sum::<usize>(), 500);
        equal!(theirs.iter().flatten().all(|b| b.author_id == ada && b.id > 0), true);
        for i in 0..50 {
            equal!(
                author::drv_diesel_author
                    .filter(author::name.eq(format!("migrated {}", i + 1)))
                    .select(author::rank)
                    .first::<i32>(&mut c)?,
                i + 1
            );
        }
        equal!(author::drv_diesel_author.filter(author::rank.eq_any([1, 2, 3])).count().get_result::<i64>(&mut c)?, 3);
        let upserted: i32 = diesel::insert_into(author::drv_diesel_author)
            .values((author::name.eq("Ada"), author::rank.eq(7)))
            .on_conflict(author::name)
            .do_update()
            .set(author::rank.eq(diesel::upsert::excluded(author::rank)))
            .returning(author::rank)
            .get_result(&mut c)?;
        equal!(upserted, 7);
        let mut sum = 0;
        for row in author::drv_diesel_author.select(author::rank).load_iter::<i32, PgRowByRowLoadingMode>(&mut c)? {
            sum += row?;
        }
        equal!(sum, 5057);
        equal!(author::drv_diesel_author.select(author::id).load_iter::<i32, DefaultLoadingMode>(&mut c)?.count(), 101);
        equal!(sql_query("select $1 + 1 as n").bind::<Integer, _>(41).get_result::<Number>(&mut c)?.n, 42);
        equal!(diesel::delete(author::drv_diesel_author.find(ada)).execute(&mut c)?, 1);
    }
    Ok(())
}

fn transactions() -> Checked {
    let mut c = connect()?;
    c.transaction::<_, Error, _>(|c| {
        diesel::insert_into(author::drv_diesel_author).values(author::name.eq("outer")).execute(c)?;
        let inner = c.transaction::<_, Error, _>(|c| {
            diesel::insert_into(author::drv_diesel_author).values(author::name.eq("outer")).execute(c)
        });
        assert!(matches!(inner, Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _))));
        author::drv_diesel_author
            .filter(author::name.eq("outer"))
            .for_update()
            .skip_locked()
            .select(author::id)
            .load::<i32>(c)?;
        Ok(())
    })?;
    let undone = c.transaction::<(), Error, _>(|c| {
        diesel::delete(author::drv_diesel_author).execute(c)?;
        Err(Error::RollbackTransaction)
    });
    equal!(undone, Err(Error::RollbackTransaction));
    equal!(author::drv_diesel_author.count().get_result::<i64>(&mut c)?, 101);
    let refused = c
        .build_transaction()
        .read_only()
        .repeatable_read()
        .deferrable()
        .run::<_, Error, _>(|c| diesel::delete(author::drv_diesel_author).execute(c));
    equal!(matches!(refused, Err(Error::DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _))), true);
    let many = c
        .build_transaction()
        .serializable()
        .read_write()
        .run::<_, Error, _>(|c| author::drv_diesel_author.count().get_result::<i64>(c))?;
    equal!(many, 101);
    equal!(matches!(sql_query("select 1 / 0").execute(&mut c), Err(Error::DatabaseError(_, _))), true);
    equal!(number(&mut c, "select 4 as n")?, 4);
    Ok(())
}

fn copy() -> Checked {
    let mut c = connect()?;
    let rows: Vec<_> = (0..1000).map(|i| (author::name.eq(format!("copied {i}")), author::rank.eq(1000))).collect();
    equal!(diesel::copy_from(author::drv_diesel_author).from_insertable(&rows).execute(&mut c)?, 1000);
    equal!(diesel::copy_from(author::drv_diesel_author).from_insertable(&rows).execute(&mut c).is_err(), true);
    let mut out = String::new();
    diesel::copy_to(drv_diesel_author::table)
        .with_format(diesel::pg::CopyFormat::Csv)
        .load_raw(&mut c)?
        .read_to_string(&mut out)?;
    equal!(out.lines().filter(|line| line.contains(",copied ")).count(), 1000);
    equal!(author::drv_diesel_author.filter(author::rank.eq(1000)).count().get_result::<i64>(&mut c)?, 1000);
    Ok(())
}

fn notifications() -> Checked {
    let mut c = connect()?;
    sql_query("listen drv_diesel").execute(&mut c)?;
    sql_query("notify drv_diesel, 'hello'").execute(&mut connect()?)?;
    let started = Instant::now();
    let heard = loop {
        // Notifications come with the answer to something.
        number(&mut c, "select 1 as n")?;
        if let Some(heard) = c.notifications_iter().next() {
            break heard?;
        }
        within(started, Duration::from_secs(5))?;
    };
    equal!(heard.payload, "hello");
    Ok(())
}

fn options() -> Checked {
    let text = "select concat_ws(' ', current_setting('application_name'), current_setting('search_path'), current_setting('statement_timeout')) as v";
    let mut c = connect_to(&url_with(
        "application_name=drv&connect_timeout=5&keepalives=1&keepalives_idle=30&options=-csearch_path%3Dpg_catalog%20-cstatement_timeout%3D200",
    ))?;
    for _ in 0..3 {
        equal!(sql_query(text).get_result::<Text1>(&mut c)?.v, "drv pg_catalog 200ms");
    }
    let started = Instant::now();
    equal!(sql_query("select pg_sleep(30)").execute(&mut c).is_err(), true);
    within(started, Duration::from_secs(5))?;
    equal!(number(&mut c, "select 5 as n")?, 5);
    for (attrs, fits) in
        [("read-write", true), ("primary", true), ("prefer-standby", true), ("read-only", false), ("standby", false)]
    {
        equal!(connect_to(&url_with(&format!("target_session_attrs={attrs}"))).is_ok(), fits);
    }
    equal!(connect_to(&url_with("options=-cno_such_setting%3D1")).is_err(), true);
    Ok(())
}

fn many() -> Checked {
    let pool =
        Pool::builder().max_size(10).test_on_check_out(true).build(ConnectionManager::<PgConnection>::new(url()))?;
    let clients: Vec<_> = (0..30)
        .map(|id| {
            let pool = pool.clone();
            thread::spawn(move || -> Checked {
                for i in 0..10 {
                    let mut c = pool.get()?;
                    diesel::insert_into(author::drv_diesel_author)
                        .values(author::name.eq(format!("client {id} {i}")))
                        .execute(&mut c)?;
                    let seen = author::drv_diesel_author
                        .filter(author::name.eq(format!("client {id} {i}")))
                        .count()
                        .get_result::<i64>(&mut c)?;
                    equal!(seen, 1);
                }
                Ok(())
            })
        })
        .collect();
    for client in clients {
        client.join().map_err(|_| "a client panicked")??;
    }
    equal!(sql_query("select pg_terminate_backend(pg_backend_pid())").execute(&mut pool.get()?).is_err(), true);
    for i in 0..10 {
        equal!(number(&mut *pool.get()?, &format!("select {i} as n"))?, i);
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut report = Report::default();
    for (name, check) in [
        ("migrations: run, reverted, run again", migrations as fn() -> Checked),
        ("queries, joins, associations, upsert, row by row; statement cache on and off", queries),
        ("transactions, nested, rolled back, read only, isolation, locking", transactions),
        ("COPY in and out; one that fails", copy),
        ("LISTEN and NOTIFY", notifications),
        ("libpq's options, statement_timeout, target_session_attrs", options),
        ("r2d2: 30 threads on 10 connections, read your writes, a lost session", many),
    ] {
        report.line(name, check());
    }
    let _ = clean();
    report.code()
}
