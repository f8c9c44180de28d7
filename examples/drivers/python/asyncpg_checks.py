#!/usr/bin/env python3
"""asyncpg against pgsluice: one line per check, exit code 1 if any failed.

PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app python examples/drivers/python/asyncpg_checks.py
"""

import asyncio
import io
import json

import asyncpg
from harness import URL, WHERE, check, fails, run_async, within

TABLE = "drv_asyncpg"


@check
async def login(c):
    "login, DDL"
    assert await c.fetchval("select current_user") == "app"
    await c.execute(f"drop table if exists {TABLE}; create table {TABLE} (id int primary key, name text)")


@check
async def parameters(c):
    "parameters of many types, arrays, JSON, composite rows"
    row = await c.fetchrow("select $1::int, $2::text, $3::bytea, $4::float8, $5::int[], $6::bool, $7::numeric", 7, "ü'\\", b"\0\xff", 1.5, [1, 2], None, 3)
    assert tuple(row) == (7, "ü'\\", b"\0\xff", 1.5, [1, 2], None, 3)
    # Needs asyncpg's own introspection queries on pg_type: a composite type.
    assert tuple(await c.fetchval(f"select row(1, 'x')::{TABLE}")) == (1, "x")


@check
async def prepared(c):
    "prepared statements, used often, shared by several names"
    first = await c.prepare("select $1::int + 1")
    second = await c.prepare("select $1::int + 2")
    for i in range(100):
        assert await first.fetchval(i) == i + 1
        assert await second.fetchval(i) == i + 2
        assert await c.fetchval("select $1::int + 3", i) == i + 3


@check
async def cache_eviction(_):
    "a small statement cache closes statements all the time"
    c = await asyncpg.connect(URL, statement_cache_size=3)
    for i in range(100):
        assert await c.fetchval(f"select $1::int + {i % 7}", i) == i + i % 7
    await c.close()


@check
async def transactions(c):
    "transactions, savepoints, rollback, isolation"
    async with c.transaction(isolation="serializable"):
        await c.execute(f"insert into {TABLE} values (1)")
        savepoint = c.transaction()
        await savepoint.start()
        await c.execute(f"insert into {TABLE} values (2)")
        await savepoint.rollback()
        assert await c.fetchval(f"select count(*) from {TABLE}") == 1
    outer = c.transaction()
    await outer.start()
    await c.execute(f"insert into {TABLE} values (3)")
    await outer.rollback()
    assert [r["id"] for r in await c.fetch(f"select id from {TABLE}")] == [1]
    async with c.transaction(readonly=True):
        with fails(asyncpg.ReadOnlySQLTransactionError):
            await c.execute(f"insert into {TABLE} values (4)")


@check
async def recovery(c):
    "errors carry their SQLSTATE, the session goes on"
    with fails(asyncpg.DivisionByZeroError):
        await c.fetchval("select 1 / $1::int", 0)
    with fails(asyncpg.UndefinedTableError):
        await c.fetch("select * from no_such_table")
    with fails(asyncpg.UniqueViolationError):
        await c.execute(f"insert into {TABLE} values ($1)", 1)
    with fails(asyncpg.PostgresSyntaxError):
        await c.execute("selec")
    assert await c.fetchval("select 1") == 1


@check
async def failed_transaction(c):
    "a failed transaction refuses until rolled back"
    outer = c.transaction()
    await outer.start()
    with fails(asyncpg.DivisionByZeroError):
        await c.fetchval("select 1 / 0")
    with fails(asyncpg.InFailedSQLTransactionError):
        await c.fetchval("select 1")
    await outer.rollback()
    assert await c.fetchval("select 2") == 2


@check
async def copy(c):
    "COPY in (binary), out (csv); a COPY that fails"
    rows = [(i, f"row {i}") for i in range(1000, 6000)]
    assert await c.copy_records_to_table(TABLE, records=rows) == "COPY 5000"
    out = io.BytesIO()
    await c.copy_from_query(f"select id, name from {TABLE} where id >= $1 order by id", 1000, output=out, format="csv")
    assert out.getvalue().decode() == "".join(f"{i},{name}\n" for i, name in rows)
    with fails(asyncpg.UniqueViolationError):
        await c.copy_records_to_table(TABLE, records=rows[:1])
    assert await c.fetchval("select 3") == 3


@check
async def executemany(c):
    "executemany is one pipelined transaction"
    await c.executemany(f"insert into {TABLE} values ($1, $2)", [(i, "many") for i in range(20000, 21000)])
    with fails(asyncpg.UniqueViolationError):
        await c.executemany(f"insert into {TABLE} values ($1)", [(30000,), (1,)])
    assert await c.fetchval(f"select count(*) from {TABLE} where id >= 20000") == 1000
    assert await c.fetchval("select 4") == 4


@check
async def cursors(c):
    "cursor: portals fetched in parts"
    async with c.transaction():
        total = 0
        async for row in c.cursor("select generate_series(1, $1)", 2500, prefetch=100):
            total += row[0]
        assert total == 2500 * 2501 // 2
        cursor = await c.cursor("select generate_series(1, 100)")
        assert await cursor.forward(10) == 10
        assert [r[0] for r in await cursor.fetch(2)] == [11, 12]


@check
async def cancel(c):
    "a client timeout cancels within seconds, the session goes on"
    with within(5):
        with fails(asyncio.TimeoutError):
            await c.fetchval("select pg_sleep(30)", timeout=0.3)
        assert await c.fetchval("select 5") == 5


@check
async def notifications(c):
    "LISTEN and NOTIFY"
    heard = asyncio.get_running_loop().create_future()
    await c.add_listener("drv_asyncpg", lambda _c, _pid, _channel, payload: heard.done() or heard.set_result(payload))
    await c.execute("select pg_notify('drv_asyncpg', 'hello')")
    assert await asyncio.wait_for(heard, 5) == "hello"
    await c.reset()


@check
async def cache_sizes(_):
    "statement_cache_size 0 and 100, max_cached_statement_lifetime 0, with enums, arrays, ranges and domains"
    for options in ({"statement_cache_size": 0}, {"statement_cache_size": 100}, {"max_cached_statement_lifetime": 0}, {"max_cacheable_statement_size": 1}):
        c = await asyncpg.connect(URL, **options)
        await c.execute("drop type if exists drv_asyncpg_mood cascade; create type drv_asyncpg_mood as enum ('sad', 'happy')")
        await c.execute("drop domain if exists drv_asyncpg_small; create domain drv_asyncpg_small as int check (value < 100)")
        for i in range(20):
            assert await c.fetchval("select $1::drv_asyncpg_mood", "happy") == "happy"
            assert await c.fetchval("select $1::drv_asyncpg_mood[]", ["sad", "happy"]) == ["sad", "happy"]
            assert await c.fetchval("select $1::drv_asyncpg_small", i) == i
            assert await c.fetchval("select $1::int4range", asyncpg.Range(1, 5)) == asyncpg.Range(1, 5)
        await c.execute("drop type drv_asyncpg_mood cascade; drop domain drv_asyncpg_small")
        await c.close()


@check
async def codecs(c):
    "set_type_codec, a schema's own types, type introspection after DDL"
    await c.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    assert await c.fetchval("select $1::jsonb", {"a": [1, None]}) == {"a": [1, None]}
    await c.execute("drop type if exists drv_asyncpg_pair; create type drv_asyncpg_pair as (a int, b text[])")
    assert tuple(await c.fetchval("select $1::drv_asyncpg_pair", (1, ["x"]))) == (1, ["x"])
    await c.execute("alter type drv_asyncpg_pair add attribute c int")
    await c.reload_schema_state()
    assert tuple(await c.fetchval("select row(1, '{x}', 2)::drv_asyncpg_pair")) == (1, ["x"], 2)
    await c.execute("drop type drv_asyncpg_pair")


@check
async def schema_changes(c):
    "a cached statement after ALTER TABLE: InvalidCachedStatementError is mended by asyncpg itself"
    await c.execute("drop table if exists drv_asyncpg_change; create table drv_asyncpg_change (a int); insert into drv_asyncpg_change values (1)")
    assert tuple(await c.fetchrow("select * from drv_asyncpg_change")) == (1,)
    await c.execute("alter table drv_asyncpg_change add b text default 'x'")
    assert tuple(await c.fetchrow("select * from drv_asyncpg_change")) == (1, "x")
    other = await asyncpg.connect(URL)
    await other.execute("alter table drv_asyncpg_change alter a type text")
    await other.close()
    await c.execute("update drv_asyncpg_change set b = 'x'")  # from now on it sees nothing older, not even on a replica
    assert tuple(await c.fetchrow("select * from drv_asyncpg_change")) == ("1", "x")
    await c.execute("drop table drv_asyncpg_change")


@check
async def options(_):
    "server_settings, command_timeout, target_session_attrs, several hosts, options of the URL"
    c = await asyncpg.connect(URL, server_settings={"application_name": "drv", "search_path": "pg_catalog", "jit": "off", "statement_timeout": "7s"})
    for _ in range(5):
        assert await c.fetchval("select concat_ws(' ', current_setting('application_name'), current_setting('search_path'), current_setting('jit'), current_setting('statement_timeout'))") == "drv pg_catalog off 7s"
    await c.close()
    c = await asyncpg.connect(URL, command_timeout=0.3)
    with within(5), fails(asyncio.TimeoutError):
        await c.execute("select pg_sleep(30)")
    assert await c.fetchval("select 6") == 6
    await c.close()
    for attrs in ("any", "primary", "read-write", "prefer-standby"):
        c = await asyncpg.connect(URL, target_session_attrs=attrs)
        assert await c.fetchval("show transaction_read_only") == "off"
        await c.close()
    for attrs in ("read-only", "standby"):
        with fails(asyncpg.TargetServerAttributeNotMatched):
            await asyncpg.connect(URL, target_session_attrs=attrs)
    c = await asyncpg.connect(URL, server_settings={"default_transaction_read_only": "on"}, target_session_attrs="read-only")
    with fails(asyncpg.ReadOnlySQLTransactionError):
        await c.execute(f"create table {TABLE}_never (id int)")
    await c.close()
    c = await asyncpg.connect(host=["127.0.0.1", WHERE.hostname], port=[1, WHERE.port], user=WHERE.username, password=WHERE.password, database=WHERE.path[1:])
    assert await c.fetchval("select 7") == 7
    await c.close()


@check
async def lost(_):
    "the server ends the session; the next connection works"
    c = await asyncpg.connect(URL)
    with fails(asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, asyncpg.InterfaceError):
        async with c.transaction():
            await c.execute("select pg_terminate_backend(pg_backend_pid())")
            await c.execute("select 1")
    c.terminate()
    c = await asyncpg.connect(URL)
    assert await c.fetchval("select 8") == 8
    await c.close()


@check
async def read_your_writes(c):
    "read your writes, 200 times"
    await c.execute("set synchronous_commit = local")  # replicas may lag
    for i in range(40000, 40200):
        await c.execute(f"insert into {TABLE} values ($1)", i)
        assert await c.fetchval(f"select max(id) from {TABLE}") == i


@check
async def many_clients(_):
    "30 clients at once, each sees its own answers"

    async def client(number):
        c = await asyncpg.connect(URL)
        for i in range(20):
            assert tuple(await c.fetchrow("select $1::int, $2::int", number, i)) == (number, i)
            async with c.transaction():
                await c.execute(f"insert into {TABLE} values ($1, $2)", 100000 + number * 100 + i, f"client {number}")
            assert await c.fetchval(f"select count(*) from {TABLE} where name = $1", f"client {number}") == i + 1
        await c.close()

    await asyncio.gather(*(client(number) for number in range(30)))


@check
async def pool(_):
    "asyncpg's own pool in front, its reset between users"
    async with asyncpg.create_pool(URL, min_size=5, max_size=5) as pool:
        answers = await asyncio.gather(*(pool.fetchval("select $1::int", i) for i in range(200)))
        assert answers == list(range(200))
    # What one user of the pool leaves behind, the next must not find.
    async with asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
        async with pool.acquire() as c:
            before = await c.fetchval("show work_mem")
            await c.execute("set work_mem = '9MB'; select pg_advisory_lock(4711)")
            await c.add_listener("drv_asyncpg", heard := lambda *_: None)
            await c.remove_listener("drv_asyncpg", heard)
        async with pool.acquire() as c:
            assert await c.fetchval("show work_mem") == before
            assert await c.fetchval("select count(*) from pg_locks where locktype = 'advisory' and objid = 4711") == 0


run_async(lambda: asyncpg.connect(URL))
