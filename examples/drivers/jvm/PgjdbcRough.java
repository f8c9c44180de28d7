import java.io.*;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/** What goes wrong in the life of a program with pgjdbc, as more checks for PgjdbcChecks. */
class PgjdbcRough extends PgjdbcChecks {
    static final String ROUGH = "drv_jdbc_rough";

    static void untilRunning(String word) throws Exception {
        long end = System.nanoTime() + 10_000_000_000L;
        try (Connection c = connect("")) {
            while (number(c, "select count(*) from pg_stat_activity where state = 'active' and query like ? and pid <> pg_backend_pid()", "%" + word + "%") == 0) equal(System.nanoTime() < end, true);
        }
    }

    static Future<Object> later(Callable<Object> work) {
        FutureTask<Object> task = new FutureTask<>(work);
        new Thread(task).start();
        return task;
    }

    static String text(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) { r.next(); return r.getString(1); }
    }

    static void insert(Connection c, int id) throws SQLException { run(c, "insert into " + ROUGH + " values (" + id + ")"); }

    static {
        check("abort() in the middle of a batch: nothing of its transaction stays", c -> {
            run(c, "drop table if exists " + ROUGH + "; create table " + ROUGH + " (id int primary key, name text)");
            for (int round = 0; round < 4; round++) {
                int base = 100 * round;
                Connection dying = connect("prepareThreshold=" + round);
                dying.setAutoCommit(false);
                Future<Object> batch = later(() -> {
                    PreparedStatement s = dying.prepareStatement("insert into " + ROUGH + " select ?, ? from pg_sleep(?)");
                    for (int i = 0; i < 20; i++) { s.setInt(1, base + i); s.setString(2, "sleeper " + base); s.setInt(3, i == 10 ? 3 : 0); s.addBatch(); }
                    return s.executeBatch();
                });
                untilRunning("insert into " + ROUGH + " select ");
                dying.abort(Runnable::run);
                within(5, () -> { try { batch.get(5, TimeUnit.SECONDS); throw new AssertionError("the batch ended well"); } catch (ExecutionException lost) { sql(lost); } });
                // Waits for the dead one's transaction, and fails if that was committed.
                within(10, () -> insert(c, base));
                equal(number(c, "select count(*) from " + ROUGH + " where id between ? and ?", base, base + 99), 1);
            }
        });
        check("cancel in a batch: in a transaction, in autocommit; the session goes on", c -> {
            for (boolean autocommit : new boolean[] {true, false}) {
                int base = autocommit ? 2000 : 2100;
                c.setAutoCommit(autocommit);
                PreparedStatement s = c.prepareStatement("insert into " + ROUGH + " select ?, ? from pg_sleep(?)");
                for (int i = 0; i < 20; i++) { s.setInt(1, base + i); s.setString(2, "sleeper"); s.setInt(3, i == 10 ? 30 : 0); s.addBatch(); }
                Future<Object> batch = later(s::executeBatch);
                untilRunning("insert into " + ROUGH + " select ");
                s.cancel();
                within(5, () -> fails("57014", () -> { try { return batch.get(5, TimeUnit.SECONDS); } catch (ExecutionException e) { throw (Exception) e.getCause(); } }));
                if (!autocommit) {
                    fails("25P02", () -> number(c, "select 1"));
                    c.rollback();
                }
                equal(number(c, "select count(*) from " + ROUGH + " where id between ? and ?", base, base + 99), 0);
                c.setAutoCommit(true);
            }
        });
        check("cursors: fetch size over a commit, refcursors of a function, WITH HOLD, several results at once", c -> {
            run(c, "create or replace function drv_jdbc_cursors() returns setof refcursor language plpgsql as $$ declare a refcursor := 'a'; b refcursor := 'b';"
                + " begin open a for select generate_series(1, 10); return next a; open b for select generate_series(11, 20); return next b; end $$");
            c.setAutoCommit(false);
            for (int round = 0; round < 8; round++) {
                try (Statement s = c.createStatement(); ResultSet refs = s.executeQuery("select drv_jdbc_cursors()")) {
                    int sum = 0;
                    while (refs.next()) try (ResultSet r = (ResultSet) refs.getObject(1)) { while (r.next()) sum += r.getInt(1); }
                    equal(sum, 210);
                }
                try (Statement one = c.createStatement(); Statement two = c.createStatement()) {
                    one.setFetchSize(3);
                    two.setFetchSize(7);
                    ResultSet a = one.executeQuery("select generate_series(1, 100)"), b = two.executeQuery("select generate_series(101, 200)");
                    for (int i = 1; i <= 100; i++) {
                        equal(a.next() && b.next(), true);
                        equal(List.of(a.getInt(1), b.getInt(1)), List.of(i, 100 + i));
                        if (i % 20 == 0) equal(number(c, "select ?::int", i), i);
                    }
                }
                PreparedStatement left = c.prepareStatement("select generate_series(1, 100)");
                left.setFetchSize(10);
                ResultSet rows = left.executeQuery();
                for (int i = 0; i < 5; i++) rows.next();
                c.commit();
                // What was fetched is there, the portal is not.
                for (int i = 5; i < 10; i++) rows.next();
                fails("34000", rows::next);
                c.rollback();
            }
            c.setAutoCommit(true);
            run(c, "declare held cursor with hold for select generate_series(1, 100)");
            for (int i = 1; i <= 50; i++) {
                equal(number(c, "fetch 1 from held"), i);
                equal(number(c, "select ?::int", i), i);
            }
            run(c, "close held; drop function drv_jdbc_cursors()");
            fails("34000", () -> number(c, "fetch 1 from held"));
            try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
                for (int i = 3000; i < 3010; i++) insert(c, i);
                ResultSet r = s.executeQuery("select id, name from " + ROUGH + " where id >= 3000 order by id");
                while (r.next()) { r.updateString(2, "updated"); r.updateRow(); }
                r.absolute(1);
                r.deleteRow();
            }
            equal(number(c, "select count(*) from " + ROUGH + " where name = 'updated'"), 9);
        });
        check("savepoint loops: 200 in a row, 40 deep, under each autosave; settings go back", ignored -> {
            for (String autosave : List.of("never", "conservative", "always")) {
                try (Connection c = connect("prepareThreshold=2&autosave=" + autosave)) {
                    c.setAutoCommit(false);
                    for (int i = 0; i < 200; i++) {
                        Savepoint s = c.setSavepoint("drv" + i % 7);
                        int id = 4000 + i - i % 2;
                        if (i % 2 == 0) {
                            insert(c, id);
                            if (i % 4 == 0) c.releaseSavepoint(s);
                        } else {
                            fails("23505", () -> number(c, "insert into " + ROUGH + " values (?) returning id", id));
                            if (autosave.equals("never")) fails("25P02", () -> number(c, "select 1"));
                            c.rollback(s);
                        }
                    }
                    equal(number(c, "select count(*) from " + ROUGH + " where id between 4000 and 4199"), 100);
                    c.rollback();
                    run(c, "set application_name = 'outside'");
                    c.commit();
                    List<Savepoint> open = new ArrayList<>();
                    for (int level = 1; level <= 40; level++) {
                        open.add(c.setSavepoint());
                        run(c, "set application_name = 'level " + level + "'");
                    }
                    for (int level = 40; level >= 1; level--) {
                        equal(text(c, "show application_name"), "level " + level);
                        c.rollback(open.get(level - 1));
                    }
                    c.commit();
                    for (int i = 0; i < 5; i++) { equal(text(c, "show application_name"), "outside"); c.commit(); }
                }
            }
        });
        check("statement caches that overflow: 8 clients, each kind of cache, errors and failed transactions in between", ignored -> together(8, id -> {
            for (String cache : List.of("preparedStatementCacheQueries=0", "preparedStatementCacheQueries=5", "preparedStatementCacheSizeMiB=1", "preparedStatementCacheQueries=40&databaseMetadataCacheFields=1")) {
                try (Connection c = connect("prepareThreshold=1&" + cache)) {
                    for (int i = 0; i < 40; i++) {
                        c.setAutoCommit(i % 10 != 5);
                        equal(number(c, "select ?::int + " + (id * 1000 + i % 23), i), i + id * 1000 + i % 23);
                        int n = i;
                        if (i % 10 == 3) fails("42P01", () -> number(c, "select ?::int from no_such_table_" + n, 1));
                        if (i % 10 == 5) {
                            fails("22012", () -> number(c, "select 1 / ?::int", 0));
                            for (int j = 0; j < 6; j++) { int k = j; fails("25P02", () -> number(c, "select ?::int - " + k, 1)); }
                            c.rollback();
                        }
                        if (i % 10 == 7) {
                            String large = "x".repeat(50_000);
                            try (PreparedStatement s = c.prepareStatement("select ?::text /* " + large + i + " */")) {
                                s.setString(1, large);
                                ResultSet r = s.executeQuery();
                                r.next();
                                equal(r.getString(1), large);
                            }
                        }
                    }
                }
            }
        }));
        check("a listener beside busy connections hears everything in order; who does not listen hears nothing", c -> {
            run(c, "listen " + ROUGH);
            Future<Object> talk = later(() -> {
                together(8, id -> {
                    try (Connection d = connect("")) {
                        for (int i = 0; i < 50; i++) {
                            d.setAutoCommit(i % 10 != 9);
                            try (PreparedStatement s = d.prepareStatement("select pg_notify('" + ROUGH + "', ?)")) {
                                s.setString(1, id + " " + i);
                                s.executeQuery();
                                if (i % 10 == 9) {
                                    d.rollback();
                                    s.executeQuery();
                                    d.commit();
                                }
                            }
                        }
                        equal(d.unwrap(PGConnection.class).getNotifications().length, 0);
                    }
                });
                return null;
            });
            Map<String, List<String>> heard = new TreeMap<>();
            for (int n = 0; n < 400; ) {
                PGNotification[] some = c.unwrap(PGConnection.class).getNotifications(20_000);
                equal(some.length > 0, true);
                for (PGNotification one : some) heard.computeIfAbsent(one.getParameter().split(" ")[0], k -> new ArrayList<>()).add(one.getParameter().split(" ")[1]);
                if (n / 100 < (n += some.length) / 100) equal(number(c, "select ?::int", n), n);
            }
            talk.get(20, TimeUnit.SECONDS);
            for (List<String> one : heard.values()) equal(one, IntStream.range(0, 50).mapToObj(Integer::toString).toList());
            run(c, "unlisten *");
        });
        check("wide rows: 1,600 columns, values of 20 MB; by query, prepared, by fetch size and COPY", ignored -> {
            byte[] large = new byte[20_000_000];
            new Random(1).nextBytes(large);
            for (String options : List.of("prepareThreshold=1&binaryTransfer=true", "prepareThreshold=0", "preferQueryMode=simple")) {
                try (Connection c = connect(options)) {
                    run(c, "drop table if exists drv_jdbc_wide; create table drv_jdbc_wide (" + IntStream.range(0, 1600).mapToObj(i -> "c" + i + " int default " + i).collect(Collectors.joining(", ")) + ")");
                    run(c, "insert into drv_jdbc_wide default values; insert into drv_jdbc_wide default values");
                    c.setAutoCommit(false);
                    try (PreparedStatement s = c.prepareStatement("select * from drv_jdbc_wide")) {
                        s.setFetchSize(1);
                        for (int round = 0; round < 3; round++) {
                            ResultSet r = s.executeQuery();
                            int rows = 0;
                            for (; r.next(); rows++) for (int i = 0; i < 1600; i++) equal(r.getInt(i + 1), i);
                            equal(rows, 2);
                        }
                    }
                    c.commit();
                    var copy = c.unwrap(PGConnection.class).getCopyAPI();
                    ByteArrayOutputStream out = new ByteArrayOutputStream();
                    equal(copy.copyOut("copy drv_jdbc_wide to stdout (format binary)", out), 2L);
                    equal(copy.copyIn("copy drv_jdbc_wide from stdin (format binary)", new ByteArrayInputStream(out.toByteArray())), 2L);
                    try (PreparedStatement s = c.prepareStatement("select ?::bytea, length(?)")) {
                        s.setBytes(1, large);
                        s.setBytes(2, large);
                        ResultSet r = s.executeQuery();
                        r.next();
                        equal(Arrays.equals(r.getBytes(1), large), true);
                        equal(r.getInt(2), large.length);
                    }
                    run(c, "drop table drv_jdbc_wide");
                    c.commit();
                }
            }
        });
        check("statement_timeout and lock_timeout by options: each connection has its own, over the same few servers", c -> {
            c.setAutoCommit(false);
            run(c, "lock table " + ROUGH);
            together(6, id -> {
                String[] options = List.of(new String[] {"", "0 0"}, new String[] {"-c%20statement_timeout=500", "500ms 0"}, new String[] {"-c%20lock_timeout=50", "0 50ms"}).get(id % 3);
                try (Connection d = connect("options=" + options[0])) {
                    for (int i = 0; i < 4; i++) {
                        String delete = "delete from " + ROUGH + " where id = ? returning id", sleep = "select 1 from pg_sleep(?)";
                        if (id % 3 == 0) equal(number(d, sleep, 0.6), 1);
                        else if (id % 3 == 2) fails("55P03", () -> number(d, delete, 1));
                        else if (i % 2 == 0) fails("57014", () -> number(d, sleep, 20));
                        else fails("57014", () -> number(d, delete, 1));
                        equal(text(d, "select current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')"), options[1]);
                    }
                    run(d, "set statement_timeout = '33s'");
                    equal(text(d, "show statement_timeout"), "33s");
                    run(d, "reset statement_timeout");
                    equal(text(d, "show statement_timeout"), options[1].split(" ")[0]);
                }
            });
            run(c, "drop table " + ROUGH);
            c.commit();
        });
    }

    /** Makes the checks known. */
    static void add() { }
}
