#!/usr/bin/env python3
"""psycopg 3 against pgsluice: one line per check, exit code 1 if any failed.

PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app python examples/drivers/psycopg3.py
"""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psycopg import errors

URL = os.environ["PGSLUICE_URL"]
TABLE = "drv_psycopg"
CHECKS = []


def check(function):
    """Collects a check; its docstring is the line printed."""
    CHECKS.append(function)
    return function


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
    try:
        with c.transaction():
            c.execute(f"insert into {TABLE} (id) values (3)")
            raise KeyError
    except KeyError:
        pass
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
            try:
                c.execute(query, prepare=prepare)
                raise AssertionError(f"no error from {query}")
            except error:
                assert one(c, "select 1") == 1


@check
def failed_transaction(c):
    "a failed transaction refuses until rolled back"
    try:
        with c.transaction():
            try:
                c.execute("select 1/0")
            except errors.DivisionByZero:
                c.execute("select 1")
        raise AssertionError("the aborted transaction took a statement")
    except errors.InFailedSqlTransaction:
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
        try:
            with cursor.copy(f"copy {TABLE} (id) from stdin") as stream:
                stream.write("x\n")
            raise AssertionError("a letter passed as int")
        except errors.InvalidTextRepresentation:
            assert one(c, "select 3") == 3


@check
def pipeline(c):
    "pipeline: 100 statements, then one that fails"
    with c.pipeline():
        cursors = [c.execute("select %s::int", (i,)) for i in range(100)]
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(100))
    try:
        with c.pipeline():
            c.execute("select 1")
            c.execute("select 1/0")
            c.execute("select 2")
        raise AssertionError("no error from the pipeline")
    except errors.DivisionByZero:
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
    timer = threading.Timer(0.3, c.cancel_safe)
    started = time.monotonic()
    timer.start()
    try:
        c.execute("select pg_sleep(30)")
        raise AssertionError("slept to the end")
    except errors.QueryCanceled:
        assert time.monotonic() - started < 5
    timer.join()
    assert one(c, "select 5") == 5


@check
def read_your_writes(c):
    "read your writes, 200 times"
    for i in range(30000, 30200):
        c.execute(f"insert into {TABLE} (id) values (%s)", (i,))
        assert one(c, f"select max(id) from {TABLE}") == i


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


def main():
    failed = 0
    connection = psycopg.connect(URL, autocommit=True)
    for function in CHECKS:
        try:
            if connection.closed:
                connection = psycopg.connect(URL, autocommit=True)
            function(connection)
            print(f"ok   {function.__doc__}")
        except Exception as error:
            failed = 1
            print(f"FAIL {function.__doc__}: {type(error).__name__}: {error}".replace("\n", " | "))
    connection.execute(f"drop table if exists {TABLE}")
    sys.exit(failed)


main()
