// pgjdbc against pgsluice: one line per check, exit code 1 if any failed.
//   PGSLUICE_URL=postgresql://app:secret@127.0.0.1:6432/app java -cp postgresql.jar examples/drivers/jdbc/Checks.java
import java.io.ByteArrayInputStream;
import java.io.StringWriter;
import java.net.URI;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;
import org.postgresql.PGConnection;

public class Checks {
    static final String TABLE = "drv_jdbc";

    interface Check { void run(Connection c) throws Exception; }

    /** postgresql://user:password@host:port/database, plus pgjdbc's own options. */
    static Connection connect(String options) throws SQLException {
        URI url = URI.create(System.getenv("PGSLUICE_URL"));
        String[] login = url.getUserInfo().split(":", 2);
        return DriverManager.getConnection("jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath()
            + "?sslmode=disable&" + options, login[0], login[1]);
    }

    static void equal(Object got, Object want) {
        if (!Objects.equals(got, want)) throw new AssertionError("expected " + want + ", got " + got);
    }

    static int number(Connection c, String sql, Object... values) throws SQLException {
        try (PreparedStatement s = c.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) s.setObject(i + 1, values[i]);
            ResultSet rows = s.executeQuery();
            rows.next();
            return rows.getInt(1);
        }
    }

    static void run(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement()) { s.execute(sql); }
    }

    static void fails(String sqlstate, Callable<?> work) throws Exception {
        try { work.call(); } catch (SQLException e) { equal(e.getSQLState(), sqlstate); return; }
        throw new AssertionError("no error " + sqlstate);
    }

    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("login, isValid, DDL", c -> {
            equal(c.isValid(5), true);
            run(c, "drop table if exists " + TABLE + "; create table " + TABLE + " (id int primary key, name text)");
            equal(c.getMetaData().getColumns(null, "public", TABLE, "name").next(), true);
        });
        CHECKS.put("server prepared statements, past prepareThreshold, in every query mode", ignored -> {
            for (String mode : List.of("simple", "extended", "extendedForPrepared", "extendedCacheEverything")) {
                try (Connection c = connect("prepareThreshold=3&binaryTransfer=true&preferQueryMode=" + mode);
                     PreparedStatement s = c.prepareStatement("select ?::int + 1, ?::text, ?::timestamptz")) {
                    Timestamp now = new Timestamp(1_700_000_000_000L);
                    for (int i = 0; i < 50; i++) {
                        s.setInt(1, i); s.setString(2, "ü'\\"); s.setTimestamp(3, now);
                        ResultSet rows = s.executeQuery();
                        rows.next();
                        equal(List.of(rows.getInt(1), rows.getString(2), rows.getTimestamp(3)), List.of(i + 1, "ü'\\", now));
                    }
                }
            }
        });
        CHECKS.put("a small statement cache closes statements all the time", ignored -> {
            try (Connection c = connect("prepareThreshold=1&preparedStatementCacheQueries=3")) {
                for (int i = 0; i < 100; i++) equal(number(c, "select ?::int + " + i % 7, i), i + i % 7);
                run(c, "deallocate all");
                for (int i = 0; i < 10; i++) equal(number(c, "select ?::int", i), i);
            }
        });
        CHECKS.put("autocommit off: BEGIN in the same batch, savepoints, rollback", c -> {
            c.setAutoCommit(false);
            equal(number(c, "select count(*) from " + TABLE), 0);
            run(c, "insert into " + TABLE + " values (1)");
            Savepoint savepoint = c.setSavepoint();
            run(c, "insert into " + TABLE + " values (2)");
            c.rollback(savepoint);
            c.commit();
            run(c, "insert into " + TABLE + " values (3)");
            c.rollback();
            c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            equal(number(c, "select sum(id) from " + TABLE), 1);
            c.commit();
            c.setReadOnly(true);
            fails("25006", () -> number(c, "insert into " + TABLE + " values (4) returning id"));
            c.rollback();
            c.setReadOnly(false);
        });
        CHECKS.put("errors carry their SQLSTATE, the session goes on", c -> {
            for (int i = 0; i < 8; i++) {
                fails("22012", () -> number(c, "select 1 / ?::int", 0));
                fails("42P01", () -> number(c, "select * from no_such_table"));
                fails("23505", () -> number(c, "insert into " + TABLE + " values (?) returning id", 1));
                equal(number(c, "select ?::int", i), i);
            }
        });
        CHECKS.put("a failed transaction refuses until rolled back; autosave mends it", c -> {
            c.setAutoCommit(false);
            fails("22012", () -> number(c, "select 1 / 0"));
            fails("25P02", () -> number(c, "select 1"));
            c.rollback();
            try (Connection mended = connect("autosave=always")) {
                mended.setAutoCommit(false);
                fails("22012", () -> number(mended, "select 1 / 0"));
                equal(number(mended, "select 2"), 2);
                mended.commit();
            }
        });
        CHECKS.put("COPY in and out; a COPY that fails", c -> {
            var copy = c.unwrap(PGConnection.class).getCopyAPI();
            StringBuilder rows = new StringBuilder();
            for (int i = 1000; i < 6000; i++) rows.append(i).append("\trow ").append(i).append('\n');
            var in = new ByteArrayInputStream(rows.toString().getBytes());
            equal(copy.copyIn("copy " + TABLE + " from stdin", in), 5000L);
            StringWriter out = new StringWriter();
            copy.copyOut("copy (select * from " + TABLE + " where id >= 1000 order by id) to stdout", out);
            equal(out.toString(), rows.toString());
            fails("22P02", () -> copy.copyIn("copy " + TABLE + " from stdin", new ByteArrayInputStream("x\ty\n".getBytes())));
            equal(number(c, "select 3"), 3);
        });
        CHECKS.put("batch: pipelined inserts, one that fails, rewritten inserts", ignored -> {
            for (String rewrite : List.of("false", "true")) {
                try (Connection c = connect("reWriteBatchedInserts=" + rewrite);
                     PreparedStatement s = c.prepareStatement("insert into " + TABLE + " values (?, ?)")) {
                    c.setAutoCommit(false);
                    for (int i = 0; i < 1000; i++) { s.setInt(1, 20000 + i); s.setString(2, "batch"); s.addBatch(); }
                    equal(s.executeBatch().length, 1000);
                    equal(number(c, "select count(*) from " + TABLE + " where name = 'batch'"), 1000);
                    c.rollback();
                    s.setInt(1, 1); s.setString(2, "again"); s.addBatch();
                    fails("23505", s::executeBatch);
                    c.rollback();
                }
            }
        });
        CHECKS.put("fetch size: a portal read in parts", c -> {
            c.setAutoCommit(false);
            try (PreparedStatement s = c.prepareStatement("select generate_series(1, 2500)")) {
                s.setFetchSize(100);
                for (int round = 0; round < 8; round++) {
                    long total = 0;
                    ResultSet rows = s.executeQuery();
                    while (rows.next()) total += rows.getInt(1);
                    equal(total, 2500L * 2501 / 2);
                }
                s.executeQuery().next(); // and one left open at commit
            }
            c.commit();
        });
        CHECKS.put("cancel and query timeout within seconds, the session goes on", c -> {
            long started = System.nanoTime();
            try (Statement s = c.createStatement()) {
                ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
                timer.schedule(() -> { s.cancel(); return null; }, 300, TimeUnit.MILLISECONDS);
                fails("57014", () -> s.executeQuery("select pg_sleep(30)"));
                timer.shutdown();
                s.setQueryTimeout(1);
                fails("57014", () -> s.executeQuery("select pg_sleep(30)"));
            }
            equal(System.nanoTime() - started < 7_000_000_000L, true);
            equal(number(c, "select 5"), 5);
        });
        CHECKS.put("read your writes, 200 times", c -> {
            for (int i = 40000; i < 40200; i++) {
                run(c, "insert into " + TABLE + " values (" + i + ")");
                equal(number(c, "select max(id) from " + TABLE), i);
            }
        });
        CHECKS.put("30 clients at once, each sees its own answers", ignored -> {
            ExecutorService pool = Executors.newFixedThreadPool(30);
            List<Future<?>> all = new ArrayList<>();
            for (int id = 0; id < 30; id++) {
                int base = 100000 + id * 100;
                all.add(pool.submit(() -> {
                    try (Connection c = connect("prepareThreshold=2")) {
                        for (int i = 0; i < 20; i++) {
                            equal(number(c, "select ?::int", base + i), base + i);
                            equal(number(c, "insert into " + TABLE + " values (?, ?) returning id", base + i, "client " + base), base + i);
                            equal(number(c, "select count(*) from " + TABLE + " where name = ?", "client " + base), i + 1);
                        }
                        return null;
                    }
                }));
            }
            pool.shutdown();
            for (Future<?> one : all) one.get(60, TimeUnit.SECONDS);
        });
    }

    public static void main(String[] arguments) throws Exception {
        int code = 0;
        for (var check : CHECKS.entrySet()) {
            try (Connection c = connect("prepareThreshold=5")) {
                check.getValue().run(c);
                System.out.println("ok   " + check.getKey());
            } catch (Throwable wrong) {
                code = 1;
                System.out.println("FAIL " + check.getKey() + ": " + wrong.toString().replace("\n", " | "));
            }
        }
        try (Connection c = connect("")) { run(c, "drop table if exists " + TABLE); }
        System.exit(code);
    }
}
