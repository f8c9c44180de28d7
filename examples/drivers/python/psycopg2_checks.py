#!/usr/bin/env python3
"""psycopg2 against pgsluice: one line per check, exit code 1 if any failed.

PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app python examples/drivers/python/psycopg2_checks.py
"""

import io
import select
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg2
from harness import URL, check, fails, run, within
from psycopg2 import errors, extensions, extras, pool

TABLE = "drv_psycopg2"


def connect(**options):
    c = psycopg2.connect(URL, **options)
    c.autocommit = True
    return c


def rows(c, query, values=None):
    with c.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall() if cursor.description else None


def one(c, query, *values):
    return rows(c, query, values)[0][0]


@check
def login(c):
    "login, DDL, what the connection tells of the server"
    assert one(c, "select current_user") == "app"
    rows(c, f"drop table if exists {TABLE}; create table {TABLE} (id int primary key, name text, data jsonb)")
    assert c.server_version >= 140000 and c.encoding == "UTF8"
    assert c.get_parameter_status("in_hot_standby") == "off" and c.get_parameter_status("integer_datetimes") == "on"


@check
def types(c):
    "parameters, arrays, JSON, ranges, dict cursors; enums and composites by introspection"
    assert rows(c, "select %s, %s, %s::bytea, %s, %s, %s", (7, "ü'\\", b"\0\xff", 1.5, [1, 2], None))[0][:2] == (7, "ü'\\")
    with c.cursor(cursor_factory=extras.RealDictCursor) as cursor:
        cursor.execute("select %s::jsonb as j, %s::int4range as r", (extras.Json({"a": [1]}), extras.NumericRange(1, 5)))
        assert dict(cursor.fetchone()) == {"j": {"a": [1]}, "r": extras.NumericRange(1, 5)}
    rows(c, "drop type if exists drv_psycopg2_pair; create type drv_psycopg2_pair as (a int, b text)")
    extras.register_composite("drv_psycopg2_pair", c)
    assert tuple(one(c, "select row(1, 'x')::drv_psycopg2_pair")) == (1, "x")
    rows(c, "drop type drv_psycopg2_pair")


@check
def transactions(_):
    "implicit BEGIN, with-blocks, rollback"
    c = psycopg2.connect(URL)
    with c:
        rows(c, f"select count(*) from {TABLE}")
        rows(c, f"insert into {TABLE} values (1)")
        assert c.status == extensions.STATUS_BEGIN and c.info.transaction_status == extensions.TRANSACTION_STATUS_INTRANS
    assert c.info.transaction_status == extensions.TRANSACTION_STATUS_IDLE
    with fails(ZeroDivisionError), c:
        rows(c, f"insert into {TABLE} values (2)")
        raise ZeroDivisionError
    assert rows(c, f"select id from {TABLE}") == [(1,)]
    c.rollback()
    with fails(errors.DivisionByZero):
        rows(c, "select 1/0")
    assert c.info.transaction_status == extensions.TRANSACTION_STATUS_INERROR
    with fails(errors.InFailedSqlTransaction):
        rows(c, "select 1")
    c.rollback()
    assert one(c, "select 2") == 2
    c.close()


@check
def sessions(_):
    "set_session: isolation, read only, deferrable, autocommit; reset()"
    for autocommit in (False, True):
        c = psycopg2.connect(URL)
        for level in ("read uncommitted", "read committed", "repeatable read", "serializable"):
            for readonly in (True, False):
                c.set_session(isolation_level=level, readonly=readonly, deferrable=readonly, autocommit=autocommit)
                for _ in range(2):
                    assert rows(c, "select current_setting('transaction_isolation'), current_setting('transaction_read_only')") == [(level, "on" if readonly else "off")]
                    if readonly:
                        with fails(errors.ReadOnlySqlTransaction):
                            rows(c, f"insert into {TABLE} values (3)")
                    c.rollback()
        rows(c, "set search_path = pg_catalog")
        c.reset()
        c.autocommit = True
        assert "public" in one(c, "show search_path")
        c.close()


@check
def cursors(c):
    "named cursors: itersize, scroll, WITH HOLD outliving its transaction"
    c.autocommit = False
    with c.cursor("walker") as cursor:
        cursor.itersize = 100
        cursor.execute("select generate_series(1, 2500)")
        assert sum(row[0] for row in cursor) == 2500 * 2501 // 2
    with c.cursor("scroller", scrollable=True) as cursor:
        cursor.execute("select generate_series(1, 100)")
        cursor.scroll(50)
        assert cursor.fetchone() == (51,)
        cursor.scroll(-11)
        assert cursor.fetchmany(2) == [(41,), (42,)]
    c.commit()
    with c.cursor("holder", withhold=True) as cursor:
        cursor.execute("select generate_series(1, 100)")
        c.commit()
        assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
        c.commit()
        assert len(cursor.fetchall()) == 97
    c.commit()
    c.autocommit = True
    assert one(c, "select 3") == 3


@check
def batches(c):
    "execute_values, execute_batch, executemany, callproc, mogrify"
    with c.cursor() as cursor:
        extras.execute_values(cursor, f"insert into {TABLE} (id, name) values %s", [(1000 + i, "values") for i in range(1000)], page_size=100)
        extras.execute_batch(cursor, f"insert into {TABLE} (id, name) values (%s, %s)", [(2000 + i, "batch") for i in range(1000)], page_size=100)
        cursor.executemany(f"insert into {TABLE} (id, name) values (%s, %s)", [(3000 + i, "many") for i in range(100)])
        got = extras.execute_values(cursor, f"insert into {TABLE} (id) values %s returning id", [(4000 + i,) for i in range(250)], fetch=True)
        assert len(got) == 250
        cursor.callproc("upper", ("x",))
        assert cursor.fetchone() == ("X",)
    assert one(c, f"select count(*) from {TABLE} where id between 1000 and 3999") == 2100


@check
def copy(c):
    "copy_from, copy_to, copy_expert; a COPY that fails"
    with c.cursor() as cursor:
        cursor.copy_from(io.StringIO("".join(f"{i}\tcopied\n" for i in range(10000, 15000))), TABLE, columns=("id", "name"))
        assert cursor.rowcount == 5000
        out = io.StringIO()
        cursor.copy_expert(f"copy (select id from {TABLE} where name = 'copied' order by id) to stdout with csv", out)
        assert out.getvalue() == "".join(f"{i}\n" for i in range(10000, 15000))
        with fails(errors.InvalidTextRepresentation):
            cursor.copy_from(io.StringIO("x\n"), TABLE, columns=("id",))
        with fails(errors.QueryCanceled):  # the file raises: CopyFail
            cursor.copy_expert(f"copy {TABLE} (id) from stdin", type("Broken", (io.StringIO,), {"read": lambda *_: 1 / 0})())
    assert one(c, "select 3") == 3


@check
def recovery(c):
    "errors carry their SQLSTATE, diagnostics; notices arrive"
    for query, error in [
        ("select 1/0", errors.DivisionByZero),
        ("select * from no_such_table", errors.UndefinedTable),
        (f"insert into {TABLE} values (1)", errors.UniqueViolation),
        ("selec", errors.SyntaxError),
    ]:
        with fails(error):
            rows(c, query)
    try:
        rows(c, f"insert into {TABLE} values (1)")
    except errors.UniqueViolation as error:
        assert (error.diag.constraint_name, error.diag.table_name) == (f"{TABLE}_pkey", TABLE)
    rows(c, "do $$ begin raise notice 'hello'; end $$")
    assert c.notices[-1] == "NOTICE:  hello\n"


@check
def notifications(c):
    "LISTEN and NOTIFY, heard by poll() while idle"
    rows(c, "listen drv_psycopg2")
    other = connect()
    for i in range(3):
        rows(other, "select pg_notify('drv_psycopg2', %s)", (str(i),))
        while not c.notifies:
            assert select.select([c], [], [], 5)[0], "nothing heard"
            c.poll()
        assert c.notifies.pop().payload == str(i)
    other.close()
    rows(c, "unlisten *")


@check
def cancel(c):
    "cancel and statement_timeout within seconds, the session goes on"
    timer = threading.Timer(0.3, c.cancel)
    timer.start()
    with within(5), fails(errors.QueryCanceled):
        rows(c, "select pg_sleep(30)")
    timer.join()
    rows(c, "set statement_timeout = 200")
    with within(5), fails(errors.QueryCanceled):
        rows(c, "select pg_sleep(30)")
    rows(c, "reset statement_timeout")
    assert one(c, "select 5") == 5


@check
def asynchronous(_):
    "async connection: poll(), cancel"

    def wait(c):
        while (state := c.poll()) != extensions.POLL_OK:
            read, write = ([c], []) if state == extensions.POLL_READ else ([], [c])
            assert any(select.select(read, write, [], 5)), "no answer"

    c = psycopg2.connect(URL, async_=True)
    wait(c)
    cursor = c.cursor()
    for i in range(20):
        cursor.execute("select %s", (i,))
        wait(c)
        assert cursor.fetchone() == (i,)
    cursor.execute("select pg_sleep(30)")
    c.cancel()
    with within(5), fails(errors.QueryCanceled):
        wait(c)
    c.close()


@check
def large_objects(c):
    "large objects, through the fast path's functions"
    c.autocommit = False
    written = c.lobject(0, "wb")
    written.write(b"0123456789" * 10000)
    written.close()
    c.commit()
    read = c.lobject(written.oid, "rb")
    read.seek(99990)
    assert read.read() == b"0123456789" and read.tell() == 100000
    read.unlink()
    c.commit()


@check
def two_phase(_):
    "two-phase commit, finished by another connection"
    c = psycopg2.connect(URL)
    xid = c.xid(42, "drv_psycopg2", "x")
    c.tpc_begin(xid)
    rows(c, f"insert into {TABLE} values (60000)")
    c.tpc_prepare()
    c.close()
    c = psycopg2.connect(URL)
    assert [x for x in c.tpc_recover() if x.gtrid == "drv_psycopg2"]
    c.tpc_commit(xid)
    assert one(c, f"select count(*) from {TABLE} where id = 60000") == 1
    c.close()


@check
def options(_):
    "connect options: application_name, options=-c, connect_timeout, keepalives, client_encoding, target_session_attrs"
    c = connect(application_name="drv", options="-c search_path=pg_catalog -c lock_timeout=3s", connect_timeout=5, keepalives=1, keepalives_idle=5, client_encoding="latin1")
    for _ in range(3):
        assert rows(c, "select current_setting('application_name'), current_setting('search_path'), current_setting('lock_timeout'), 'ü'")[0] == ("drv", "pg_catalog", "3s", "ü")
    c.set_client_encoding("UTF8")
    assert one(c, "show client_encoding") == "UTF8"
    c.close()
    for attrs, fits in {"read-write": True, "primary": True, "prefer-standby": True, "read-only": False, "standby": False}.items():
        try:
            connect(target_session_attrs=attrs).close()
            assert fits, attrs
        except psycopg2.OperationalError:
            assert not fits, attrs


@check
def lost(_):
    "the server ends the session; a pool gets a new one"
    p = pool.ThreadedConnectionPool(1, 2, URL)
    c = p.getconn()
    with fails(psycopg2.OperationalError, psycopg2.InterfaceError, psycopg2.DatabaseError):
        rows(c, "select pg_terminate_backend(pg_backend_pid())")
        rows(c, "select 1")
    # A server closes the connection; the proxy may say so and lend another server. Either way the pool goes on.
    p.putconn(c)
    c = p.getconn()
    assert one(c, "select 7") == 7
    p.putconn(c)
    p.closeall()


@check
def read_your_writes(c):
    "read your writes, 200 times"
    rows(c, "set synchronous_commit = local")  # replicas may lag
    for i in range(40000, 40200):
        rows(c, f"insert into {TABLE} (id) values (%s)", (i,))
        assert one(c, f"select max(id) from {TABLE} where id < 50000") == i


@check
def many_clients(_):
    "30 clients at once, each sees its own answers"

    def client(number):
        c = connect()
        for i in range(20):
            assert rows(c, "select %s, %s", (number, i)) == [(number, i)]
            with c:
                rows(c, f"insert into {TABLE} (id, name) values (%s, %s)", (100000 + number * 100 + i, f"client {number}"))
            assert one(c, f"select count(*) from {TABLE} where name = %s", f"client {number}") == i + 1
        c.close()

    with ThreadPoolExecutor(30) as threads:
        list(threads.map(client, range(30)))


run(connect)
