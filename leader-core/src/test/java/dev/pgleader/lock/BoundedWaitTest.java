package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BoundedWaitTest {

    private static final LockKey KEY = LockKey.named("bounded-wait-test");
    private static final Duration LONG_WAIT = Duration.ofSeconds(30);

    @AutoClose
    private static final PostgresServer SERVER =
            PostgresServer.builder().setting("max_prepared_transactions", "2").launch();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    /** The server may take a moment to see that a connection of the last test was cut. */
    @BeforeEach
    void awaitFreeKey() {
        await().until(() -> LOCKS.isFree(KEY));
    }

    @DisplayName("X17: a wait ends on time, names key and holder, and leaves the session as it was")
    @ParameterizedTest
    @ValueSource(longs = {0, 1, 10, 100, 1_500})
    void waitEndsOnTimeAndNamesTheHolder(long maxWaitMillis) throws Exception {
        Duration maxWait = Duration.ofMillis(maxWaitMillis);
        // What is left after getting a connection is waited in whole milliseconds.
        Duration atLeast = Duration.ofMillis(Math.max(0, maxWaitMillis - 1));
        Duration atMost = maxWait.plusSeconds(20);
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1);
                HeldLock holder = holder()) {
            Sql.execute(holder.connection(), "set application_name = 'the holder'");
            int pid = pidOf(pool);
            List<String> settings = settings(pool);

            for (boolean inTransaction : new boolean[] {false, true}) {
                long startNanos = System.nanoTime();
                assertThatExceptionOfType(LockTimeoutException.class)
                        .isThrownBy(() -> run(AdvisoryLocks.on(pool), maxWait, inTransaction))
                        .withMessageContaining("bounded-wait-test")
                        .withMessageContaining(KEY.toString())
                        .withMessageContaining("backend " + holder.backendPid())
                        .withMessageContaining("\"the holder\"")
                        .satisfies(timeout -> {
                            assertThat(timeout.key()).isEqualTo(KEY);
                            assertThat(timeout.holderPid()).hasValue(holder.backendPid());
                            assertThat(timeout.holderApplicationName()).contains("the holder");
                            assertThat(timeout.waited()).isBetween(atLeast, atMost);
                            assertThat(timeout.getSQLState()).isEqualTo("55P03");
                        });
                assertThat(Duration.ofNanos(System.nanoTime() - startNanos)).isBetween(atLeast, atMost);
            }

            assertThat(pidOf(pool)).isEqualTo(pid);
            assertThat(settings(pool)).isEqualTo(settings);
            assertThat(LOCKS.holders(KEY)).containsExactly(holder.backendPid());
        }
    }

    @DisplayName("N20, X17: a holder without a process, as after PREPARE TRANSACTION, is told as what it is")
    @Test
    void preparedTransactionIsNamedAsTheHolder() throws Exception {
        SERVER.execute("begin; select pg_advisory_xact_lock(" + KEY.bits() + "); prepare transaction 'holder'");
        try {
            assertThatExceptionOfType(LockTimeoutException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(SERVER.dataSource()).acquire(KEY, Duration.ZERO))
                    .withMessageContaining("held by the prepared transaction \"holder\"")
                    .withMessageContaining("ROLLBACK PREPARED")
                    .satisfies(timeout -> {
                        assertThat(timeout.holderPid()).isEmpty();
                        assertThat(timeout.holderApplicationName()).isEmpty();
                    });
        } finally {
            SERVER.execute("rollback prepared 'holder'");
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void waiterGetsTheKeyOnceItIsFree(boolean inTransaction) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            int pid = pidOf(pool);
            FutureTask<Integer> waiter;
            try (HeldLock holder = holder()) {
                waiter = start(() -> run(AdvisoryLocks.on(pool), LONG_WAIT, inTransaction));
                awaitTries(pid, 2);
                assertThat(waiter.isDone()).isFalse();
                assertThat(holder.isHeld()).isTrue();
            }

            assertThat(waiter.get(20, TimeUnit.SECONDS)).isEqualTo(pid);
            assertThat(LOCKS.isFree(KEY)).isTrue();
        }
    }

    @Test
    void interruptEndsTheWaitAtOnceAndLeavesNothing() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            int pid = pidOf(pool);
            for (boolean inTransaction : new boolean[] {false, true}) {
                try (HeldLock holder = holder()) {
                    FutureTask<Boolean> flagAfterwards = new FutureTask<>(() -> {
                        assertThatExceptionOfType(InterruptedException.class)
                                .isThrownBy(() -> run(AdvisoryLocks.on(pool), LONG_WAIT, inTransaction));
                        return Thread.currentThread().isInterrupted();
                    });
                    Thread thread = new Thread(flagAfterwards);
                    thread.start();
                    awaitTries(pid, 2);

                    thread.interrupt();

                    assertThat(flagAfterwards.get(20, TimeUnit.SECONDS)).isFalse();
                    assertThat(holder.isHeld()).isTrue();
                }
                assertThat(LOCKS.isFree(KEY)).isTrue();
                assertThat(pidOf(pool)).isEqualTo(pid);
            }
        }
    }

    @Test
    void interruptBeforeTheWaitIsHonoured() {
        AdvisoryLocks locks = AdvisoryLocks.on(SERVER.dataSource());

        Thread.currentThread().interrupt();
        assertThatExceptionOfType(InterruptedException.class).isThrownBy(() -> locks.acquire(KEY, Duration.ZERO));

        assertThat(Thread.currentThread().isInterrupted()).isFalse();
    }

    @Test
    void failedTryEndsTheWait() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1);
                HeldLock holder = holder()) {
            int pid = pidOf(pool);
            FutureTask<Integer> waiter = start(() -> run(AdvisoryLocks.on(pool), LONG_WAIT, false));
            awaitTries(pid, 1);

            SERVER.endBackend(pid);

            assertThatExceptionOfType(ExecutionException.class)
                    .isThrownBy(() -> waiter.get(20, TimeUnit.SECONDS))
                    .havingCause()
                    .isInstanceOf(SQLException.class)
                    .isNotInstanceOf(LockTimeoutException.class);
            assertThat(holder.isHeld()).isTrue();
            assertThat(pidOf(pool)).isNotEqualTo(pid);
        }
    }

    @DisplayName("C22, F6: between two tries the waiting session is idle, without transaction and snapshot")
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void waitingSessionIsPlainIdle(boolean inTransaction) throws Exception {
        try (HikariDataSource pool =
                TestDataSources.hikari(SERVER, 1, BoundedWaitTest::repeatableReadWithoutAutoCommit)) {
            int pid = pidOf(pool);
            FutureTask<Integer> waiter;
            try (HeldLock holder = holder()) {
                waiter = start(() -> run(AdvisoryLocks.on(pool), LONG_WAIT, inTransaction));
                for (int tries = 1; tries <= 5; tries++) {
                    awaitTries(pid, 1);
                    await().pollInterval(Duration.ofMillis(1))
                            .until(() -> LOCKS.session(pid).orElseThrow().isPlainIdle());
                }
                assertThat(holder.isHeld()).isTrue();
            }
            assertThat(waiter.get(20, TimeUnit.SECONDS)).isEqualTo(pid);
        }
    }

    @DisplayName("C25, F8: waiters don't hold up CREATE INDEX CONCURRENTLY, by the holder or by others")
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void waitersDoNotHoldUpAnIndexBuild(boolean repeatableReadWithoutAutoCommit) throws Exception {
        SERVER.execute("drop table if exists indexed; create table indexed as select generate_series(1, 1000) as n");
        Consumer<HikariConfig> configuration =
                repeatableReadWithoutAutoCommit ? BoundedWaitTest::repeatableReadWithoutAutoCommit : config -> {};
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 5, configuration)) {
            AdvisoryLocks locks = AdvisoryLocks.on(pool);
            List<FutureTask<Integer>> waiters = new ArrayList<>();

            locks.runLocked(KEY, Duration.ZERO, connection -> {
                for (int waiter = 0; waiter < 4; waiter++) {
                    boolean inTransaction = waiter % 2 == 0;
                    waiters.add(start(() -> run(locks, LONG_WAIT, inTransaction)));
                }
                await().until(() -> pool.getHikariPoolMXBean().getActiveConnections() == 5);
                assertEndsAtOnce(() -> Sql.execute(connection, "create index concurrently by_holder on indexed (n)"));
                try (Connection outside = SERVER.dataSource().getConnection()) {
                    assertEndsAtOnce(() -> Sql.execute(outside, "create index concurrently by_others on indexed (n)"));
                }
                assertThat(waiters).noneMatch(Future::isDone);
                return true;
            });

            for (FutureTask<Integer> waiter : waiters) {
                assertThat(waiter.get(20, TimeUnit.SECONDS)).isPositive();
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"PT-0.001S", "PT-1H", "PT720H0.001S", "PT2562047788015215H"})
    void unreasonableWaitIsRefused(String maxWait) {
        AdvisoryLocks locks = AdvisoryLocks.on(SERVER.dataSource());

        assertThatIllegalArgumentException()
                .isThrownBy(() -> locks.acquire(KEY, Duration.parse(maxWait)))
                .withMessageContaining("maxWait")
                .withMessageContaining(Duration.parse(maxWait).toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"PT0S", "PT-5S", "PT0.009S", "PT1H0.001S", "PT2562047788015215H"})
    void unreasonableNetworkTimeoutIsRefused(String networkTimeout) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> AdvisoryLocks.on(SERVER.dataSource(), Duration.parse(networkTimeout)))
                .withMessageContaining("networkTimeout")
                .withMessageContaining(Duration.parse(networkTimeout).toString());
    }

    private static HeldLock holder() throws Exception {
        return AdvisoryLocks.on(SERVER.dataSource()).acquire(KEY, Duration.ZERO);
    }

    private static int run(AdvisoryLocks locks, Duration maxWait, boolean inTransaction) throws Exception {
        return inTransaction
                ? locks.runInTransaction(KEY, maxWait, Sql::backendPid)
                : locks.runLocked(KEY, maxWait, Sql::backendPid);
    }

    /** Waits until this backend has been seen polling that many times. */
    private static void awaitTries(int pid, int tries) {
        Set<String> seen = new HashSet<>();
        await().pollInterval(Duration.ofMillis(5)).until(() -> {
            seen.addAll(SERVER.query("select query_start from pg_stat_activity where pid = " + pid
                    + " and query ~ 'pg_try_advisory|ROLLBACK'"));
            return seen.size() >= tries;
        });
    }

    private static void repeatableReadWithoutAutoCommit(HikariConfig config) {
        config.setAutoCommit(false);
        config.setTransactionIsolation("TRANSACTION_REPEATABLE_READ");
    }

    private static FutureTask<Integer> start(Callable<Integer> waiter) {
        FutureTask<Integer> task = new FutureTask<>(waiter);
        new Thread(task).start();
        return task;
    }

    private static int pidOf(HikariDataSource pool) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            return Sql.backendPid(connection);
        }
    }

    private static List<String> settings(HikariDataSource pool) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            List<String> settings =
                    Sql.column(connection, "select name || '=' || setting from pg_settings order by name");
            settings.add(connection.getAutoCommit() + " " + connection.getNetworkTimeout());
            return settings;
        }
    }

    private static void assertEndsAtOnce(SqlAction action) throws SQLException {
        long startNanos = System.nanoTime();
        action.run();
        assertThat(Duration.ofNanos(System.nanoTime() - startNanos)).isLessThan(LONG_WAIT.dividedBy(2));
    }

    private interface SqlAction {
        void run() throws SQLException;
    }
}
