#!/usr/bin/env python3
"""psycopg 3 against pgsluice: one line per check, exit code 1 if any failed.

PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app python examples/drivers/python/psycopg3.py
"""

import asyncio
import os
import select
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import psycopg3_rough  # noqa: F401  its checks come first
from harness import URL, WHERE, check, fails, run, within
from psycopg import errors
from psycopg_pool import ConnectionPool

TABLE = "drv_psycopg"


def one(connection, query, *values, **options):
    return connection.execute(query, values, **options).fetchone()[0]


@check
def login(c):
    "login, DDL"
    assert one(c, "select current_user") == "app"
    c.execute(f"drop table if exists {TABLE}")
    c.execute(f"create table {TABLE} (id int primary key, name text, at timestamptz default now())")


@check
def parameters(c):
    "parameters of many types, text and binary"
    for binary in (False, True):
        with c.cursor(binary=binary) as cursor:
            cursor.execute("select %s::int, %s::text, %b::bytea, %s::float8, %s::int[], %s::bool", (7, "ü'\\", b"\0\xff", 1.5, [1, 2], None))
            assert cursor.fetchone() == (7, "ü'\\", b"\0\xff", 1.5, [1, 2], None)


@check
def prepared(c):
    "prepared statements, used often and evicted"
    c.prepared_max = 5
    for i in range(200):
        assert one(c, f"select %s::int + {i % 10}", i, prepare=True) == i + i % 10
    c.prepared_max = 100


@check
def transactions(c):
    "transactions, savepoints, rollback"
    with c.transaction():
        c.execute(f"insert into {TABLE} (id) values (1)")
        try:
            with c.transaction():
                c.execute(f"insert into {TABLE} (id) values (2)")
                raise psycopg.Rollback
        except psycopg.Rollback:
            pass
        assert one(c, f"select count(*) from {TABLE}") == 1
    with fails(KeyError), c.transaction():
        c.execute(f"insert into {TABLE} (id) values (3)")
        raise KeyError
    assert one(c, f"select array_agg(id) from {TABLE}") == [1]


@check
def recovery(c):
    "errors carry their SQLSTATE, the session goes on"
    for query, error in [
        ("select 1/0", errors.DivisionByZero),
        ("select * from no_such_table", errors.UndefinedTable),
        (f"insert into {TABLE} (id) values (1)", errors.UniqueViolation),
        ("selec", errors.SyntaxError),
    ]:
        for prepare in (False, True):
            with fails(error):
                c.execute(query, prepare=prepare)
            assert one(c, "select 1") == 1


@check
def failed_transaction(c):
    "a failed transaction refuses until rolled back"
    with fails(errors.InFailedSqlTransaction), c.transaction():
        with fails(errors.DivisionByZero):
            c.execute("select 1/0")
        c.execute("select 1")
    assert one(c, "select 2") == 2


@check
def implicit_transaction(_):
    "autocommit off: BEGIN in the same batch"
    with psycopg.connect(URL) as c:
        c.execute(f"select count(*) from {TABLE}")
        c.execute(f"insert into {TABLE} (id) values (10)")
        assert one(c, f"select count(*) from {TABLE} where id = 10") == 1
        c.rollback()
        assert one(c, f"select count(*) from {TABLE} where id = 10") == 0


@check
def copy(c):
    "COPY in and out, text and binary; a COPY that fails"
    with c.cursor() as cursor:
        with cursor.copy(f"copy {TABLE} (id, name) from stdin") as stream:
            for i in range(1000, 6000):
                stream.write_row((i, f"row {i}"))
        with cursor.copy(f"copy (select id, name from {TABLE} where id >= 1000 order by id) to stdout (format binary)") as stream:
            stream.set_types(["int4", "text"])
            assert list(stream.rows()) == [(i, f"row {i}") for i in range(1000, 6000)]
        with fails(errors.InvalidTextRepresentation), cursor.copy(f"copy {TABLE} (id) from stdin") as stream:
            stream.write("x\n")
        with fails(errors.QueryCanceled), cursor.copy(f"copy {TABLE} (id) from stdin") as stream:
            stream.write("1\n")
            raise errors.QueryCanceled("the client gives up")
        assert one(c, "select 3") == 3


@check
def pipeline(c):
    "pipeline: 100 statements, then one that fails"
    with c.pipeline():
        cursors = [c.execute("select %s::int", (i,)) for i in range(100)]
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(100))
    with fails(errors.DivisionByZero), c.pipeline():
        c.execute("select 1")
        c.execute("select 1/0")
        c.execute("select 2")
    assert one(c, "select 4") == 4
    c.cursor().executemany(f"insert into {TABLE} (id) values (%s)", [(i,) for i in range(20000, 20100)])
    assert one(c, f"select count(*) from {TABLE} where id >= 20000") == 100


@check
def cursors(c):
    "server-side cursor, streamed rows"
    with c.transaction(), c.cursor("walker") as cursor:
        cursor.itersize = 100
        cursor.execute("select generate_series(1, 2500)")
        assert sum(row[0] for row in cursor) == 2500 * 2501 // 2
    assert sum(row[0] for row in c.cursor().stream("select generate_series(1, 2500)")) == 2500 * 2501 // 2


@check
def cancel(c):
    "cancel within seconds, the session goes on"
    for canceller in (c.cancel_safe, c.cancel):
        timer = threading.Timer(0.3, canceller)
        timer.start()
        with within(5), fails(errors.QueryCanceled):
            c.execute("select pg_sleep(30)")
        timer.join()
        assert one(c, "select 5") == 5


@check
def pipeline_modes(_):
    "pipeline: prepared, savepoints, syncs between, errors in each part, without autocommit"
    for autocommit in (True, False):
        with psycopg.connect(URL, autocommit=autocommit, prepare_threshold=1) as c:
            with c.pipeline() as pipeline:
                for i in range(20):
                    c.execute(f"insert into {TABLE} (id, name) values (%s, 'piped')", (50000 + i,))
                    assert one(c, f"select count(*) from {TABLE} where name = 'piped'") == i + 1
                    pipeline.sync()
            if not autocommit:
                c.commit()
            with c.pipeline():
                with c.transaction():
                    with fails(errors.UniqueViolation), c.transaction():
                        c.execute(f"insert into {TABLE} (id) values (50000)")
                    c.execute(f"insert into {TABLE} (id, name) values (50100, 'piped')")
                assert one(c, f"select count(*) from {TABLE} where name = 'piped'") == 21
            if not autocommit:
                c.commit()
            for wrong in ("select 1/0", "selec", "select * from no_such_table", f"insert into {TABLE} (id) values (50000)"):
                try:
                    with c.pipeline() as pipeline:
                        before = c.execute("select 11")
                        c.execute(wrong, (), prepare=True)
                        skipped = c.execute("select 12", prepare=True)
                        pipeline.sync()
                        after = c.execute("select 13")
                        pipeline.sync()
                    raise AssertionError(f"no error from {wrong}")
                except psycopg.Error as error:
                    assert error.sqlstate in ("22012", "42601", "42P01", "23505"), error
                c.rollback()
            assert one(c, "select 14") == 14
            c.execute(f"delete from {TABLE} where name = 'piped'")


@check
def thresholds(_):
    "prepare_threshold None, 0, 1 and 5, prepared_max 1; DEALLOCATE ALL and DISCARD ALL in between"
    for threshold in (None, 0, 1, 5):
        for most in (1, 100):
            with psycopg.connect(URL, autocommit=True, prepare_threshold=threshold) as c:
                c.prepared_max = most
                for i in range(30):
                    assert one(c, "select %s::int + 1", i) == i + 1
                    assert one(c, "select %s::text || 'x'", str(i)) == f"{i}x"
                    if i == 10:
                        c.execute("deallocate all")
                    if i == 20:
                        c.execute("discard all")
                    if i == 25:
                        with c.transaction():
                            assert one(c, "select %s::int + 1", i) == i + 1


@check
def schema_changes(c):
    "a prepared statement after ALTER TABLE: cached plan must not change result type"
    c.execute("drop table if exists drv_psycopg_change; create table drv_psycopg_change (a int)")
    for _ in range(3):
        c.execute("select * from drv_psycopg_change", prepare=True)
    with psycopg.connect(URL, autocommit=True) as other:
        other.execute("alter table drv_psycopg_change add b text")
    c.execute("insert into drv_psycopg_change values (2)")  # from now on it sees nothing older, not even on a replica
    with fails(errors.FeatureNotSupported):
        c.execute("select * from drv_psycopg_change", prepare=True)
    c.execute("discard plans")
    with fails(errors.FeatureNotSupported):
        c.execute("select * from drv_psycopg_change", prepare=True)
    c.execute("deallocate all")
    assert len(c.execute("select * from drv_psycopg_change", prepare=True).description) == 2
    c.execute("drop table drv_psycopg_change")


@check
def isolation(_):
    "isolation_level, read_only, deferrable of the connection"
    with psycopg.connect(URL) as c:
        for level in psycopg.IsolationLevel:
            for read_only in (True, False):
                c.isolation_level, c.read_only, c.deferrable = level, read_only, read_only
                assert one(c, "show transaction_isolation") == level.name.lower().replace("_", " ")
                assert one(c, "show transaction_read_only") == ("on" if read_only else "off")
                assert one(c, f"select count(*) from {TABLE} where id = 1") == 1
                if read_only:
                    with fails(errors.ReadOnlySqlTransaction):
                        c.execute(f"delete from {TABLE}")
                c.rollback()


@check
def two_phase(c):
    "two-phase commit"
    c.autocommit = False
    for number, end in enumerate(("commit", "rollback")):
        xid = c.xid(1, "drv " + end, "b")
        c.tpc_begin(xid)
        c.execute(f"insert into {TABLE} (name, id) values ('tpc', %s)", (60000 + number,))
        c.tpc_prepare()
        with psycopg.connect(URL) as other:
            assert str(xid) in map(str, other.tpc_recover())
        c.tpc_commit() if end == "commit" else c.tpc_rollback()
        assert one(c, f"select count(*) from {TABLE} where name = 'tpc'") == 1
        c.rollback()


@check
def notifications(c):
    "LISTEN and NOTIFY: own, of others, while idle"
    c.execute("listen drv_psycopg")
    with psycopg.connect(URL, autocommit=True) as other:
        for i in range(3):
            other.execute("select pg_notify('drv_psycopg', %s)", (str(i),))
            assert [n.payload for n in c.notifies(timeout=5, stop_after=1)] == [str(i)]
    c.execute("notify drv_psycopg, 'own'")
    assert [n.payload for n in c.notifies(timeout=5, stop_after=1)] == ["own"]
    c.execute("unlisten *")


@check
def connect_options(_):
    "libpq's options: names, timeouts, keepalives, options=-c, several hosts, load_balance_hosts, require_auth"
    for options, question, answer in [
        ({"application_name": "drv"}, "show application_name", "drv"),
        ({"fallback_application_name": "fallen"}, "show application_name", "fallen"),
        ({"application_name": "drv", "fallback_application_name": "fallen"}, "show application_name", "drv"),
        ({"connect_timeout": 3, "tcp_user_timeout": 5000}, "select 'x'", "x"),
        ({"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}, "select 'x'", "x"),
        ({"keepalives": 0}, "select 'x'", "x"),
        ({"options": "-c search_path=pg_catalog,public -c statement_timeout=7s"}, "select current_setting('search_path') || current_setting('statement_timeout')", "pg_catalog,public7s"),
        ({"options": "-csearch_path=pg_catalog\\ ,public --work-mem=9MB"}, "select current_setting('search_path') || current_setting('work_mem')", "pg_catalog ,public9MB"),
        ({"options": "-c default_transaction_isolation=serializable"}, "show transaction_isolation", "serializable"),
        ({"options": "-c default_transaction_read_only=on"}, "show transaction_read_only", "on"),
        ({"client_encoding": "latin1"}, "select 'ü'", "ü"),
        ({"sslmode": "prefer"}, "select 'x'", "x"),
        ({"sslmode": os.environ.get("PGSSLMODE", "disable"), "gssencmode": "disable"}, "select 'x'", "x"),
        ({"require_auth": "scram-sha-256"}, "select 'x'", "x"),
        ({"host": f"127.0.0.1,{WHERE.hostname}", "port": f"1,{WHERE.port}"}, "select 'x'", "x"),
        ({"host": f"{WHERE.hostname},{WHERE.hostname}", "port": f"{WHERE.port},{WHERE.port}", "load_balance_hosts": "random"}, "select 'x'", "x"),
        ({"min_protocol_version": "3.0", "max_protocol_version": "latest"}, "select 'x'", "x"),
    ]:
        with psycopg.connect(URL, autocommit=True, **options) as c:
            for _ in range(3):
                assert one(c, question) == answer, (options, one(c, question))
    for options in ({"options": "-c no_such_setting=1"}, {"options": "-c work_mem=rubbish"}, {"dbname": "no_such_database"}, {"password": "wrong"}, {"require_auth": "none"}):
        with fails(psycopg.OperationalError):
            psycopg.connect(URL, **options)


@check
def target_session_attrs(_):
    "target_session_attrs: what a primary is, and is not"
    for attrs, fits in {"any": True, "primary": True, "read-write": True, "prefer-standby": True, "standby": False, "read-only": False}.items():
        try:
            with psycopg.connect(URL, target_session_attrs=attrs) as c:
                assert fits, attrs
                assert one(c, "show transaction_read_only") == "off"
                assert (c.info.parameter_status("in_hot_standby"), c.info.parameter_status("default_transaction_read_only")) == ("off", "off")
        except psycopg.OperationalError:
            assert not fits, attrs
    with psycopg.connect(URL, target_session_attrs="read-only", options="-c default_transaction_read_only=on") as c:
        assert one(c, f"select count(*) from {TABLE} where id = 1") == 1
        with fails(errors.ReadOnlySqlTransaction):
            c.execute(f"delete from {TABLE}")
    with fails(psycopg.OperationalError):
        psycopg.connect(URL, target_session_attrs="read-write", options="-c default_transaction_read_only=on")


@check
def timeouts(c):
    "statement_timeout, lock_timeout, idle_in_transaction_session_timeout"
    c.execute("set statement_timeout = '200ms'")
    with within(5), fails(errors.QueryCanceled):
        c.execute("select pg_sleep(30)")
    c.execute("reset statement_timeout")
    with psycopg.connect(URL) as other:
        other.execute(f"lock table {TABLE}")
        with within(5), c.transaction(), fails(errors.LockNotAvailable), c.transaction():
            c.execute("set local lock_timeout = '100ms'")
            c.execute(f"lock table {TABLE}")
        other.rollback()
    with psycopg.connect(URL, options="-c idle_in_transaction_session_timeout=200ms") as other:
        other.execute(f"select count(*) from {TABLE}")
        select.select([other], [], [], 5)  # readable when the server has said its last word
        with fails(psycopg.Error):
            other.execute("select 1")
        assert other.closed
    assert one(c, "select 6") == 6


@check
def lost(_):
    "the server ends the session in and out of a transaction; the next connection works"
    for autocommit in (True, False):
        c = psycopg.connect(URL, autocommit=autocommit)
        with fails(psycopg.OperationalError):
            c.execute("select pg_terminate_backend(pg_backend_pid())")
            c.execute("select 1")
        c.close()
    with psycopg.connect(URL) as c:
        assert one(c, "select 7") == 7


@check
def own_pool(_):
    "psycopg_pool: check, reset, reconnect"
    with ConnectionPool(URL, min_size=2, max_size=5, check=ConnectionPool.check_connection, open=True) as pool:
        for i in range(20):
            with pool.connection() as c:
                assert one(c, "select %s::int", i) == i
        try:
            with pool.connection() as c:
                c.execute("select pg_terminate_backend(pg_backend_pid())")
        except psycopg.OperationalError:
            pass
        for i in range(10):
            with pool.connection() as c:
                assert one(c, "select %s::int", i) == i


@check
def asynchronous(_):
    "AsyncConnection: 10 tasks, each with pipeline, COPY and a cancelled task"

    async def client(number):
        async with await psycopg.AsyncConnection.connect(URL, autocommit=True) as c:
            async with c.pipeline():
                cursors = [await c.execute("select %s::int", (number * 100 + i,)) for i in range(20)]
                assert [(await cursor.fetchone())[0] for cursor in cursors] == [number * 100 + i for i in range(20)]
            async with c.cursor() as cursor:
                async with cursor.copy("copy (select generate_series(1, 1000)) to stdout") as stream:
                    assert len([row async for row in stream.rows()]) == 1000
            task = asyncio.ensure_future(c.execute("select pg_sleep(30)"))
            await asyncio.sleep(0.1)
            task.cancel()
            with fails(asyncio.CancelledError):
                await task
            assert (await (await c.execute("select %s::int", (number,))).fetchone())[0] == number

    async def all_of_them():
        await asyncio.gather(*(client(number) for number in range(10)))

    with within(10):
        asyncio.run(all_of_them())


@check
def read_your_writes(c):
    "read your writes, 200 times"
    c.execute("set synchronous_commit = local")  # replicas may lag
    for i in range(30000, 30200):
        c.execute(f"insert into {TABLE} (id) values (%s)", (i,))
        assert one(c, f"select max(id) from {TABLE} where id < 50000") == i


@check
def many_clients(_):
    "30 clients at once, each sees its own answers"

    def client(number):
        with psycopg.connect(URL, autocommit=True) as c:
            for i in range(20):
                assert c.execute("select %s::int, %s::int", (number, i), prepare=True).fetchone() == (number, i)
                with c.transaction():
                    c.execute(f"insert into {TABLE} (id, name) values (%s, %s)", (100000 + number * 100 + i, f"client {number}"))
                assert one(c, f"select count(*) from {TABLE} where name = %s", f"client {number}") == i + 1

    with ThreadPoolExecutor(30) as pool:
        list(pool.map(client, range(30)))


run(lambda: psycopg.connect(URL, autocommit=True))
