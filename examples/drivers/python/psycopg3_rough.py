"""What goes wrong in the life of a psycopg 3 program, as more checks for psycopg3.py: programs that die, cancels, overflowing caches."""

import contextlib
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
from harness import URL, check, fails, within
from psycopg import errors, pq
from psycopg_pool import ConnectionPool

TABLE = "drv_rough"


def connect(**options):
    return psycopg.connect(URL, autocommit=True, **options)


def one(c, query, *values, **options):
    return c.execute(query, values, **options).fetchone()[0]


def drop_dead(c):
    """Closes the socket without a word, as a killed program does."""
    with socket.socket(fileno=os.dup(c.fileno())) as s:
        s.shutdown(socket.SHUT_RDWR)
    c.close()


def until_running(word):
    """Returns when a statement with this word in it is seen to run."""
    deadline = time.monotonic() + 10
    with connect() as c:
        while not one(c, "select count(*) from pg_stat_activity where state = 'active' and query like %s and pid <> pg_backend_pid()", f"%{word}%"):
            assert time.monotonic() < deadline, f"{word} is never seen to run"


def insert(c, *ids):
    """Says INSERTs into a pipeline, and reads nothing."""
    for i in ids:
        c.pgconn.send_query_params(f"insert into {TABLE} (id) values ({i})".encode(), None)


def outcome(c):
    """Results of a pipeline up to its next Sync: what each came to."""
    seen = []
    while not seen or seen[-1] != "sync":
        result = c.pgconn.get_result()
        if result is None:
            continue
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            seen.append("sync")
        elif result.status == pq.ExecStatus.PIPELINE_ABORTED:
            seen.append("skipped")
        elif result.status == pq.ExecStatus.FATAL_ERROR:
            seen.append(result.error_field(pq.DiagnosticField.SQLSTATE).decode())
        else:
            seen.append((result.command_status or b"").decode())
        if seen[-1] != "sync":
            assert c.pgconn.get_result() is None
    return seen


@check
def dead_in_a_pipeline(c):
    "a program dies in a pipeline: what was before a Sync stays, what has none is gone, nobody is hurt"
    c.execute(f"drop table if exists {TABLE}; create table {TABLE} (id int primary key, name text)")
    for number in range(12):
        i = 10 * number
        dying = connect()
        dying.pgconn.enter_pipeline_mode()
        insert(dying, i, i + 1)
        dying.pgconn.pipeline_sync()
        if number % 3 == 1:
            dying.pgconn.send_query_params(b"begin", None)
            dying.pgconn.pipeline_sync()
        insert(dying, i + 2)
        if number % 3 == 2:
            dying.pgconn.send_query_params(b"select 1/0", None)
        insert(dying, i + 3)
        dying.pgconn.send_flush_request()
        assert dying.pgconn.flush() == 0
        assert outcome(dying) == ["INSERT 0 1", "INSERT 0 1", "sync"]
        if number % 2:
            # It has heard of the first INSERT that has no Sync.
            seen = outcome(dying) if number % 3 == 1 else []
            assert seen in ([], ["BEGIN", "sync"])
            assert dying.pgconn.get_result().command_status == b"INSERT 0 1"
        drop_dead(dying)
        # Waits for the dead one's transaction, and fails if that was committed.
        with within(10):
            c.execute(f"insert into {TABLE} (id, name) values ({i + 2}, 'new'), ({i + 3}, 'new')")
        assert one(c, f"select count(*) from {TABLE} where id between {i} and {i + 9}") == 4


@check
def dead_anywhere(c):
    "programs die in a transaction, a COPY in and out, a result, a cursor; locks and settings die with them"
    begin_and = {
        "a transaction": lambda d: d.execute(f"insert into {TABLE} (id) values (1000)"),
        "a failed one": lambda d: (d.execute(f"insert into {TABLE} (id) values (1000)"), d.pgconn.exec_(b"select 1/0")),
        "a COPY in": lambda d: (d.pgconn.exec_(f"copy {TABLE} (id) from stdin".encode()), d.pgconn.put_copy_data(b"1000\n"), d.pgconn.flush()),
        "a COPY out": lambda d: (d.execute(f"insert into {TABLE} (id) values (1000)"), d.pgconn.exec_(b"copy (select repeat('x', 1000) from generate_series(1, 20000)) to stdout"), d.pgconn.get_copy_data(0)),
        "a result": lambda d: (d.execute(f"insert into {TABLE} (id) values (1000)"), d.pgconn.send_query(b"select repeat('x', 1000) from generate_series(1, 20000)"), d.pgconn.flush()),
        "a cursor": lambda d: d.execute(f"insert into {TABLE} (id) values (1000); declare walker cursor with hold for select generate_series(1, 100); fetch 3 from walker"),
        "a savepoint": lambda d: d.execute(f"savepoint s; insert into {TABLE} (id) values (1000)"),
    }
    for name, work in begin_and.items():
        for first in ("begin", "begin; set work_mem = '9MB'; select pg_advisory_lock(4712)"):
            dying = connect(options="-c work_mem=11MB")
            dying.execute(first)
            work(dying)
            drop_dead(dying)
            with within(10):
                assert one(c, f"insert into {TABLE} (id) values (1000) returning id") == 1000, name
                with c.transaction():
                    c.execute("select pg_advisory_xact_lock(4712)")
            assert one(c, f"delete from {TABLE} where id = 1000 returning id") == 1000
            assert one(c, "show work_mem") == "4MB", name
            assert one(c, "select count(*) from pg_cursors where name <> ''") == 0


@check
def cancelled_in_a_pipeline(c):
    "cancel in a pipeline: what stands before it stays, what stands behind it up to the Sync is skipped, the rest goes on"
    for round in range(5):
        i = 2000 + 10 * round
        c.pgconn.enter_pipeline_mode()
        insert(c, i)
        c.pgconn.pipeline_sync()
        insert(c, i + 1)
        c.pgconn.send_query_params(f"insert into {TABLE} (id) select {i + 2} from pg_sleep(30) /* sleeper {i} */".encode(), None)
        insert(c, i + 3)
        c.pgconn.pipeline_sync()
        insert(c, i + 4)
        c.pgconn.pipeline_sync()
        assert c.pgconn.flush() == 0
        until_running(f"sleeper {i} ")
        with within(10):
            c.cancel_safe() if round % 2 else c.cancel()
            assert outcome(c) == ["INSERT 0 1", "sync"]
            assert outcome(c) == ["INSERT 0 1", "57014", "skipped", "sync"]
            assert outcome(c) == ["INSERT 0 1", "sync"]
        c.pgconn.exit_pipeline_mode()
        assert one(c, f"select array_agg(id order by id) from {TABLE} where id between {i} and {i + 9}") == [i, i + 4]


@check
def cancels_hit_nobody_else(_):
    "cancels that come late, early and twice hit nobody else"
    stop = threading.Event()

    def worker(number):
        with connect() as c:
            while not stop.is_set():
                assert one(c, "select %s::int from generate_series(1, 100)", number) == number
                with c.transaction():
                    assert one(c, "select %s::int", number) == number

    def canceller(_):
        for i in range(30):
            with connect() as c:
                c.cancel_safe()  # nothing runs yet
                assert one(c, "select %s::int", i) == i
                c.cancel_safe()  # nothing runs any more
                c.cancel_safe()

    with ThreadPoolExecutor(12) as threads:
        workers = [threads.submit(worker, i) for i in range(8)]
        try:
            list(threads.map(canceller, range(4)))
        finally:
            stop.set()
        for done in workers:
            done.result()


@check
def cursors(c):
    "cursors in and outside transactions: WITH HOLD, several at once, left open, of a failed transaction, WHERE CURRENT OF"
    with fails(errors.NoActiveSqlTransaction):
        c.execute("declare walker cursor for select 1")
    for binary in (False, True):
        with c.cursor("held", withhold=True, binary=binary) as held, c.cursor("other", withhold=True, scrollable=True) as other:
            held.execute("select generate_series(1, 100)")
            other.execute("select generate_series(101, 200)")
            for i in range(1, 51):
                assert held.fetchone() == (i,) and other.fetchone() == (100 + i,)
                assert one(c, "select %s::int", i) == i
            other.scroll(-50)
            assert other.fetchmany(3)[0] == (101,) and len(held.fetchall()) == 50
        assert one(c, "select count(*) from pg_cursors where name <> ''") == 0
    with fails(ZeroDivisionError), c.transaction():
        c.execute("declare gone cursor with hold for select 1; set local work_mem = '9MB'")
        raise ZeroDivisionError
    with fails(errors.InvalidCursorName):
        c.execute("fetch 1 from gone")
    with c.transaction():
        c.execute("declare walker cursor for select generate_series(1, 10)")
        with fails(errors.DivisionByZero), c.transaction():
            c.execute("declare inner_walker cursor for select 1; select 1/0")
        assert [row[0] for row in c.execute("fetch 2 from walker")] == [1, 2]
        with fails(errors.InvalidCursorName), c.transaction():
            c.execute("fetch 1 from inner_walker")
    c.execute(f"insert into {TABLE} select generate_series(3000, 3009)")
    with c.transaction():
        c.execute(f"declare rows cursor for select id from {TABLE} where id >= 3000 order by id for update")
        for i in range(3000, 3010):
            assert one(c, "fetch 1 from rows") == i
            c.execute(f"update {TABLE} set name = 'at the cursor' where current of rows")
    assert one(c, f"select count(*) from {TABLE} where name = 'at the cursor'") == 10
    with c.transaction(), c.cursor("empty") as cursor:
        assert cursor.execute(f"select * from {TABLE} where id = -1").fetchall() == []


@check
def savepoints(c):
    "savepoint loops: 200 in a row, 60 deep, errors in every third; settings go back with them"

    def descend(level):
        """Says what stands afterwards."""
        before, now = one(c, "show work_mem"), f"{100 + level}MB"
        try:
            with c.transaction():
                c.execute(f"set work_mem = '{now}'")
                if level < 60:
                    now = descend(level + 1)
                assert one(c, "show work_mem") == now
                if level % 3 == 0:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            now = before
        assert one(c, "show work_mem") == now
        return now

    with c.transaction():
        last = descend(1)
    for _ in range(5):
        assert one(c, "show work_mem") == last == "102MB"
    c.execute("reset work_mem")
    with c.transaction():
        for i in range(200):
            with contextlib.suppress(errors.UniqueViolation), c.transaction():
                c.execute(f"insert into {TABLE} (id) values (%s)", (4000 + i - (i % 3 == 2),))
    assert one(c, f"select count(*) from {TABLE} where id >= 4000 and id < 4200") == 134
    # By hand, as frameworks do: the same name again and again, released or not.
    with c.transaction():
        for i in range(100):
            c.execute("savepoint same")
            with fails(errors.UniqueViolation):
                c.execute(f"insert into {TABLE} (id) values (4000)")
            with fails(errors.InFailedSqlTransaction):
                c.execute("savepoint other")
            c.execute("rollback to same")
            if i % 2:
                c.execute("release same")
    assert one(c, "select 6") == 6


@check
def overflowing_cache(_):
    "prepared statement caches that overflow: 8 clients, the same names, 300 texts each, errors in between"

    def client(number):
        with connect(prepare_threshold=0) as c:
            c.prepared_max = 10
            for i in range(300):
                text = f"select %s::int + {number * 1000 + i % 40}"
                assert one(c, text, i) == i + number * 1000 + i % 40
                if i % 10 == 3:
                    with fails(errors.UndefinedTable):
                        c.execute(f"select %s::int from no_such_table_{i}", (1,))
                if i % 10 == 5:
                    with fails(errors.DivisionByZero), c.transaction():
                        c.execute(text, (1,))
                        c.execute("select 1 / %s::int", (0,))
                if i % 50 == 7:
                    with c.pipeline():
                        cursors = [c.execute(f"select %s::int * {number} + {j}", (i,)) for j in range(30)]
                        assert [cursor.fetchone()[0] for cursor in cursors] == [i * number + j for j in range(30)]
            c.prepared_max = 0
            assert one(c, "select %s::int", number) == number

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(client, range(8)))


@check
def listener_beside_a_pool(_):
    "a listener beside a busy pool hears everything in order; who does not listen hears nothing"
    wrong = []
    with connect() as listener, ConnectionPool(URL, min_size=4, max_size=4, open=True) as pool:
        listener.execute("listen drv_rough")
        with fails(ZeroDivisionError), listener.transaction():
            listener.execute("listen drv_rough_never; unlisten drv_rough")
            raise ZeroDivisionError

        def worker(number):
            for i in range(50):
                with pool.connection() as c:
                    c.add_notify_handler(wrong.append)
                    c.execute("select pg_notify('drv_rough', %s)", (f"{number} {i}",))
                    c.execute("select pg_notify('drv_rough_never', 'x')")
                    if i % 10 == 9:
                        c.execute("select pg_notify('drv_rough', 'never')")
                        c.execute("savepoint s; notify drv_rough, 'never'; rollback to s")
                        c.rollback()
                        c.execute("select pg_notify('drv_rough', %s)", (f"{number} {i}",))
                    c.commit()
                    c.remove_notify_handler(wrong.append)

        with ThreadPoolExecutor(8) as threads:
            done = [threads.submit(worker, number) for number in range(8)]
            heard = [n.payload for n in listener.notifies(timeout=20, stop_after=200)]
            assert one(listener, "select 7") == 7  # in between
            heard += [n.payload for n in listener.notifies(timeout=20, stop_after=400 - len(heard))]
            for one_done in done:
                one_done.result()
        for number in range(8):
            mine = [p for p in heard if p.startswith(f"{number} ")]
            assert mine == [f"{number} {i}" for i in range(50)], (number, len(mine))
        assert len(heard) == 400 and not wrong
        listener.execute("unlisten drv_rough")
        with pool.connection() as c:
            c.execute("notify drv_rough, 'late'")
        assert not list(listener.notifies(timeout=0.2))


@check
def wide_rows(c):
    "wide rows: 1,600 columns, values of 20 MB, both at once; by query, prepared, binary, cursor and COPY"
    columns = ", ".join(f"c{i} int default {i}" for i in range(1600))
    c.execute(f"drop table if exists {TABLE}_wide; create table {TABLE}_wide ({columns}); insert into {TABLE}_wide default values; insert into {TABLE}_wide default values")
    wanted = tuple(range(1600))
    for options in ({}, {"prepare": True}, {"binary": True}, {"prepare": True, "binary": True}):
        for _ in range(3):
            assert c.execute(f"select * from {TABLE}_wide", **options).fetchall() == [wanted, wanted]
    with c.transaction(), c.cursor("walker") as cursor:
        assert cursor.execute(f"select * from {TABLE}_wide").fetchone() == wanted
    with c.cursor() as cursor:
        with cursor.copy(f"copy {TABLE}_wide to stdout (format binary)") as out:
            data = b"".join(out)
        with cursor.copy(f"copy {TABLE}_wide from stdin (format binary)") as back:
            back.write(data)
    assert one(c, f"select count(*) from {TABLE}_wide") == 4
    parameters = ", ".join(["%s::int"] * 1600)
    assert c.execute(f"select {parameters}", wanted).fetchone() == wanted
    large = os.urandom(20_000_000)
    for binary in (False, True):
        assert c.execute("select %b::bytea, length(%b)", (large, large), binary=binary).fetchone() == (large, len(large))
    assert len(one(c, "select string_agg(repeat('x', 1000), '') from generate_series(1, 20000)")) == 20_000_000
    assert c.execute("select " + ", ".join(f"repeat('{i % 10}', 10000)" for i in range(1000))).fetchone()[999] == "9" * 10000
    c.execute(f"drop table {TABLE}_wide")


@check
def limits_by_options(c):
    "statement_timeout and lock_timeout by options: each connection has its own, over the same few servers"
    c.execute(f"create table if not exists {TABLE} (id int primary key, name text)")
    holder = psycopg.connect(URL)
    holder.execute(f"lock table {TABLE}")

    def limited(number):
        with connect(options="-c statement_timeout=500 -c lock_timeout=2min") as c:
            for i in range(4):
                with within(20), fails(errors.QueryCanceled):
                    c.execute("select pg_sleep(20)") if i % 2 else c.execute(f"insert into {TABLE} (id) values (9000)")
                assert one(c, "select current_setting('statement_timeout') || current_setting('lock_timeout')") == "500ms2min"
            with c.transaction():
                c.execute("set local statement_timeout = 0")
                assert one(c, "select count(*) from pg_sleep(0.6)") == 1
            c.execute("set statement_timeout = '33s'")
            assert one(c, "show statement_timeout") == "33s"
            c.execute("reset statement_timeout" if number % 2 else "discard all")
            assert one(c, "show statement_timeout") == "500ms"

    def impatient(_):
        with connect(options="-c lock_timeout=50") as c:
            for _ in range(10):
                with within(20), fails(errors.LockNotAvailable):
                    c.execute(f"insert into {TABLE} (id) values (9000)")
                assert one(c, "select current_setting('statement_timeout') || current_setting('lock_timeout')") == "050ms"

    def patient(_):
        with connect() as c:
            for _ in range(5):
                assert one(c, "select count(*) from pg_sleep(0.6)") == 1
                assert one(c, "select current_setting('statement_timeout') || current_setting('lock_timeout')") == "00"

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda work: work[0](work[1]), [(kind, i) for i in range(2) for kind in (limited, impatient, patient)]))
    holder.close()
    c.execute(f"drop table {TABLE}")
