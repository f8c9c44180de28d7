// Hibernate over HikariCP and pgjdbc against pgsluice: one line per check, exit code 1 if any failed. `make drivers ONLY=hibernate` compiles and runs it.
import com.zaxxer.hikari.*;
import jakarta.persistence.*;
import java.math.BigDecimal;
import java.util.*;
import java.util.stream.*;
import org.hibernate.LockMode;
import org.hibernate.ScrollMode;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.StatelessSession;
import org.hibernate.cfg.Configuration;
import org.hibernate.exception.ConstraintViolationException;

public class HibernateChecks extends Harness {
    static final String SCHEMA = "drv_hibernate";

    enum Kind { NOVEL, POEMS }

    @Entity(name = "Author") @Table(schema = SCHEMA, indexes = @Index(columnList = "rank"))
    public static class Author {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
        @Version int version;
        @Column(unique = true, length = 80) String name;
        int rank;
        List<String> tags = new ArrayList<>();
        UUID token = UUID.randomUUID();
        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true) List<Book> books = new ArrayList<>();

        Author() { }

        Author(String name) { this.name = name; }
    }

    @Entity(name = "Book") @Table(schema = SCHEMA)
    public static class Book {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        String title;
        @Enumerated(EnumType.STRING) Kind kind = Kind.NOVEL;
        @Column(precision = 8, scale = 2) BigDecimal price;
        @ManyToOne(fetch = FetchType.LAZY, optional = false) Author author;

        Book() { }

        Book(Author author, String title, int price) { this.author = author; this.title = title; this.price = BigDecimal.valueOf(price); }
    }

    static SessionFactory factory(String jdbcOptions, String schema, Map<String, String> settings) {
        HikariConfig pool = new HikariConfig();
        pool.setJdbcUrl(jdbc("ApplicationName=drv&" + jdbcOptions));
        pool.setUsername(LOGIN[0]);
        pool.setPassword(LOGIN[1]);
        pool.setMaximumPoolSize(10);
        pool.setAutoCommit(!settings.containsKey("hibernate.connection.provider_disables_autocommit"));
        Configuration configuration = new Configuration().addAnnotatedClass(Author.class).addAnnotatedClass(Book.class);
        configuration.getProperties().put("hibernate.connection.datasource", new HikariDataSource(pool));
        configuration.setProperty("hibernate.hbm2ddl.auto", schema).setProperty("hibernate.hbm2ddl.create_namespaces", "true");
        configuration.setProperty("hibernate.jdbc.batch_size", "50").setProperty("hibernate.order_inserts", "true");
        settings.forEach(configuration::setProperty);
        return configuration.buildSessionFactory();
    }

    static long count(Session s, String where) {
        return s.createSelectionQuery("select count(*) from " + where, Long.class).getSingleResult();
    }

    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static void add(String variant, String jdbcOptions, Map<String, String> settings) {
        SessionFactory[] held = new SessionFactory[1];
        CHECKS.put(variant + ": schema created, validated, updated", () -> {
            for (String schema : List.of("create", "validate", "update")) {
                if (held[0] != null) held[0].close();
                held[0] = factory(jdbcOptions, schema, settings);
            }
        });
        CHECKS.put(variant + ": persist in batches, cascades, dirty checking, lazy loading, fetch joins", () -> {
            SessionFactory f = held[0];
            Long id = f.fromTransaction(s -> {
                Author ada = new Author("Ada");
                ada.tags.addAll(List.of("a", "ü'\\"));
                for (int i = 0; i < 300; i++) ada.books.add(new Book(ada, "book " + i, i));
                s.persist(ada);
                for (int i = 0; i < 500; i++) s.persist(new Author("bulk " + i));
                return ada.id;
            });
            f.inTransaction(s -> {
                Author ada = s.find(Author.class, id);
                equal(ada.tags, List.of("a", "ü'\\"));
                equal(ada.books.size(), 300);
                ada.rank = 7;
                ada.books.remove(0);
                s.flush();
                equal(count(s, "Book"), 299L);
            });
            f.inSession(s -> {
                equal(s.find(Author.class, id).version > 0, true);
                equal(s.createSelectionQuery("from Author a join fetch a.books where a.name in (:names)", Author.class).setParameterList("names", List.of("Ada", "bulk 1")).getResultList().size(), 1);
                equal(s.createSelectionQuery("from Book b where b.price >= :price and b.kind = :kind order by b.id", Book.class).setParameter("price", BigDecimal.TEN).setParameter("kind", Kind.NOVEL).setMaxResults(10).setFirstResult(5).getResultList().size(), 10);
                for (int i = 0; i < 20; i++) equal(s.createSelectionQuery("select a.rank from Author a where a.name = :n", Integer.class).setParameter("n", "bulk " + i).getSingleResult(), 0);
            });
        });
        CHECKS.put(variant + ": scrolling and streaming by fetch size, bulk HQL, native queries, stateless session", () -> {
            SessionFactory f = held[0];
            f.inTransaction(s -> {
                try (Stream<Author> all = s.createSelectionQuery("from Author a where a.name like 'bulk %'", Author.class).setFetchSize(50).getResultStream()) { equal(all.count(), 500L); }
                try (var rows = s.createSelectionQuery("select b.title from Book b", String.class).setFetchSize(20).scroll(ScrollMode.FORWARD_ONLY)) { for (int i = 0; i < 30; i++) equal(rows.next(), true); }
                equal(s.createMutationQuery("update Author a set a.rank = a.rank + 1 where a.name like 'bulk 1%'").executeUpdate(), 111);
                equal(s.createNativeQuery("select count(*) from " + SCHEMA + ".author where rank = 1", Long.class).getSingleResult(), 111L);
            });
            try (StatelessSession s = f.openStatelessSession()) {
                s.beginTransaction();
                for (int i = 0; i < 100; i++) s.insert(new Author("stateless " + i));
                s.getTransaction().commit();
            }
            f.inTransaction(s -> equal(s.createMutationQuery("delete from Author where name like 'stateless %'").executeUpdate(), 100));
        });
        CHECKS.put(variant + ": optimistic and pessimistic locks, constraint violations, read-only sessions, rollback", () -> {
            SessionFactory f = held[0];
            try (Session one = f.openSession(); Session two = f.openSession()) {
                one.beginTransaction();
                two.beginTransaction();
                Author a = one.createSelectionQuery("from Author where name = 'Ada'", Author.class).getSingleResult();
                Author b = two.find(Author.class, a.id);
                a.rank++;
                one.getTransaction().commit();
                b.rank--;
                try { two.getTransaction().commit(); throw new AssertionError("a lost update"); } catch (OptimisticLockException | RollbackException expected) { /* as it should */ }
            }
            f.inTransaction(s -> {
                Author a = s.createSelectionQuery("from Author where name = 'Ada'", Author.class).setLockMode(LockModeType.PESSIMISTIC_WRITE).getSingleResult();
                f.inSession(t -> {
                    t.beginTransaction();
                    equal(t.createSelectionQuery("from Author where name = 'Ada'", Author.class).setHibernateLockMode(LockMode.UPGRADE_SKIPLOCKED).getResultList().size(), 0);
                    t.getTransaction().rollback();
                });
                a.rank++;
            });
            try { f.inTransaction(s -> s.persist(new Author("Ada"))); throw new AssertionError("a duplicate"); } catch (ConstraintViolationException expected) { equal(expected.getSQLState(), "23505"); }
            try { f.inTransaction(s -> { s.createMutationQuery("delete from Book").executeUpdate(); throw new IllegalStateException(); }); } catch (IllegalStateException expected) { /* rolled back */ }
            f.inSession(s -> {
                s.setDefaultReadOnly(true);
                s.doWork(c -> c.setReadOnly(true));
                s.beginTransaction();
                equal(count(s, "Book"), 299L);
                s.getTransaction().commit();
                s.doWork(c -> c.setReadOnly(false));
            });
            within(5, () -> f.inSession(s -> {
                s.beginTransaction();
                try { s.createNativeQuery("select 1 from pg_sleep(30)", Integer.class).setTimeout(1).getResultList(); throw new AssertionError("no timeout"); } catch (PersistenceException expected) { equal(sql(expected).getSQLState(), "57014"); }
                s.getTransaction().rollback();
            }));
        });
        CHECKS.put(variant + ": 30 threads, read your writes", () -> {
            SessionFactory f = held[0];
            together(30, id -> {
                for (int i = 0; i < 10; i++) {
                    String name = "thread " + id + " " + i;
                    f.inTransaction(s -> s.persist(new Author(name)));
                }
                equal(f.fromTransaction(s -> count(s, "Author where name like 'thread " + id + " %'")), 10L);
            });
            f.close();
        });
    }

    public static void main(String[] arguments) throws Exception {
        add("default", "", Map.of());
        add("prepareThreshold=1, autosave, rewritten batches", "prepareThreshold=1&autosave=conservative&reWriteBatchedInserts=true", Map.of("hibernate.jdbc.fetch_size", "50"));
        add("prepareThreshold=0, delayed acquisition", "prepareThreshold=0", Map.of("hibernate.connection.provider_disables_autocommit", "true"));
        run(CHECKS, () -> {
            try (var c = java.sql.DriverManager.getConnection(jdbc(""), LOGIN[0], LOGIN[1]); var s = c.createStatement()) { s.execute("drop schema if exists " + SCHEMA + " cascade"); }
        });
    }
}
