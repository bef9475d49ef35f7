package dev.pgleader.lock;

import static dev.pgleader.testkit.Sql.backendPid;
import static dev.pgleader.testkit.Sql.execute;
import static dev.pgleader.testkit.Sql.text;
import static dev.pgleader.testkit.Sql.truth;
import static dev.pgleader.testkit.Sql.tryLock;
import static dev.pgleader.testkit.Sql.unlock;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.LockTable.AdvisoryRow;
import dev.pgleader.testkit.PgBouncer;
import dev.pgleader.testkit.PgBouncer.PoolMode;
import dev.pgleader.testkit.PostgresServer;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/**
 * What this library believes of PostgreSQL and its driver. F1 to F18 number these facts; tests that rest on one name it.
 */
@Timeout(300)
class PostgresAssumptionsTest {

    private static final String DATABASE = "assumptions";
    private static final String USER = "ordinary";
    private static final String PASSWORD = "ordinary-password";
    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final AtomicLong KEYS = new AtomicLong(1_000);

    @AutoClose
    private static final LockTable LOCK_TABLE = new LockTable(SERVER, DATABASE);

    private final long key = KEYS.incrementAndGet();
    private final ExecutorService executor = Executors.newCachedThreadPool();
    private final Connection session = connect();
    private final Connection other = connect();

    PostgresAssumptionsTest() throws SQLException {}

    @BeforeAll
    static void createDatabaseAndUser() throws SQLException {
        SERVER.createDatabase(DATABASE);
        SERVER.createRole(USER, PASSWORD);
    }

    @AfterEach
    void close() throws SQLException {
        executor.shutdownNow();
        session.close();
        other.close();
        // A closed session ends a little later; the next test is to find no lock of this one.
        await().until(() -> LOCK_TABLE.advisoryRows().isEmpty());
    }

    @Nested
    class Keys {

        @Test
        @DisplayName("F1: the same key in another database of the server is another lock")
        void perDatabase() throws SQLException {
            try (Connection elsewhere = SERVER.connect(PostgresServer.DEFAULT_DATABASE)) {
                assertThat(tryLock(session, key)).isTrue();
                assertThat(tryLock(elsewhere, key)).isTrue();
                assertThat(tryLock(other, key)).isFalse();
            }
        }

        @Test
        @DisplayName("F2: pg_locks shows a bigint key as two unsigned halves, from which the signed key can be put"
                + " together")
        void halves() throws SQLException {
            int pid = backendPid(session);
            for (long extreme : List.of(-1L, Long.MIN_VALUE, Long.MAX_VALUE, 0L, -4_294_967_296L)) {
                assertThat(tryLock(session, extreme)).isTrue();
                assertThat(LOCK_TABLE.holders(extreme)).containsExactly(pid);
                assertThat(LOCK_TABLE.advisoryRows())
                        .containsExactly(new AdvisoryRow(pid, extreme >>> 32, extreme & 0xffff_ffffL, 1, true));
                assertThat(unlock(session, extreme)).isTrue();
            }
        }

        @Test
        @DisplayName("F2: a pair of ints and the bigint with the same halves are two locks, which only objsubid"
                + " tells apart")
        void pairs() throws SQLException {
            assertThat(truth(session, "SELECT pg_try_advisory_lock(1, 2)")).isTrue();
            assertThat(tryLock(other, 4_294_967_298L)).isTrue();
            assertThat(LOCK_TABLE.advisoryRows())
                    .containsExactly(
                            new AdvisoryRow(backendPid(other), 1, 2, 1, true),
                            new AdvisoryRow(backendPid(session), 1, 2, 2, true));
            assertThat(LOCK_TABLE.holders(4_294_967_298L)).containsExactly(backendPid(other));
        }

        @Test
        @DisplayName("F16: a pair needs parameters of type int; two bigints are an unknown function")
        void pairParameters() throws SQLException {
            try (PreparedStatement statement = session.prepareStatement("SELECT pg_try_advisory_lock(?, ?)")) {
                statement.setLong(1, 1);
                statement.setLong(2, 2);
                assertSqlState("42883", statement::executeQuery);
                statement.setInt(1, 1);
                statement.setInt(2, 2);
                try (ResultSet rows = statement.executeQuery()) {
                    assertThat(rows.next()).isTrue();
                    assertThat(rows.getBoolean(1)).isTrue();
                }
            }
        }

        @Test
        @DisplayName("One statement over unnest takes many keys of both kinds, each exactly once")
        void manyKeys() throws SQLException {
            String sql = """
                    SELECT k, CASE WHEN s = 1 THEN pg_try_advisory_lock(k)
                                   ELSE pg_try_advisory_lock((k >> 32)::int, ((k << 32) >> 32)::int) END AS taken
                    FROM unnest(?::int[], ?::bigint[]) AS t(s, k)
                    """;
            List<Long> keys =
                    List.of(0L, 1L, -1L, Long.MIN_VALUE, Long.MAX_VALUE, 4_294_967_295L, -4_294_967_296L, key);
            List<Integer> kinds = new ArrayList<>();
            List<Long> both = new ArrayList<>();
            for (int kind : List.of(1, 2)) {
                keys.forEach(each -> {
                    kinds.add(kind);
                    both.add(each);
                });
            }
            assertThat(tryLock(other, key)).isTrue();
            try (PreparedStatement statement = session.prepareStatement(sql)) {
                Array kindArray = session.createArrayOf("int4", kinds.toArray());
                Array keyArray = session.createArrayOf("int8", both.toArray());
                statement.setArray(1, kindArray);
                statement.setArray(2, keyArray);
                // More often than the driver's prepareThreshold, so that the planner's generic plan is met, too.
                for (int time = 1; time <= 12; time++) {
                    List<Long> refused = new ArrayList<>();
                    int row = 0;
                    try (ResultSet rows = statement.executeQuery()) {
                        for (; rows.next(); row++) {
                            assertThat(rows.getLong("k")).isEqualTo(both.get(row));
                            if (!rows.getBoolean("taken")) {
                                refused.add(rows.getLong("k"));
                            }
                        }
                    }
                    assertThat(row).isEqualTo(both.size());
                    assertThat(refused).containsExactly(key);
                }
            }
            int pid = backendPid(session);
            assertThat(LOCK_TABLE.advisoryRows())
                    .filteredOn(row -> row.pid() == pid)
                    .hasSize(2 * keys.size() - 1);
            for (long each : keys) {
                int high = (int) (each >> 32);
                int low = (int) each;
                assertThat(countUnlocks(() -> truth(session, "SELECT pg_advisory_unlock(?, ?)", high, low)))
                        .isEqualTo(12);
                assertThat(countUnlocks(() -> unlock(session, each))).isEqualTo(each == key ? 0 : 12);
            }
        }

        private int countUnlocks(SqlCondition unlock) throws SQLException {
            int count = 0;
            while (unlock.test()) {
                count++;
            }
            return count;
        }

        @Test
        @DisplayName("F17, X15: a full lock table is an error 53200, not a refusal")
        void fullLockTable() throws SQLException {
            try (PostgresServer small = PostgresServer.builder()
                            .setting("max_connections", "5")
                            .setting("max_locks_per_transaction", "10")
                            .setting("max_wal_senders", "0")
                            .launch();
                    Connection greedy = small.connect()) {
                assertSqlState(
                        "53200",
                        () -> execute(greedy, "SELECT pg_try_advisory_lock(k) FROM generate_series(1, 1000000) k"));
            }
        }
    }

    @Nested
    class Ownership {

        @Test
        @DisplayName("F3: taken twice it is one row, two unlocks and a third that returns false with a warning")
        void stacks() throws SQLException {
            assertThat(tryLock(session, key)).isTrue();
            assertThat(tryLock(session, key)).isTrue();
            assertThat(LOCK_TABLE.holders(key)).containsExactly(backendPid(session));
            assertThat(unlock(session, key)).isTrue();
            assertThat(tryLock(other, key)).isFalse();
            assertThat(unlock(session, key)).isTrue();
            try (Statement statement = session.createStatement();
                    ResultSet rows = statement.executeQuery("SELECT pg_advisory_unlock(" + key + ")")) {
                assertThat(rows.next()).isTrue();
                assertThat(rows.getBoolean(1)).isFalse();
                assertThat(statement.getWarnings().getMessage()).contains("you don't own a lock");
            }
        }

        @Test
        @DisplayName("F4: in an aborted transaction the lock can't be released, and a rollback doesn't release it")
        void abortedTransaction() throws SQLException {
            session.setAutoCommit(false);
            assertThat(tryLock(session, key)).isTrue();
            assertSqlState("22012", () -> execute(session, "SELECT 1 / 0"));
            assertSqlState("25P02", () -> unlock(session, key));
            session.rollback();
            assertThat(LOCK_TABLE.holders(key)).containsExactly(backendPid(session));
        }

        @Test
        @DisplayName("F5, C24: a transaction-level lock lasts one statement in autocommit")
        void transactionLockInAutocommit() throws SQLException {
            assertThat(truth(session, "SELECT pg_try_advisory_xact_lock(?)", key))
                    .isTrue();
            assertThat(LOCK_TABLE.holders(key)).isEmpty();
        }

        @Test
        @DisplayName("F5: a rollback to a savepoint releases transaction-level locks taken after it,"
                + " pg_advisory_unlock none")
        void transactionLockAndSavepoint() throws SQLException {
            session.setAutoCommit(false);
            Savepoint savepoint = session.setSavepoint();
            assertThat(truth(session, "SELECT pg_try_advisory_xact_lock(?)", key))
                    .isTrue();
            assertThat(unlock(session, key)).isFalse();
            assertThat(LOCK_TABLE.holders(key)).containsExactly(backendPid(session));
            session.rollback(savepoint);
            assertThat(LOCK_TABLE.holders(key)).isEmpty();
        }

        @Test
        @DisplayName("F16: pg_advisory_xact_lock returns an empty text to executeQuery and is an error to"
                + " executeUpdate")
        void voidFunction() throws SQLException {
            try (Statement statement = session.createStatement()) {
                assertSqlState("0100E", () -> statement.executeUpdate("SELECT pg_advisory_xact_lock(" + key + ")"));
            }
            assertThat(text(session, "SELECT pg_advisory_xact_lock(?)", key)).isEmpty();
        }

        @Test
        @DisplayName("F14, C01: a pool keeps a locked session and lends it again, unless the connection is evicted")
        void pooled() throws SQLException {
            HikariConfig config = new HikariConfig();
            config.setJdbcUrl(SERVER.url(DATABASE));
            config.setUsername(USER);
            config.setPassword(PASSWORD);
            config.setMaximumPoolSize(1);
            try (HikariDataSource pool = new HikariDataSource(config)) {
                try (Connection borrowed = pool.getConnection()) {
                    assertThat(tryLock(borrowed, key)).isTrue();
                }
                assertThat(LOCK_TABLE.holders(key)).hasSize(1);
                try (Connection borrowed = pool.getConnection()) {
                    assertThat(tryLock(borrowed, key)).isTrue();
                    pool.evictConnection(borrowed);
                }
                LOCK_TABLE.awaitFree(key, Duration.ofSeconds(20));
            }
        }

        @Test
        @DisplayName("DISCARD ALL releases session-level locks and forgets custom settings")
        void discardAll() throws SQLException {
            assertThat(tryLock(session, key)).isTrue();
            execute(session, "SELECT set_config('pgleader.session', 'abc', false)");
            execute(session, "DISCARD ALL");
            assertThat(LOCK_TABLE.holders(key)).isEmpty();
            assertThat(text(session, "SELECT current_setting('pgleader.session', true)"))
                    .isNullOrEmpty();
        }

        @Test
        @DisplayName("F18, C38: killing a client frees its key, pausing it doesn't")
        void killedClient() {
            try (JavaProcess client =
                    JavaProcess.start(Holder.class, SERVER.url(DATABASE, Map.of("user", USER)), Long.toString(key))) {
                client.awaitLine("locked", Duration.ofSeconds(20));
                client.pause();
                await().during(Duration.ofMillis(500))
                        .until(() -> LOCK_TABLE.holders(key).size() == 1);
                client.kill();
                LOCK_TABLE.awaitFree(key, Duration.ofSeconds(20));
            }
        }

        @Test
        @DisplayName("F15, C07: behind a transaction pooler two clients get the same lock, which stays when both"
                + " have left")
        void transactionPooler() throws SQLException {
            assumeTrue(PgBouncer.available(), PgBouncer.MISSING);
            try (PgBouncer pooler = PgBouncer.before(SERVER)
                    .poolMode(PoolMode.TRANSACTION)
                    .poolSize(1)
                    .launch()) {
                String url = pooler.url(DATABASE, Map.of("user", SERVER.superuser()));
                try (Connection first = DriverManager.getConnection(url);
                        Connection second = DriverManager.getConnection(url)) {
                    assertThat(tryLock(first, key)).isTrue();
                    assertThat(tryLock(second, key)).isTrue();
                }
                assertThat(LOCK_TABLE.holders(key)).hasSize(1);
                assertThat(tryLock(session, key)).isFalse();
            }
        }
    }

    @Nested
    class Timeouts {

        @Test
        @DisplayName("F6, C26: idle_session_timeout ends a silent session with 57P05 and frees its lock")
        void idleSession() throws SQLException {
            execute(session, "SET idle_session_timeout = '300ms'");
            assertThat(tryLock(session, key)).isTrue();
            long locked = System.nanoTime();
            LOCK_TABLE.awaitFree(key, Duration.ofSeconds(20));
            assertThat(Duration.ofNanos(System.nanoTime() - locked))
                    .as("the server counts it")
                    .isGreaterThan(Duration.ofMillis(150));
            assertSqlState("57P05", () -> session.unwrap(PGConnection.class).getNotifications(1));
        }

        @Test
        @DisplayName("F6: a session that is checked more often than its idle_session_timeout lives on")
        void checkedSession() throws SQLException {
            execute(session, "SET idle_session_timeout = '3s'");
            execute(other, "SET idle_session_timeout = '3s'");
            int silent = backendPid(other);
            await("the silent session ends")
                    .pollInterval(Duration.ofMillis(100))
                    .until(() -> {
                        assertThat(session.isValid(20)).isTrue();
                        return LOCK_TABLE.session(silent).isEmpty();
                    });
            assertThat(session.isValid(20)).isTrue();
        }

        @Test
        @DisplayName("A notification that reaches an idle session doesn't restart its idle timer")
        void notifiedSession() throws SQLException {
            execute(session, "LISTEN assumptions_idle");
            execute(session, "SET idle_session_timeout = '500ms'");
            int pid = backendPid(session);
            await().pollInterval(Duration.ofMillis(50)).until(() -> {
                execute(other, "NOTIFY assumptions_idle");
                return LOCK_TABLE.session(pid).isEmpty();
            });
            assertSqlState("57P05", () -> session.unwrap(PGConnection.class).getNotifications(1));
        }

        @Test
        @DisplayName("F6, C22: without autocommit a lock leaves the session idle in transaction, to be ended with"
                + " 25P03")
        void idleInTransaction() throws SQLException {
            execute(session, "SET idle_in_transaction_session_timeout = '300ms'");
            session.setAutoCommit(false);
            assertThat(tryLock(session, key)).isTrue();
            assertThat(LOCK_TABLE.session(backendPid(session)))
                    .hasValueSatisfying(row -> assertThat(row.state()).isEqualTo("idle in transaction"));
            LOCK_TABLE.awaitFree(key, Duration.ofSeconds(20));
            // In a transaction the driver doesn't look for messages.
            assertThat(session.unwrap(PGConnection.class).getNotifications(1)).isEmpty();
            assertSqlState("25P03", () -> execute(session, "SELECT 1"));
        }

        @Test
        @DisplayName("F7, X17: lock_timeout ends a blocking wait with 55P03, statement_timeout with 57014")
        void blockingWait() throws SQLException {
            assertThat(tryLock(other, key)).isTrue();
            execute(session, "SET lock_timeout = '50ms'");
            assertSqlState("55P03", () -> execute(session, "SELECT pg_advisory_lock(" + key + ")"));
            execute(session, "SET lock_timeout = 0");
            execute(session, "SET statement_timeout = '50ms'");
            assertSqlState("57014", () -> execute(session, "SELECT pg_advisory_lock(" + key + ")"));
        }

        @Test
        @DisplayName("F7: a try for a lock that is taken doesn't wait, so lock_timeout doesn't touch it")
        void tryDoesNotWait() throws SQLException {
            assertThat(tryLock(other, key)).isTrue();
            execute(session, "SET lock_timeout = '1ms'");
            assertThat(tryLock(session, key)).isFalse();
        }

        @Test
        @DisplayName("current_setting gives a duration in the largest unit that divides it, and zero without unit")
        void textOfDurations() throws SQLException {
            assertThat(idleSessionTimeout("10000")).isEqualTo("10s");
            assertThat(idleSessionTimeout("1500")).isEqualTo("1500ms");
            assertThat(idleSessionTimeout("60000")).isEqualTo("1min");
            assertThat(idleSessionTimeout("90000")).isEqualTo("90s");
            assertThat(idleSessionTimeout("3600000")).isEqualTo("1h");
            assertThat(idleSessionTimeout("0")).isEqualTo("0");
        }

        private String idleSessionTimeout(String milliseconds) throws SQLException {
            execute(session, "SELECT set_config('idle_session_timeout', '" + milliseconds + "', false)");
            return String.valueOf(text(session, "SELECT current_setting('idle_session_timeout')"));
        }

        @Test
        @DisplayName("An ordinary user may set all that the lock session needs, in one statement; TCP timeouts"
                + " read back without a unit")
        void settings() throws SQLException {
            List<String> names = List.of(
                    "application_name",
                    "idle_session_timeout",
                    "tcp_user_timeout",
                    "tcp_keepalives_idle",
                    "tcp_keepalives_interval",
                    "tcp_keepalives_count",
                    "client_connection_check_interval",
                    "statement_timeout",
                    "lock_timeout",
                    "synchronous_commit");
            List<String> values = List.of("pg-leader/a", "10s", "9000", "5", "1", "3", "1s", "0", "0", "off");
            StringBuilder sql = new StringBuilder("SELECT concat_ws('|'");
            names.forEach(name -> sql.append(", set_config('").append(name).append("', ?, false)"));
            String set = text(session, sql.append(")").toString(), values.toArray());
            assertThat(set).isEqualTo(String.join("|", values));
            for (int i = 0; i < names.size(); i++) {
                assertThat(text(session, "SELECT current_setting(?)", names.get(i)))
                        .isEqualTo(values.get(i));
            }
        }
    }

    @Nested
    class Blocking {

        @Test
        @DisplayName("F8, C25: a waiter in pg_advisory_lock and CREATE INDEX CONCURRENTLY by the holder are a deadlock")
        void deadlock() throws Exception {
            try (Connection holder = SERVER.connect(DATABASE);
                    Connection waiter = SERVER.connect(DATABASE)) {
                execute(holder, "CREATE TABLE deadlocked AS SELECT 1 AS number");
                execute(holder, "SET deadlock_timeout = '100ms'");
                execute(waiter, "SET deadlock_timeout = '100ms'");
                assertThat(tryLock(holder, key)).isTrue();
                Future<String> waiting =
                        executor.submit(() -> outcome(() -> execute(waiter, "SELECT pg_advisory_lock(" + key + ")")));
                awaitWaiter(backendPid(waiter));
                String building = outcome(() -> execute(holder, "CREATE INDEX CONCURRENTLY ON deadlocked (number)"));
                assertThat(unlock(holder, key)).isTrue();
                assertThat(List.of(building, waiting.get(20, TimeUnit.SECONDS))).contains("40P01");
            }
        }

        @Test
        @DisplayName("F8: an index is built beside an idle READ COMMITTED transaction without snapshot that has a"
                + " session lock")
        void indexBesideSimpleQuery() throws SQLException {
            try (Connection simple = SERVER.connect(DATABASE, Map.of("preferQueryMode", "simple"))) {
                simple.setAutoCommit(false);
                assertThat(tryLock(simple, key)).isTrue();
                assertThat(LOCK_TABLE.session(backendPid(simple)))
                        .hasValueSatisfying(row -> assertThat(row.backendXmin()).isNull());
                assertThat(outcomeOfIndex("beside_simple")).isEqualTo("done");
            }
        }

        @Test
        @DisplayName("F8: the driver's extended query mode keeps the last query's portal, whose snapshot an index"
                + " waits for")
        void indexBesideExtendedQuery() throws SQLException {
            session.setAutoCommit(false);
            assertThat(tryLock(session, key)).isTrue();
            assertThat(LOCK_TABLE.session(backendPid(session)))
                    .hasValueSatisfying(row -> assertThat(row.backendXmin()).isNotNull());
            assertThat(outcomeOfIndex("beside_extended")).isEqualTo("55P03");
        }

        @Test
        @DisplayName("F8: an index waits for an idle REPEATABLE READ transaction, whatever the query mode")
        void indexBesideRepeatableRead() throws SQLException {
            try (Connection simple = SERVER.connect(DATABASE, Map.of("preferQueryMode", "simple"))) {
                simple.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
                simple.setAutoCommit(false);
                assertThat(tryLock(simple, key)).isTrue();
                assertThat(outcomeOfIndex("beside_repeatable_read")).isEqualTo("55P03");
            }
        }

        private String outcomeOfIndex(String table) throws SQLException {
            try (Connection builder = SERVER.connect(DATABASE)) {
                execute(builder, "CREATE TABLE " + table + " AS SELECT 1 AS number");
                execute(builder, "SET lock_timeout = '700ms'");
                return outcome(() -> execute(builder, "CREATE INDEX CONCURRENTLY ON " + table + " (number)"));
            }
        }

        @Test
        @DisplayName("F13: interrupting a thread that waits in the driver doesn't wake it, closing its connection does")
        void interrupt() throws Exception {
            assertThat(tryLock(other, key)).isTrue();
            CompletableFuture<String> outcome = new CompletableFuture<>();
            Thread waiting = new Thread(
                    () -> outcome.complete(outcome(() -> execute(session, "SELECT pg_advisory_lock(" + key + ")"))));
            waiting.start();
            awaitWaiter(backendPid(session));
            waiting.interrupt();
            assertThatThrownBy(() -> outcome.get(300, TimeUnit.MILLISECONDS)).isInstanceOf(TimeoutException.class);
            session.close();
            assertThat(outcome.get(20, TimeUnit.SECONDS)).isEqualTo("08006");
        }

        @Test
        @DisplayName("F13, X16: the server doesn't notice that a waiter's client is gone, unless told to check")
        void orphanedWaiter() throws Exception {
            assertThat(tryLock(other, key)).isTrue();
            try (Connection checked = connect()) {
                execute(session, "SET client_connection_check_interval = 0");
                execute(checked, "SET client_connection_check_interval = '100ms'");
                int orphan = backendPid(session);
                int checkedOrphan = backendPid(checked);
                List<Future<String>> waiting = new ArrayList<>();
                for (Connection waiter : List.of(session, checked)) {
                    waiting.add(executor.submit(
                            () -> outcome(() -> execute(waiter, "SELECT pg_advisory_lock(" + key + ")"))));
                    awaitWaiter(backendPid(waiter));
                    waiter.abort(Runnable::run);
                }
                for (Future<String> waiter : waiting) {
                    assertThat(waiter.get(20, TimeUnit.SECONDS)).isEqualTo("08006");
                }
                await().until(() -> LOCK_TABLE.session(checkedOrphan).isEmpty());
                assertThat(LOCK_TABLE.advisoryRows()).contains(waitingRow(orphan));
            }
        }

        private AdvisoryRow waitingRow(int pid) {
            return new AdvisoryRow(pid, key >>> 32, key & 0xffff_ffffL, 1, false);
        }

        private void awaitWaiter(int pid) {
            await().until(() -> LOCK_TABLE.advisoryRows().contains(waitingRow(pid)));
        }
    }

    @Nested
    class DeadConnections {

        @Test
        @DisplayName("F12, C13: isClosed() says nothing of a terminated session until something is sent")
        void isClosed() throws SQLException {
            int pid = backendPid(session);
            SERVER.terminateBackend(pid);
            await().until(() -> LOCK_TABLE.session(pid).isEmpty());
            assertThat(session.isClosed()).isFalse();
            assertSqlState("57P01", () -> execute(session, "SELECT 1"));
            assertThat(session.isClosed()).isTrue();
        }

        @Test
        @DisplayName("F11, C09: with a frozen backend isValid(1) is false after a second, and the connection"
                + " closed; the key stays")
        void isValid() throws SQLException {
            assertThat(tryLock(session, key)).isTrue();
            int pid = backendPid(session);
            SERVER.freezeBackend(pid);
            try {
                long start = System.nanoTime();
                assertThat(session.isValid(1)).isFalse();
                assertThat(Duration.ofNanos(System.nanoTime() - start))
                        .isBetween(Duration.ofMillis(900), Duration.ofSeconds(20));
                assertThat(session.isClosed()).isTrue();
                assertThat(LOCK_TABLE.holders(key)).containsExactly(pid);
            } finally {
                SERVER.thawBackend(pid);
            }
            LOCK_TABLE.awaitFree(key, Duration.ofSeconds(20));
        }

        @Test
        @DisplayName("F11, C10: with a frozen backend the network timeout ends a statement in time and closes the"
                + " connection")
        void networkTimeout() throws SQLException {
            int pid = backendPid(session);
            SERVER.freezeBackend(pid);
            try {
                session.setNetworkTimeout(Runnable::run, 300);
                long start = System.nanoTime();
                assertSqlState("08006", () -> execute(session, "SELECT 1"));
                session.close();
                assertThat(Duration.ofNanos(System.nanoTime() - start))
                        .isBetween(Duration.ofMillis(250), Duration.ofSeconds(20));
                assertThat(session.isClosed()).isTrue();
            } finally {
                SERVER.thawBackend(pid);
            }
        }

        @Test
        @DisplayName("F11, C09, C10: with a frozen backend neither isValid(0) nor the query timeout ever ends")
        void endless() throws Exception {
            int pid = backendPid(session);
            int otherPid = backendPid(other);
            SERVER.freezeBackend(pid);
            SERVER.freezeBackend(otherPid);
            try {
                Future<Boolean> valid = executor.submit(() -> session.isValid(0));
                Future<Boolean> queried = executor.submit(() -> {
                    try (Statement statement = other.createStatement()) {
                        statement.setQueryTimeout(1);
                        return statement.execute("SELECT 1");
                    }
                });
                assertThatThrownBy(() -> queried.get(2_500, TimeUnit.MILLISECONDS))
                        .isInstanceOf(TimeoutException.class);
                assertThat(valid.isDone()).isFalse();
            } finally {
                SERVER.thawBackend(pid);
                SERVER.thawBackend(otherPid);
            }
        }
    }

    @Nested
    class Notifications {

        @Test
        @DisplayName("A listener woken by the statement that unlocks and notifies gets the lock at its first try")
        void handOver() throws Exception {
            execute(other, "LISTEN hand_over");
            for (int round = 0; round < 50; round++) {
                assertThat(tryLock(session, key)).isTrue();
                Future<Boolean> taken = executor.submit(() -> {
                    PGNotification[] received = other.unwrap(PGConnection.class).getNotifications(10_000);
                    return received.length == 1 && tryLock(other, key);
                });
                assertThat(text(session, "SELECT pg_advisory_unlock(?), pg_notify('hand_over', '')", key))
                        .isEqualTo("t");
                assertThat(taken.get(20, TimeUnit.SECONDS)).isTrue();
                assertThat(unlock(other, key)).isTrue();
            }
        }
    }

    @Nested
    class WhatAnOrdinaryUserSees {

        @Test
        @DisplayName("C12: the application name of another user's session is visible, its state isn't")
        void applicationName() throws SQLException {
            try (Connection superuser = SERVER.connect(DATABASE)) {
                execute(superuser, "SET application_name = 'pg-leader/somebody'");
                String sql = "SELECT %s FROM pg_stat_activity WHERE pid = " + backendPid(superuser);
                assertThat(text(session, String.format(sql, "application_name")))
                        .isEqualTo("pg-leader/somebody");
                assertThat(text(session, String.format(sql, "state"))).isNull();
            }
        }

        @Test
        @DisplayName("Advisory locks of another user's session are visible")
        void locks() throws SQLException {
            try (Connection superuser = SERVER.connect(DATABASE)) {
                assertThat(tryLock(superuser, key)).isTrue();
                assertThat(text(
                                session,
                                "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid::bigint = ?",
                                key))
                        .isEqualTo(Integer.toString(backendPid(superuser)));
            }
        }

        @Test
        @DisplayName("The start of the server and the name of the current WAL file are visible")
        void server() throws SQLException {
            assertThat(truth(session, "SELECT pg_postmaster_start_time() <= clock_timestamp()"))
                    .isTrue();
            assertThat(text(session, "SELECT pg_walfile_name(pg_current_wal_lsn())"))
                    .matches("[0-9A-F]{24}");
        }

        @Test
        @DisplayName("A custom setting can be read in its own session and is null in any other")
        void customSetting() throws SQLException {
            execute(session, "SELECT set_config('pgleader.session', 'abc', false)");
            String sql = "SELECT current_setting('pgleader.session', true)";
            assertThat(text(session, sql)).isEqualTo("abc");
            assertThat(text(other, sql)).isNull();
        }
    }

    @Nested
    class OtherServers {

        @Test
        @DisplayName("F9, C16: a hot standby grants a key that its primary has granted, and keeps it over its"
                + " promotion")
        void standby() throws SQLException {
            try (PostgresServer primary = PostgresServer.launch();
                    PostgresServer standby = primary.standby();
                    Connection onPrimary = primary.connect();
                    Connection onStandby = standby.connect();
                    LockTable standbyLocks = new LockTable(standby, PostgresServer.DEFAULT_DATABASE)) {
                assertThat(tryLock(onPrimary, key)).isTrue();
                assertThat(tryLock(onStandby, key)).isTrue();
                assertThat(truth(onStandby, "SELECT pg_is_in_recovery()")).isTrue();
                assertThat(truth(onStandby, "SELECT current_setting('transaction_read_only')::boolean"))
                        .isTrue();
                assertSqlState("25006", () -> execute(onStandby, "LISTEN assumptions"));
                assertSqlState("25006", () -> execute(onStandby, "NOTIFY assumptions"));
                assertSqlState("55000", () -> text(onStandby, "SELECT pg_current_wal_lsn()"));

                standby.promote();

                assertThat(truth(onStandby, "SELECT pg_is_in_recovery()")).isFalse();
                assertThat(standbyLocks.holders(key)).containsExactly(backendPid(onStandby));
                assertThat(timeline(onPrimary)).isEqualTo("00000001");
                assertThat(timeline(onStandby)).isEqualTo("00000002");
            }
        }

        private String timeline(Connection connection) throws SQLException {
            return String.valueOf(text(connection, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"));
        }

        @Test
        @DisplayName("F10, C15: a fenced server is read-only to an open session, which is valid and gets locks all"
                + " the same")
        void fenced() throws SQLException {
            try (PostgresServer fenced = PostgresServer.launch();
                    Connection open = fenced.connect()) {
                assertThat(text(open, "SHOW transaction_read_only")).isEqualTo("off");
                fenced.fence();
                await().until(() -> "on".equals(text(open, "SHOW transaction_read_only")));
                assertThat(open.isValid(1)).isTrue();
                assertThat(tryLock(open, key)).isTrue();
            }
        }
    }

    /** Takes a lock and keeps it. */
    static final class Holder {

        public static void main(String[] arguments) throws Exception {
            JavaProcess.exitWithParent();
            Connection connection = DriverManager.getConnection(arguments[0]);
            if (tryLock(connection, Long.parseLong(arguments[1]))) {
                System.out.println("locked");
            }
            new CountDownLatch(1).await();
        }
    }

    @FunctionalInterface
    private interface SqlCondition {
        boolean test() throws SQLException;
    }

    @FunctionalInterface
    private interface SqlAction {
        void run() throws SQLException;
    }

    private static Connection connect() throws SQLException {
        return SERVER.connect(DATABASE, USER, PASSWORD);
    }

    private static void assertSqlState(String expected, ThrowingCallable action) {
        assertThatThrownBy(action)
                .isInstanceOfSatisfying(
                        SQLException.class, e -> assertThat(e.getSQLState()).isEqualTo(expected));
    }

    /** Returns the SQL state of the failure, or {@code done}. */
    private static String outcome(SqlAction action) {
        try {
            action.run();
            return "done";
        } catch (SQLException e) {
            return String.valueOf(e.getSQLState());
        }
    }
}
