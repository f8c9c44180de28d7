// pgjdbc and HikariCP against pgsluice: one line per check, exit code 1 if any failed. `make drivers ONLY=pgjdbc` compiles and runs it.
import com.zaxxer.hikari.*;
import java.io.*;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.largeobject.LargeObjectManager;
import org.postgresql.xa.PGXADataSource;

public class PgjdbcChecks extends Harness {
    static final String TABLE = "drv_jdbc";

    interface Work { void run(Connection c) throws Exception; }

    static Connection connect(String options) throws SQLException {
        return DriverManager.getConnection(jdbc(options), LOGIN[0], LOGIN[1]);
    }

    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    /** A check with a connection of its own, so that one failure does not break the rest. */
    static void check(String name, Work work) {
        CHECKS.put(name, () -> { try (Connection c = connect("prepareThreshold=5")) { work.run(c); } });
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

    static {
        check("login, isValid, DDL", c -> {
            equal(c.isValid(5), true);
            run(c, "drop table if exists " + TABLE + "; create table " + TABLE + " (id int primary key, name text)");
            equal(c.getMetaData().getColumns(null, "public", TABLE, "name").next(), true);
        });
        check("server prepared statements, past prepareThreshold, in every query mode", ignored -> {
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
        check("a small statement cache closes statements all the time", ignored -> {
            try (Connection c = connect("prepareThreshold=1&preparedStatementCacheQueries=3")) {
                for (int i = 0; i < 100; i++) equal(number(c, "select ?::int + " + i % 7, i), i + i % 7);
                run(c, "deallocate all");
                for (int i = 0; i < 10; i++) equal(number(c, "select ?::int", i), i);
            }
        });
        check("autocommit off: BEGIN in the same batch, savepoints, rollback", c -> {
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
        check("errors carry their SQLSTATE, the session goes on", c -> {
            for (int i = 0; i < 8; i++) {
                fails("22012", () -> number(c, "select 1 / ?::int", 0));
                fails("42P01", () -> number(c, "select * from no_such_table"));
                fails("23505", () -> number(c, "insert into " + TABLE + " values (?) returning id", 1));
                equal(number(c, "select ?::int", i), i);
            }
        });
        check("a failed transaction refuses until rolled back; autosave mends it", c -> {
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
        check("COPY in and out; a COPY that fails", c -> {
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
        check("batch: pipelined inserts, one that fails, rewritten inserts", ignored -> {
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
        check("fetch size: a portal read in parts", c -> {
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
        check("cancel and query timeout within seconds, the session goes on", c -> {
            within(7, () -> { try (Statement s = c.createStatement()) {
                ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
                timer.schedule(() -> { s.cancel(); return null; }, 300, TimeUnit.MILLISECONDS);
                fails("57014", () -> s.executeQuery("select pg_sleep(30)"));
                timer.shutdown();
                s.setQueryTimeout(1);
                fails("57014", () -> s.executeQuery("select pg_sleep(30)"));
            } });
            equal(number(c, "select 5"), 5);
        });
        check("prepareThreshold -1, 0, 1, 5: parameters, transactions, errors, DISCARD ALL and DEALLOCATE ALL in between", ignored -> {
            for (int threshold : new int[] {-1, 0, 1, 5}) {
                try (Connection c = connect("prepareThreshold=" + threshold);
                     PreparedStatement s = c.prepareStatement("select ?::int + 1, ?::text, ?::date, ?::numeric, ?::bytea")) {
                    for (int i = 0; i < 30; i++) {
                        s.setInt(1, i); s.setString(2, "ü"); s.setDate(3, java.sql.Date.valueOf("2024-02-29")); s.setBigDecimal(4, new java.math.BigDecimal("1.50")); s.setBytes(5, new byte[] {0, -1});
                        ResultSet r = s.executeQuery();
                        r.next();
                        equal(List.of(r.getInt(1), r.getString(2), r.getDate(3).toString(), r.getBigDecimal(4).toString(), r.getBytes(5).length), List.of(i + 1, "ü", "2024-02-29", "1.50", 2));
                        if (i % 10 == 4) {
                            fails("22012", () -> number(c, "select 1 / ?::int", 0));
                            if (!c.getAutoCommit()) c.rollback();
                        }
                        if (i == 12) run(c, "discard all");
                        if (i == 22) run(c, "deallocate all");
                        if (i % 7 == 3) c.setAutoCommit(!c.getAutoCommit());
                    }
                }
            }
        });
        check("autosave never, conservative, always, with prepared statements whose table changes", c -> {
            for (String autosave : List.of("never", "conservative", "always")) {
                for (String cleanup : List.of("true", "false")) {
                    try (Connection d = connect("prepareThreshold=1&autosave=" + autosave + "&cleanupSavepoints=" + cleanup)) {
                        run(d, "drop table if exists drv_jdbc_change; create table drv_jdbc_change (a int); insert into drv_jdbc_change values (1)");
                        for (int i = 0; i < 5; i++) equal(number(d, "select * from drv_jdbc_change"), 1);
                        d.setAutoCommit(false);
                        equal(number(d, "select 1"), 1);
                        run(c, "alter table drv_jdbc_change add b text");
                        try {
                            equal(number(d, "select * from drv_jdbc_change"), 1);
                        } catch (SQLException changed) {
                            equal(changed.getSQLState(), "0A000"); // what a server says
                            equal(autosave, "never");
                            d.rollback();
                        }
                        equal(number(d, "select * from drv_jdbc_change"), 1);
                        d.commit();
                    }
                }
            }
            run(c, "drop table drv_jdbc_change");
        });
        check("what tools ask of DatabaseMetaData", c -> {
            run(c, "drop table if exists drv_jdbc_child; create table drv_jdbc_child (id serial primary key, parent int references " + TABLE + ", tags text[], note varchar(10) default 'x')");
            DatabaseMetaData m = c.getMetaData();
            equal(m.getDatabaseMajorVersion() >= 14, true);
            for (ResultSet rows : List.of(m.getTables(null, "public", "drv_jdbc%", new String[] {"TABLE"}), m.getColumns(null, null, "drv_jdbc_child", null), m.getPrimaryKeys(null, null, "drv_jdbc_child"),
                    m.getImportedKeys(null, null, "drv_jdbc_child"), m.getExportedKeys(null, null, TABLE), m.getIndexInfo(null, null, "drv_jdbc_child", false, false), m.getTypeInfo(), m.getSchemas(), m.getCatalogs(),
                    m.getTableTypes(), m.getFunctions(null, "pg_catalog", "upper"), m.getTablePrivileges(null, null, "drv_jdbc_child"))) {
                equal(rows.next(), true);
            }
            PreparedStatement s = c.prepareStatement("insert into drv_jdbc_child (tags) values (?) returning id, tags");
            s.setArray(1, c.createArrayOf("text", new String[] {"a", "ü"}));
            ResultSet r = s.executeQuery();
            r.next();
            equal(Arrays.asList((String[]) r.getArray(2).getArray()), List.of("a", "ü"));
            equal(s.getParameterMetaData().getParameterTypeName(1), "_text");
            s = c.prepareStatement("insert into drv_jdbc_child (note) values ('k')", Statement.RETURN_GENERATED_KEYS);
            s.executeUpdate();
            equal(s.getGeneratedKeys().next(), true);
            run(c, "drop table drv_jdbc_child");
        });
        check("options: currentSchema, ApplicationName, options, assumeMinServerVersion, timeouts, targetServerType, several hosts", ignored -> {
            for (String options : List.of("currentSchema=pg_catalog&ApplicationName=drv&options=-c%20statement_timeout=7s", "options=-c%20search_path=pg_catalog%20-c%20statement_timeout=7s&ApplicationName=drv&assumeMinServerVersion=9.4&tcpKeepAlive=true&loginTimeout=5&connectTimeout=5&socketTimeout=20")) {
                try (Connection c = connect(options); Statement s = c.createStatement()) {
                    for (int i = 0; i < 3; i++) {
                        ResultSet r = s.executeQuery("select concat_ws(' ', current_setting('application_name'), current_setting('search_path'), current_setting('statement_timeout'))");
                        r.next();
                        equal(r.getString(1), "drv pg_catalog 7s");
                    }
                    c.setSchema("public");
                    equal(c.getSchema(), "public");
                    c.setClientInfo("ApplicationName", "other");
                    ResultSet r = s.executeQuery("show application_name");
                    r.next();
                    equal(r.getString(1), "other");
                }
            }
            for (String type : List.of("any", "primary", "preferSecondary", "preferPrimary")) try (Connection c = connect("targetServerType=" + type)) { equal(number(c, "select 1"), 1); }
            fails("08001", () -> connect("targetServerType=secondary"));
            String hosts = "127.0.0.1:1," + URL.getHost() + ":" + URL.getPort();
            try (Connection c = DriverManager.getConnection("jdbc:postgresql://" + hosts + URL.getPath() + "?targetServerType=primary&loadBalanceHosts=true", LOGIN[0], LOGIN[1])) { equal(number(c, "select 2"), 2); }
            fails("28P01", () -> DriverManager.getConnection(jdbc(""), LOGIN[0], "wrong"));
        });
        check("readOnlyMode ignore, transaction, always; isolation levels; readOnly then writes", ignored -> {
            for (String mode : List.of("ignore", "transaction", "always")) {
                for (boolean autocommit : new boolean[] {true, false}) {
                    try (Connection c = connect("prepareThreshold=1&readOnlyMode=" + mode)) {
                        c.setAutoCommit(autocommit);
                        for (int i = 0; i < 5; i++) {
                            c.setReadOnly(true);
                            boolean refused = mode.equals("always") || mode.equals("transaction") && !autocommit;
                            equal(number(c, "select count(*) from " + TABLE + " where id = -1"), 0);
                            if (refused) fails("25006", () -> number(c, "insert into " + TABLE + " values (-1) returning id"));
                            else equal(number(c, "insert into " + TABLE + " values (-2) returning id"), -2);
                            if (!autocommit) c.rollback();
                            else run(c, refused ? "select 1" : "delete from " + TABLE + " where id = -2");
                            c.setReadOnly(false);
                            equal(number(c, "insert into " + TABLE + " values (-1) returning id"), -1);
                            equal(number(c, "delete from " + TABLE + " where id = -1 returning id"), -1);
                            if (!autocommit) c.commit();
                        }
                    }
                }
            }
            try (Connection c = connect("prepareThreshold=1")) {
                for (int level : new int[] {Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE}) {
                    c.setTransactionIsolation(level);
                    equal(c.getTransactionIsolation(), level);
                    for (int i = 0; i < 5; i++) equal(number(c, "select count(*) from " + TABLE + " where id = ?", -1), 0);
                }
            }
        });
        check("COPY 20 times with commits in between", ignored -> {
            try (Connection c = connect("prepareThreshold=0")) {
                c.setAutoCommit(false);
                var copy = c.unwrap(PGConnection.class).getCopyAPI();
                for (int i = 0; i < 20; i++) {
                    equal(copy.copyIn("copy " + TABLE + " (id) from stdin", new StringReader((70000 + i) + "\n")), 1L);
                    c.commit();
                }
                equal(number(c, "select count(*) from " + TABLE + " where id between 70000 and 70019"), 20);
                c.commit();
            }
        });
        check("LISTEN and NOTIFY, while idle and by polling", c -> {
            run(c, "listen drv_jdbc");
            try (Connection d = connect("")) { run(d, "notify drv_jdbc, 'hello'"); }
            PGNotification[] heard = c.unwrap(PGConnection.class).getNotifications(5000);
            equal(heard.length, 1);
            equal(heard[0].getParameter(), "hello");
            run(c, "unlisten *");
        });
        check("large objects, through the fast path", c -> {
            c.setAutoCommit(false);
            LargeObjectManager large = c.unwrap(PGConnection.class).getLargeObjectAPI();
            long oid = large.createLO(LargeObjectManager.READWRITE);
            try (var o = large.open(oid, LargeObjectManager.WRITE)) { o.write(new byte[100000]); }
            c.commit();
            try (var o = large.open(oid, LargeObjectManager.READ)) { equal(o.size(), 100000); equal(o.read(1000).length, 1000); }
            large.delete(oid);
            c.commit();
        });
        check("XA: two-phase commit and recovery", ignored -> {
            PGXADataSource source = new PGXADataSource();
            source.setUrl(jdbc(""));
            source.setUser(LOGIN[0]);
            source.setPassword(LOGIN[1]);
            for (boolean commit : new boolean[] {true, false}) {
                var xa = source.getXAConnection();
                javax.transaction.xa.Xid id = new javax.transaction.xa.Xid() {
                    public int getFormatId() { return 1; }
                    public byte[] getGlobalTransactionId() { return "drv_jdbc".getBytes(); }
                    public byte[] getBranchQualifier() { return new byte[] {(byte) (commit ? 1 : 2)}; }
                };
                var resource = xa.getXAResource();
                resource.start(id, javax.transaction.xa.XAResource.TMNOFLAGS);
                equal(number(xa.getConnection(), "insert into " + TABLE + " values (?) returning id", commit ? 80000 : 80001), commit ? 80000 : 80001);
                resource.end(id, javax.transaction.xa.XAResource.TMSUCCESS);
                resource.prepare(id);
                equal(resource.recover(javax.transaction.xa.XAResource.TMSTARTRSCAN).length, 1);
                if (commit) resource.commit(id, false); else resource.rollback(id);
                xa.close();
            }
            try (Connection c = connect("")) { equal(number(c, "select count(*) from " + TABLE + " where id in (80000, 80001)"), 1); }
        });
        check("HikariCP: 30 threads on 10 connections, a lost session, a query past its time", ignored -> {
            HikariConfig config = new HikariConfig();
            config.setJdbcUrl(jdbc("prepareThreshold=2&defaultRowFetchSize=50"));
            config.setUsername(LOGIN[0]);
            config.setPassword(LOGIN[1]);
            config.setMaximumPoolSize(10);
            config.setAutoCommit(false);
            config.setTransactionIsolation("TRANSACTION_READ_COMMITTED");
            config.setIsolateInternalQueries(true);
            config.setConnectionInitSql("set application_name = 'drv'");
            try (HikariDataSource pool = new HikariDataSource(config)) {
                together(30, id -> {
                    for (int i = 0; i < 20; i++) {
                        try (Connection c = pool.getConnection()) {
                            c.setReadOnly(i % 2 == 0);
                            equal(number(c, "select ?::int", id * 100 + i), id * 100 + i);
                            equal(number(c, "select count(*) from (select generate_series(1, 200)) s"), 200);
                            c.commit();
                        }
                    }
                });
                try (Connection c = pool.getConnection()) {
                    number(c, "select pg_terminate_backend(pg_backend_pid())::int");
                    throw new AssertionError("the session did not end");
                } catch (SQLException lost) { /* as it should */ }
                for (int i = 0; i < 20; i++) try (Connection c = pool.getConnection()) { equal(number(c, "select ?::int", i), i); c.commit(); }
            }
        });
        check("read your writes, 200 times", c -> {
            run(c, "set synchronous_commit = local"); // replicas may lag
            for (int i = 40000; i < 40200; i++) {
                run(c, "insert into " + TABLE + " values (" + i + ")");
                equal(number(c, "select max(id) from " + TABLE + " where id < 50000"), i);
            }
        });
        check("30 clients at once, each sees its own answers", ignored -> {
            together(30, id -> {
                int base = 100000 + id * 100;
                try (Connection c = connect("prepareThreshold=2")) {
                    for (int i = 0; i < 20; i++) {
                        equal(number(c, "select ?::int", base + i), base + i);
                        equal(number(c, "insert into " + TABLE + " values (?, ?) returning id", base + i, "client " + base), base + i);
                        equal(number(c, "select count(*) from " + TABLE + " where name = ?", "client " + base), i + 1);
                    }
                }
            });
        });
    }

    public static void main(String[] arguments) throws Exception {
        PgjdbcRough.add();
        run(CHECKS, () -> { try (Connection c = connect("")) { run(c, "drop table if exists " + TABLE); } });
    }
}
