import java.net.URI;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;

/** What the Java programs share: running checks, printing a line each, and the address. */
class Harness {
    interface Check { void run() throws Exception; }

    static final URI URL = URI.create(System.getenv("PGSLUICE_URL"));
    static final String[] LOGIN = URL.getUserInfo().split(":", 2);

    /** jdbc:postgresql://host:port/database, plus pgjdbc's own options. */
    static String jdbc(String options) {
        return "jdbc:postgresql://" + URL.getHost() + ":" + URL.getPort() + URL.getPath() + "?sslmode=" + System.getenv().getOrDefault("PGSSLMODE", "disable") + "&" + options;
    }

    static void equal(Object got, Object want) {
        if (!Objects.equals(got, want)) throw new AssertionError("expected " + want + ", got " + got);
    }

    static SQLException sql(Throwable wrong) {
        for (Throwable t = wrong; t != null; t = t.getCause()) if (t instanceof SQLException e) return e;
        throw new AssertionError("no SQLException but " + wrong, wrong);
    }

    static void fails(String sqlstate, Callable<?> work) {
        try { work.call(); } catch (Exception e) { equal(sql(e).getSQLState(), sqlstate); return; }
        throw new AssertionError("no error " + sqlstate);
    }

    static void within(int seconds, Check work) throws Exception {
        long started = System.nanoTime();
        work.run();
        equal(System.nanoTime() - started < seconds * 1_000_000_000L, true);
    }

    interface Client { void run(int id) throws Exception; }

    static void together(int clients, Client client) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(clients);
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            int id = i;
            all.add(threads.submit(() -> { client.run(id); return null; }));
        }
        threads.shutdown();
        for (Future<?> one : all) one.get(60, TimeUnit.SECONDS);
    }

    /** Ends the program with 1 if any failed. */
    static void run(Map<String, Check> checks, Check last) throws Exception {
        int code = 0;
        for (var check : checks.entrySet()) {
            try {
                check.getValue().run();
                System.out.println("ok   " + check.getKey());
            } catch (Throwable wrong) {
                code = 1;
                StringBuilder words = new StringBuilder();
                for (StackTraceElement at : wrong.getStackTrace())
                    if (at.getFileName() != null && at.getFileName().endsWith("Checks.java")) { words.append(at.getFileName()).append(':').append(at.getLineNumber()); break; }
                for (Throwable t = wrong; t != null; t = t.getCause()) words.append(' ').append(t);
                System.out.println("FAIL " + check.getKey() + ": " + words.toString().replace("\n", " | "));
            }
        }
        last.run();
        System.exit(code);
    }
}
