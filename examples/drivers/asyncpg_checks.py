#!/usr/bin/env python3
"""asyncpg against pgsluice: one line per check, exit code 1 if any failed.

PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app python examples/drivers/asyncpg_checks.py
"""

import asyncio
import io
import os
import sys
import time

import asyncpg

URL = os.environ["PGSLUICE_URL"]
TABLE = "drv_asyncpg"
CHECKS = []


def check(function):
    """Collects a check; its docstring is the line printed."""
    CHECKS.append(function)
    return function


async def fails(error, awaitable):
    try:
        await awaitable
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


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
        await fails(asyncpg.ReadOnlySQLTransactionError, c.execute(f"insert into {TABLE} values (4)"))


@check
async def recovery(c):
    "errors carry their SQLSTATE, the session goes on"
    await fails(asyncpg.DivisionByZeroError, c.fetchval("select 1 / $1::int", 0))
    await fails(asyncpg.UndefinedTableError, c.fetch("select * from no_such_table"))
    await fails(asyncpg.UniqueViolationError, c.execute(f"insert into {TABLE} values ($1)", 1))
    await fails(asyncpg.PostgresSyntaxError, c.execute("selec"))
    assert await c.fetchval("select 1") == 1


@check
async def failed_transaction(c):
    "a failed transaction refuses until rolled back"
    outer = c.transaction()
    await outer.start()
    await fails(asyncpg.DivisionByZeroError, c.fetchval("select 1 / 0"))
    await fails(asyncpg.InFailedSQLTransactionError, c.fetchval("select 1"))
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
    await fails(asyncpg.UniqueViolationError, c.copy_records_to_table(TABLE, records=rows[:1]))
    assert await c.fetchval("select 3") == 3


@check
async def executemany(c):
    "executemany is one pipelined transaction"
    await c.executemany(f"insert into {TABLE} values ($1, $2)", [(i, "many") for i in range(20000, 21000)])
    await fails(asyncpg.UniqueViolationError, c.executemany(f"insert into {TABLE} values ($1)", [(30000,), (1,)]))
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
    started = time.monotonic()
    await fails(asyncio.TimeoutError, c.fetchval("select pg_sleep(30)", timeout=0.3))
    assert await c.fetchval("select 5") == 5
    assert time.monotonic() - started < 5


@check
async def notifications(c):
    "LISTEN and NOTIFY"
    heard = asyncio.get_running_loop().create_future()
    await c.add_listener("drv_asyncpg", lambda _c, _pid, _channel, payload: heard.done() or heard.set_result(payload))
    await c.execute("select pg_notify('drv_asyncpg', 'hello')")
    assert await asyncio.wait_for(heard, 5) == "hello"
    await c.reset()


@check
async def read_your_writes(c):
    "read your writes, 200 times"
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


async def main():
    failed = 0
    connection = await asyncpg.connect(URL)
    for function in CHECKS:
        try:
            if connection.is_closed():
                connection = await asyncpg.connect(URL)
            await asyncio.wait_for(function(connection), 60)
            print(f"ok   {function.__doc__}")
        except BaseException as error:
            failed = 1
            print(f"FAIL {function.__doc__}: {type(error).__name__}: {error}".replace("\n", " | "))
    await connection.execute(f"drop table if exists {TABLE}")
    sys.exit(failed)


asyncio.run(main())
