package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.jdbc.PgConnection;

class HeldLockTest {

    private static final LockKey KEY = LockKey.named("session-lock-test");

    @AutoClose
    private static final PostgresServer SERVER = PostgresServer.launch();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    /** The server may take a moment to see that a connection of the last test was cut. */
    @BeforeEach
    void awaitFreeKey() {
        await().until(() -> LOCKS.isFree(KEY));
    }

    @DisplayName("C01, C24: the work's own session holds the key to its end and no longer, with the pool open")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void keyIsHeldForTheWholeWorkAndNoLonger(boolean autoCommit) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1, config -> config.setAutoCommit(autoCommit))) {
            LockOutcome<Integer> outcome = AdvisoryLocks.on(pool).tryRunLocked(KEY, connection -> {
                int pid = Sql.backendPid(connection);
                assertThat(LOCKS.holders(KEY)).containsExactly(pid);
                assertThat(LOCKS.isFree(KEY)).isFalse();
                Sql.execute(connection, "create temp table scratch (n int)");
                assertThat(LOCKS.isFree(KEY)).isFalse();
                return pid;
            });

            assertThat(LOCKS.holders(KEY)).isEmpty();
            assertThat(LOCKS.isFree(KEY)).isTrue();
            try (Connection again = pool.getConnection()) {
                assertThat(Sql.backendPid(again)).isEqualTo(outcome.value());
                assertThat(again.getAutoCommit()).isEqualTo(autoCommit);
            }
        }
    }

    @DisplayName("F6: the session is plain idle while the work does something else, whatever the pool's defaults")
    @Test
    void sessionIsIdleDuringTheWork() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1, config -> {
            config.setAutoCommit(false);
            config.setTransactionIsolation("TRANSACTION_REPEATABLE_READ");
        })) {
            try (HeldLock lock = AdvisoryLocks.on(pool).acquire(KEY, Duration.ZERO)) {
                assertThat(lock.isHeld()).isTrue();
                assertThat(LOCKS.session(lock.backendPid()).orElseThrow().isPlainIdle())
                        .isTrue();
            }
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "bigint:0",
                "bigint:-1",
                "bigint:9223372036854775807",
                "bigint:-9223372036854775808",
                "bigint:4294967298",
                "int4:1,2",
                "int4:-1,-1",
                "int4:0,-1",
                "int4:2147483647,-2147483648",
                "int4:-2147483648,2147483647"
            })
    @DisplayName("F2, F16: each key of either space is the lock that the server shows for it")
    void everyKeyCanBeLocked(String text) throws Exception {
        LockKey key = LockKey.parse(text);
        AdvisoryLocks locks = AdvisoryLocks.on(SERVER.dataSource());

        try (HeldLock lock = locks.acquire(key, Duration.ZERO)) {
            assertThat(lock.isHeld()).isTrue();
            assertThat(LOCKS.holders(key)).containsExactly(lock.backendPid());
            assertThat(LOCKS.isFree(key)).isFalse();
        }
        assertThat(LOCKS.isFree(key)).isTrue();
        assertThat(locks.tryRunInTransaction(
                                key, connection -> LOCKS.holders(key).equals(List.of(Sql.backendPid(connection))))
                        .value())
                .isTrue();
        assertThat(LOCKS.isFree(key)).isTrue();
    }

    @Test
    void pairAndNumberOfTheSameBitsAreTwoLocks() throws Exception {
        AdvisoryLocks locks = AdvisoryLocks.on(SERVER.dataSource());

        try (HeldLock pair = locks.acquire(LockKey.of(1, 2), Duration.ZERO);
                HeldLock number = locks.acquire(LockKey.of(4294967298L), Duration.ZERO)) {
            assertThat(pair.isHeld()).isTrue();
            assertThat(number.isHeld()).isTrue();
        }
    }

    @Test
    void workIsSkippedOnlyWhileTheKeyIsTaken() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(pool);
            try (HeldLock other = AdvisoryLocks.on(SERVER.dataSource()).acquire(KEY, Duration.ZERO)) {
                LockOutcome<String> skipped = locks.tryRunLocked(KEY, connection -> "ran");

                assertThat(skipped.wasSkipped()).isTrue();
                assertThat(locks.tryAcquire(KEY)).isEmpty();
                assertThat(other.isHeld()).isTrue();
            }
            assertThat(locks.tryRunLocked(KEY, connection -> "ran").value()).isEqualTo("ran");
        }
    }

    @Test
    @SuppressWarnings("NullAway") // Outside its JSpecify mode it takes the result of a lambda for never null.
    void workThatReturnsNullIsNotSkipped() throws Exception {
        LockOutcome<@Nullable String> outcome =
                AdvisoryLocks.on(SERVER.dataSource()).tryRunLocked(KEY, connection -> null);

        assertThat(outcome.wasRun()).isTrue();
        assertThat(outcome.value()).isNull();
    }

    @DisplayName("C02: 20 threads on 20 keys, whatever the work does: its session has the lock, and nothing is left")
    @Test
    void nothingIsLeftWhateverTheWorkDoes() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 5)) {
            AdvisoryLocks locks = AdvisoryLocks.on(pool);
            ExecutorService threads = Executors.newFixedThreadPool(20);
            List<Future<?>> results = new ArrayList<>();
            for (int thread = 0; thread < 20; thread++) {
                LockKey key = LockKey.of(2, thread);
                results.add(threads.submit(() -> {
                    for (int round = 0; round < 5; round++) {
                        runEachKindOfWork(locks, key);
                    }
                    return true;
                }));
            }
            for (Future<?> result : results) {
                result.get(60, TimeUnit.SECONDS);
            }
            threads.shutdown();

            assertThat(LOCKS.advisoryRows()).isEmpty();
        }
    }

    private static void runEachKindOfWork(AdvisoryLocks locks, LockKey key) throws Exception {
        try (HeldLock lock = locks.acquire(key, Duration.ZERO)) {
            assertThat(Sql.backendPid(lock.connection())).isEqualTo(lock.backendPid());
            assertThat(LOCKS.holders(key)).containsExactly(lock.backendPid());
        }
        for (Throwable thrown : List.of(new IllegalStateException("work"), new AssertionError("work"))) {
            assertThatThrownBy(() -> locks.tryRunLocked(key, connection -> {
                        assertThat(LOCKS.holders(key)).containsExactly(Sql.backendPid(connection));
                        return sneak(thrown);
                    }))
                    .isSameAs(thrown)
                    .hasNoSuppressedExceptions();
            assertThat(LOCKS.holders(key)).isEmpty();
        }
        assertThat(locks.tryRunLocked(key, connection -> {
                            Thread.currentThread().interrupt();
                            return Sql.backendPid(connection);
                        })
                        .wasRun())
                .isTrue();
        assertThat(Thread.interrupted()).isTrue();
        assertThat(LOCKS.holders(key)).isEmpty();
    }

    @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
    private static <X extends Throwable> Void sneak(Throwable thrown) throws X {
        throw (X) thrown;
    }

    @DisplayName("C01: a session that ended under the work is reported, and never handed out again")
    @ParameterizedTest
    @ValueSource(ints = {1, 5})
    void endedSessionIsReportedAndNeverReused(int poolSize) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, poolSize)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunLocked(KEY, connection -> {
                        pid.set(Sql.backendPid(connection));
                        SERVER.endBackend(pid.get());
                        return true;
                    }))
                    .satisfies(lost -> {
                        assertThat(lost.backendPid()).isEqualTo(pid.get());
                        assertThat(lost.key()).isEqualTo(KEY);
                    })
                    .withMessageContaining("session-lock-test")
                    .withMessageContaining(String.valueOf(pid.get()))
                    .withCauseInstanceOf(SQLException.class);

            assertThat(LOCKS.isFree(KEY)).isTrue();
            TestDataSources.assertNeverHandedOut(LOCKS, pool, pid.get());
        }
    }

    @DisplayName("C02: the work's own failure is what the caller sees; the lost lock is suppressed in it")
    @Test
    void failureOfTheWorkComesFirst() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            Exception failure = new Exception("the work's own");

            assertThatThrownBy(() -> AdvisoryLocks.on(pool).runLocked(KEY, Duration.ZERO, connection -> {
                        SERVER.endBackend(Sql.backendPid(connection));
                        throw failure;
                    }))
                    .isSameAs(failure)
                    .satisfies(seen ->
                            assertThat(seen.getSuppressed()).singleElement().isInstanceOf(LockLostException.class));
        }
    }

    @DisplayName("F4: a transaction that the work leaves aborted is rolled back, and the lock is freed")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void abortedTransactionIsRolledBack(boolean bySql) throws Exception {
        SERVER.execute("drop table if exists left_over; create table left_over (n int)");
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AtomicInteger pid = new AtomicInteger();
            assertThatThrownBy(() -> AdvisoryLocks.on(pool).tryRunLocked(KEY, connection -> {
                        pid.set(Sql.backendPid(connection));
                        begin(connection, bySql);
                        Sql.execute(connection, "insert into left_over values (1)");
                        Sql.execute(connection, "select 1 / 0");
                        return true;
                    }))
                    .isInstanceOf(SQLException.class)
                    .hasNoSuppressedExceptions()
                    .extracting(failure -> ((SQLException) failure).getSQLState())
                    .isEqualTo("22012");

            assertGivenBackClean(pool, pid.get());
        }
    }

    @DisplayName("A transaction that the work leaves open is rolled back, and the lock is freed")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void openTransactionIsRolledBack(boolean bySql) throws Exception {
        SERVER.execute("drop table if exists left_over; create table left_over (n int)");
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            int pid = AdvisoryLocks.on(pool)
                    .tryRunLocked(KEY, connection -> {
                        begin(connection, bySql);
                        Sql.execute(connection, "insert into left_over values (1)");
                        return Sql.backendPid(connection);
                    })
                    .value();

            assertGivenBackClean(pool, pid);
        }
    }

    private static void begin(Connection connection, boolean bySql) throws SQLException {
        if (bySql) {
            Sql.execute(connection, "begin");
        } else {
            connection.setAutoCommit(false);
        }
    }

    private static void assertGivenBackClean(DataSource pool, int pid) throws SQLException {
        assertThat(SERVER.query("select count(*) from left_over")).containsExactly("0");
        assertThat(LOCKS.holders(KEY)).isEmpty();
        assertThat(LOCKS.session(pid).orElseThrow().state()).isEqualTo("idle");
        try (Connection again = pool.getConnection()) {
            assertThat(Sql.backendPid(again)).isEqualTo(pid);
            assertThat(again.getAutoCommit()).isTrue();
        }
    }

    @DisplayName("C26, F3: an unlock that finds no lock is reported, never taken for success")
    @ParameterizedTest
    @ValueSource(strings = {"select pg_advisory_unlock_all()", "discard all"})
    void lockThatWasGoneIsReported(String sql) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunLocked(KEY, connection -> {
                        pid.set(Sql.backendPid(connection));
                        Sql.execute(connection, sql);
                        return true;
                    }))
                    .withMessageContaining("did not hold it any more")
                    .withNoCause();

            TestDataSources.assertNeverHandedOut(LOCKS, pool, pid.get());
        }
    }

    @DisplayName("F3: a key that the work took once more, in either mode, does not stay behind in the pool")
    @ParameterizedTest
    @ValueSource(strings = {"pg_advisory_lock", "pg_advisory_lock_shared"})
    void stackedLockIsNotLeftInThePool(String function) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            int pid = AdvisoryLocks.on(pool)
                    .tryRunLocked(KEY, connection -> {
                        Sql.execute(connection, "select " + function + "(" + KEY.bits() + ")");
                        return Sql.backendPid(connection);
                    })
                    .value();

            await().until(() -> LOCKS.isFree(KEY));
            TestDataSources.assertNeverHandedOut(LOCKS, pool, pid);
        }
    }

    @DisplayName("C07, X11, F14: a session that has the key already is refused and ended")
    @Test
    void sessionThatHoldsTheKeyAlreadyIsRefused() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            int pid;
            try (Connection careless = pool.getConnection()) {
                Sql.execute(careless, "select pg_advisory_lock(" + KEY.bits() + ")");
                pid = Sql.backendPid(careless);
            }
            AdvisoryLocks locks = AdvisoryLocks.on(pool);

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> locks.tryAcquire(KEY))
                    .withMessageContaining("already held")
                    .withMessageContaining(String.valueOf(pid))
                    .withMessageContaining("pooler");

            await().until(() -> LOCKS.isFree(KEY));
            assertThat(locks.tryRunLocked(KEY, Sql::backendPid).value()).isNotEqualTo(pid);
        }
    }

    @DisplayName("C07, F15: an unlock that another backend answers is reported")
    @Test
    void unlockOnAnotherBackendIsReported() throws Exception {
        try (Connection first = SERVER.dataSource().getConnection();
                Connection second = SERVER.dataSource().getConnection()) {
            AtomicReference<Connection> current = new AtomicReference<>(first);
            int pid = Sql.backendPid(second);

            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(TestDataSources.careless(current::get))
                            .tryRunLocked(KEY, connection -> {
                                current.set(second);
                                return true;
                            }))
                    .withMessageContaining("backend " + pid + " answers");
            // The one whose session has the lock.
            assertThat(first.isClosed()).isTrue();
        }
    }

    @DisplayName("A pool that ends the session after an error of the work (here 0A000) is reported, the lock free")
    @Test
    void connectionThatThePoolTookAwayIsReported() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunLocked(KEY, connection -> {
                        assertThat(catchThrowable(() -> Sql.execute(
                                        connection, "do $$ begin raise exception using errcode = '0A000'; end $$")))
                                .isInstanceOf(SQLException.class);
                        return true;
                    }));

            await().until(() -> LOCKS.isFree(KEY));
        }
    }

    @Test
    void connectionWithAnOpenTransactionIsRefusedAndLeftAlone() throws Exception {
        try (Connection ofAnotherTransaction = SERVER.dataSource().getConnection()) {
            ofAnotherTransaction.setAutoCommit(false);
            Sql.execute(ofAnotherTransaction, "create temp table uncommitted (n int)");

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(TestDataSources.careless(() -> ofAnotherTransaction))
                            .tryAcquire(KEY))
                    .withMessageContaining("open transaction");

            Sql.execute(ofAnotherTransaction, "insert into uncommitted values (1)");
            ofAnotherTransaction.rollback();
        }
    }

    @DisplayName("X17: the settings that the work changed are back to what they were")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void settingsArePutBack(boolean autoCommit) throws Exception {
        try (Connection connection = SERVER.dataSource().getConnection()) {
            connection.setNetworkTimeout(Runnable::run, 12_345);
            connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            connection.setReadOnly(!autoCommit);
            connection.setAutoCommit(autoCommit);
            AdvisoryLocks locks = AdvisoryLocks.on(TestDataSources.careless(() -> connection));

            int networkTimeoutMillis = locks.tryRunLocked(KEY, pinned -> {
                        int duringTheWork = pinned.getNetworkTimeout();
                        pinned.setNetworkTimeout(Runnable::run, 54_321);
                        pinned.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                        pinned.setReadOnly(autoCommit);
                        pinned.setAutoCommit(!autoCommit);
                        return duringTheWork;
                    })
                    .value();

            assertThat(networkTimeoutMillis).isEqualTo(12_345);
            assertThat(connection.getNetworkTimeout()).isEqualTo(12_345);
            assertThat(connection.getAutoCommit()).isEqualTo(autoCommit);
            assertThat(connection.isReadOnly()).isEqualTo(!autoCommit);
            assertThat(connection.getTransactionIsolation()).isEqualTo(Connection.TRANSACTION_REPEATABLE_READ);
        }
    }

    @Test
    void closeFreesTheLockOnceWhoeverCallsIt() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(pool);
            ExecutorService threads = Executors.newFixedThreadPool(2);
            for (int round = 0; round < 50; round++) {
                HeldLock lock = locks.acquire(KEY, Duration.ZERO);
                CyclicBarrier together = new CyclicBarrier(2);
                List<Future<?>> closers = new ArrayList<>();
                for (int closer = 0; closer < 2; closer++) {
                    closers.add(threads.submit(() -> {
                        together.await();
                        lock.close();
                        return true;
                    }));
                }
                for (Future<?> closer : closers) {
                    closer.get(10, TimeUnit.SECONDS);
                }
                assertThat(lock.isHeld()).isFalse();
                assertThat(LOCKS.holders(KEY)).isEmpty();
            }
            threads.shutdown();
        }
    }

    @Test
    void lateCloseDoesNotTouchTheNextLock() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(pool);
            HeldLock first = locks.acquire(KEY, Duration.ZERO);
            first.close();
            try (HeldLock second = locks.acquire(KEY, Duration.ZERO)) {
                first.close();

                assertThat(first.isHeld()).isFalse();
                assertThat(second.isHeld()).isTrue();
                assertThat(second.backendPid()).isEqualTo(first.backendPid());
            }
        }
    }

    @Test
    void isHeldAsksTheDatabase() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            HeldLock lock = AdvisoryLocks.on(pool).acquire(KEY, Duration.ZERO);
            assertThat(lock.isHeld()).isTrue();

            Sql.execute(lock.connection(), "select pg_advisory_unlock_all()");
            assertThat(lock.isHeld()).isFalse();

            assertThatExceptionOfType(LockLostException.class).isThrownBy(lock::close);
            lock.close();
        }
    }

    @DisplayName("F12: isHeld is false once the session has ended")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void isHeldIsFalseOnceTheSessionHasEnded(boolean pooled) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            HeldLock lock =
                    AdvisoryLocks.on(pooled ? pool : SERVER.dataSource()).acquire(KEY, Duration.ZERO);
            SERVER.endBackend(lock.backendPid());

            assertThat(lock.isHeld()).isFalse();
            assertThat(lock.isHeld()).isFalse();
            assertThatExceptionOfType(LockLostException.class).isThrownBy(lock::close);
        }
    }

    @DisplayName("F4: isHeld gives no answer in an aborted transaction, and a right one after its end")
    @Test
    void isHeldGivesNoAnswerInAnAbortedTransaction() throws Exception {
        try (HeldLock lock = AdvisoryLocks.on(SERVER.dataSource()).acquire(KEY, Duration.ZERO)) {
            lock.connection().setAutoCommit(false);
            assertThatThrownBy(() -> Sql.execute(lock.connection(), "select 1 / 0"))
                    .isInstanceOf(SQLException.class);

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(lock::isHeld)
                    .extracting(SQLException::getSQLState)
                    .isEqualTo("25P02");

            lock.connection().rollback();
            assertThat(lock.isHeld()).isTrue();
            assertThat(lock.connection().getNetworkTimeout()).isZero();
        }
    }

    @Test
    void connectionRefusesOnlyWhatWouldEndTheLock() throws Exception {
        try (HeldLock lock = AdvisoryLocks.on(SERVER.dataSource()).acquire(KEY, Duration.ZERO)) {
            Connection connection = lock.connection();

            assertThatThrownBy(connection::close)
                    .isInstanceOf(SQLException.class)
                    .hasMessageContaining("close is refused")
                    .hasMessageContaining("session-lock-test");
            assertThatThrownBy(() -> connection.abort(Runnable::run))
                    .isInstanceOf(SQLException.class)
                    .hasMessageContaining("abort is refused");

            connection.setAutoCommit(false);
            Sql.execute(connection, "create temp table kept (n int)");
            Savepoint savepoint = connection.setSavepoint();
            connection.rollback(savepoint);
            connection.commit();
            assertThat(Sql.column(connection, "select count(*) from kept")).containsExactly("0");
            connection.rollback();
            assertThat(connection.unwrap(PgConnection.class).getBackendPID()).isEqualTo(lock.backendPid());
            assertThat(List.of(connection)).contains(connection);
            assertThat(connection).isNotEqualTo(lock.connection().unwrap(PgConnection.class));
            assertThat(connection.isClosed()).isFalse();
            assertThat(lock.isHeld()).isTrue();
            assertThat(lock.key()).isEqualTo(KEY);
            assertThat(lock)
                    .hasToString("session lock " + KEY + " (\"session-lock-test\") of backend " + lock.backendPid());
        }
    }

    @Test
    void failureOfAStatementReachesTheWorkAsItIs() throws Exception {
        try (HeldLock lock = AdvisoryLocks.on(SERVER.dataSource()).acquire(KEY, Duration.ZERO)) {
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(
                            () -> lock.connection().prepareStatement("select 1").executeUpdate());
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> lock.connection().createArrayOf("no_such_type", new Object[0]));
        }
    }

    @DisplayName("A work's search_path can't put other functions in the place of the server's")
    @Test
    void searchPathDoesNotMatter() throws Exception {
        SERVER.execute("create schema if not exists fake; create or replace function fake.pg_advisory_unlock(bigint)"
                + " returns boolean language sql as 'select true'");
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            int pid = AdvisoryLocks.on(pool)
                    .tryRunLocked(KEY, connection -> {
                        Sql.execute(connection, "set search_path = fake, pg_catalog");
                        return Sql.backendPid(connection);
                    })
                    .value();

            await().until(() -> LOCKS.holders(KEY).isEmpty());
            TestDataSources.assertNeverHandedOut(LOCKS, pool, pid);
        }
    }

    @DisplayName("X24: an answer without a row or without a value is an error, never \"false\"")
    @Test
    void missingAnswerIsAnError() throws Exception {
        String columns =
                "select 1 as backend_pid, %s as held, true as done, true as shown, 0 as belongings, 'x' as default_isolation";
        try (Connection connection = SERVER.dataSource().getConnection()) {
            for (String sql : List.of(
                    columns.formatted("false") + " where false",
                    columns.formatted("null::boolean"),
                    columns.formatted("false").replace("'x'", "null"),
                    columns.formatted("false").replace("1 as", "null::int as"))) {
                try (var statement = connection.prepareStatement(sql);
                        var row = statement.executeQuery()) {
                    assertThatExceptionOfType(SQLException.class)
                            .as(sql)
                            .isThrownBy(() -> SessionAnswer.read(row))
                            .withMessageContaining("answer about an advisory lock has no");
                }
            }
        }
    }

    @DisplayName("A caller has to handle only what the work throws, besides the helper's own exceptions")
    @Test
    void compilerInfersWhatTheWorkThrows() throws SQLException {
        AdvisoryLocks locks = AdvisoryLocks.on(SERVER.dataSource());

        LockOutcome<Integer> withoutException = locks.tryRunLocked(KEY, connection -> 1);
        LockOutcome<Integer> withSqlException = locks.tryRunInTransaction(KEY, Sql::backendPid);
        Optional<HeldLock> lock = locks.tryAcquire(KEY);
        lock.orElseThrow().close();

        assertThat(withoutException).isEqualTo(LockOutcome.ran(1));
        assertThat(withSqlException.wasRun()).isTrue();
    }
}
