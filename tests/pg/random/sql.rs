//! Statements that random clients say. `#` is a small number, `@t` and `@k` are the run's own (see `script::Names`).
//!
//! Left out is what must differ behind a proxy: process ids, times, transaction ids, what only a primary or only a replica says.

use super::dice::Dice;

/// What a statement is about; how often each comes is decided in `generate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Fault,
    Transaction,
    Setting,
    /// What lives on in a server's session.
    Living,
    Schema,
}

const READS: &[&str] = &[
    "select 1",
    "select #, 'x'",
    "select count(*) from @t",
    "select id, n, v from @t order by id",
    "select v from @t where id = #",
    "select sum(n), max(v) from @t where id < #",
    "values (1, 'a'), (2, null)",
    "select generate_series(1, #)",
    "with x as (select id from @t where id > #) select count(*) from x",
    "select repeat('x', #00)",
    "select g, repeat('y', 500) from generate_series(1, #0) g",
    "select a.id, b.v from @t a join @t b on a.id = b.n order by 1, 2",
    "select id from @t order by id limit # offset 1",
    "select current_setting('work_mem'), coalesce(current_setting('app.x', true), '')",
    "select '2024-02-03'::date, 1.1::float8 / 3, decode('ff00', 'hex'), '1 day 2 hours'::interval",
    "select upper(v), length(v) from @t where id = #",
    "select exists(select from @t where n = #)",
    "select 10 / (3 - g) from generate_series(1, 5) g",
    "select current_user, current_schema()",
    "select v from @t where v like 'v%' order by id",
    "explain (costs off) select 1",
    "show work_mem",
    "show timezone",
    "show datestyle",
    "show search_path",
    "show transaction_isolation",
    "show default_transaction_read_only",
    "",
    ";",
    "-- nothing",
];

const WRITES: &[&str] = &[
    "insert into @t(id, n, v) values (#, #, 'w#')",
    "insert into @t(id, n, v) values (#0, #, 'x')",
    "insert into @t(n) values (#) returning id",
    "insert into @t(id, n) values (#, null)",
    "insert into @t(id, n) values (#00, 5000)",
    "insert into @t(id, n) values (#, 1) on conflict (id) do update set n = @t.n + 1 returning n",
    "insert into @t(id, n) values (#, 1) on conflict do nothing",
    "update @t set v = 'u#' where id = #",
    "update @t set n = n + 1 where id < #",
    "update @t set v = v || '!' where id = # returning id, v",
    "delete from @t where id = #",
    "with d as (delete from @t where id = # returning id) select count(*) from d",
    "select id from @t where id = # for update",
    "select count(*) from (select 1 from @t where id < # for share) s",
    "select nextval('@t_id_seq')",
    "do $$ begin update @t set n = n + 1 where id = #; end $$",
    "do $$ begin raise notice 'hello #'; end $$",
    "truncate @t",
];

const FAULTS: &[&str] = &[
    "select 1/0",
    "selekt #",
    "select * from nosuch",
    "select nosuch(#)",
    "select 'x'::int",
    "insert into @t(id) values ('x')",
    "select 1 from",
    "set work_mem = 'banana'",
    "set nosuch = 1",
    "release nosuch",
    "close nosuch",
    "fetch 1 from nosuch",
    "deallocate nosuch",
    "execute nosuch",
    "do $$ begin raise exception 'boom'; end $$",
    "select nosuch from @t where id = 1",
    "declare c cursor for select 1",
    "rollback to nosuch",
    "commit prepared 'nosuch@k'",
];

const TRANSACTIONS: &[&str] = &[
    "begin",
    "begin",
    "begin",
    "BEGIN;",
    "start transaction",
    "begin read only",
    "begin isolation level repeatable read",
    "begin isolation level repeatable read, read only",
    "begin isolation level serializable",
    "begin read write",
    "commit",
    "commit",
    "commit",
    "commit",
    "end",
    "rollback",
    "rollback",
    "rollback",
    "abort",
    "commit and chain",
    "rollback and chain",
    "savepoint a",
    "savepoint b",
    "rollback to a",
    "rollback to savepoint b",
    "release a",
    "set transaction read only",
    "set transaction isolation level repeatable read",
    "set local work_mem = '5MB'",
    "set local timezone = 'Asia/Tokyo'",
    "select set_config('app.x', 'local #', true)",
    "declare c cursor for select id from @t order by id",
    "fetch 2 from c",
    "close c",
    "lock table @t in share mode",
];

const SETTINGS: &[&str] = &[
    "set work_mem = '#1MB'",
    "set timezone = 'Asia/Tokyo'",
    "set timezone = 'Europe/Paris'",
    "set datestyle = 'German'",
    "set datestyle to iso, ymd",
    "set application_name = 'app #'",
    "set search_path = public, pg_catalog",
    "set search_path = pg_catalog",
    "set bytea_output = escape",
    "set extra_float_digits = 0",
    "set intervalstyle = 'iso_8601'",
    "set enable_seqscan = off",
    "set default_transaction_read_only = on",
    "set default_transaction_read_only = off",
    "set default_transaction_isolation = 'repeatable read'",
    "set client_min_messages = error",
    "set client_encoding = 'latin1'",
    "set standard_conforming_strings = off",
    "set standard_conforming_strings = on",
    "set lock_timeout = '9s'",
    "set synchronous_commit = off",
    "set app.x = '#'",
    "set session characteristics as transaction read only",
    "set session characteristics as transaction read write",
    "select set_config('work_mem', '#2MB', false)",
    "select set_config('app.x', 'x#', false)",
    "do $$ begin set work_mem = '#3MB'; end $$",
    "reset work_mem",
    "reset timezone",
    "reset application_name",
    "reset search_path",
    "reset datestyle",
    "reset all",
    "set timezone to default",
    "set statement_timeout = '60s'",
];

const LIVING: &[&str] = &[
    "create temp table tt(i int)",
    "create temp table tt as select 1 as i",
    "create temp table if not exists tt(i int) on commit delete rows",
    "insert into tt values (#)",
    "select count(*) from tt",
    "drop table tt",
    "select pg_try_advisory_lock(@k)",
    "select pg_advisory_lock(@k)",
    "select pg_advisory_unlock(@k)",
    "select pg_advisory_unlock_all()",
    "select pg_advisory_xact_lock(@k)",
    "listen @t",
    "notify @t, 'hello #'",
    "unlisten @t",
    "unlisten *",
    "declare h cursor with hold for select id from @t order by id",
    "fetch 2 from h",
    "fetch all from h",
    "close h",
    "close all",
    "prepare q as select id, n from @t where id = #",
    "prepare q(int) as insert into @t(id, n) values ($1, 1)",
    "prepare s1 as select 'by sql'",
    "execute q",
    "execute q(#)",
    "execute s1",
    "execute s2(#)",
    "deallocate q",
    "deallocate s1",
    "deallocate all",
    "discard all",
    "discard temp",
    "discard plans",
];

const SCHEMA: &[&str] = &[
    "create table @tx(a int)",
    "create table if not exists @tx(a int)",
    "insert into @tx values (#)",
    "select count(*) from @tx",
    "drop table @tx",
    "drop table if exists @tx",
    "create index on @t(n)",
    "comment on table @t is 'c#'",
    "alter table @t add column if not exists z int",
    "create view @tx as select id from @t",
    "drop view if exists @tx",
];

/// With parameters `$1`, …: the text, and how many.
const WITH_PARAMETERS: &[(&str, usize)] = &[
    ("select $1::int", 1),
    ("select $1::text, $2::int", 2),
    ("select id, n from @t where id = $1 order by id", 1),
    ("select v from @t where id = $1", 1),
    ("insert into @t(id, n, v) values ($1, $2, 'p')", 2),
    ("insert into @t(id, n) values ($1, 1) on conflict do nothing", 1),
    ("update @t set n = n + 1 where id = $1", 1),
    ("delete from @t where id = $1 returning id", 1),
    ("select 10 / $1::int", 1),
    ("select generate_series(1, $1::int)", 1),
    ("select id from @t where id = $1 for update", 1),
    ("select set_config('app.x', $1, false)", 1),
    ("select set_config('work_mem', '#4MB', false)", 0),
];

/// One statement.
pub fn statement(dice: &mut Dice, kind: Kind) -> String {
    let texts = match kind {
        Kind::Read => READS,
        Kind::Write => WRITES,
        Kind::Fault => FAULTS,
        Kind::Transaction => TRANSACTIONS,
        Kind::Setting => SETTINGS,
        Kind::Living => LIVING,
        Kind::Schema => SCHEMA,
    };
    let text = dice.pick(texts);
    numbered(dice, text)
}

/// One with parameters.
pub fn parameterised(dice: &mut Dice) -> (String, usize) {
    let (text, count) = WITH_PARAMETERS[dice.below(WITH_PARAMETERS.len())];
    (numbered(dice, text), count)
}

fn numbered(dice: &mut Dice, text: &str) -> String {
    text.chars().map(|c| if c == '#' { (1 + dice.below(9)).to_string() } else { c.to_string() }).collect()
}
