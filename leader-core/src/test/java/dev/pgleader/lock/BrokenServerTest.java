package dev.pgleader.lock;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.PostgresServer.FrozenBackend;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.ds.PGSimpleDataSource;

/** Servers that don't answer, answer with a failure, or serve a client that died. */
@Timeout(value = 300, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BrokenServerTest {

    private static final LockKey KEY = LockKey.named("broken-server-test");
    private static final Duration NETWORK_TIMEOUT = Duration.ofMillis(700);

    @AutoClose
    private static final PostgresServer SERVER = PostgresServer.builder()
            .setting("max_connections", "60")
            .setting("max_locks_per_transaction", "10")
            .launch();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    /** The server may take a moment to see that a connection of the last test was cut. */
    @BeforeEach
    void awaitFreeKey() {
        await().until(() -> LOCKS.isFree(KEY));
    }

    @DisplayName("C10, F11: a try on a frozen server ends within the network timeout, and its connection with it")
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void tryOnFrozenServerIsBounded(boolean inTransaction) throws Exception {
        try (Connection connection = SERVER.dataSource().getConnection()) {
            AdvisoryLocks locks = AdvisoryLocks.on(TestDataSources.careless(() -> connection), NETWORK_TIMEOUT);
            try (FrozenBackend frozen = SERVER.freezeBackend(Sql.backendPid(connection))) {
                assertThatExceptionOfType(SQLException.class).isThrownBy(() -> {
                    if (inTransaction) {
                        locks.tryRunInTransaction(KEY, pinned -> true);
                    } else {
                        locks.tryAcquire(KEY);
                    }
                });
                assertEndedInTime(frozen);
            }
            assertThat(connection.isClosed()).isTrue();
            await().until(() -> LOCKS.isFree(KEY));
        }
    }

    @DisplayName("C10, F11: an unlock on a frozen server ends within the network timeout and is reported")
    @ParameterizedTest
    @CsvSource({"1, false", "1, true", "5, false"})
    void unlockOnFrozenServerIsBounded(int poolSize, boolean transactionIsOpen) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, poolSize)) {
            HeldLock lock = AdvisoryLocks.on(pool, NETWORK_TIMEOUT).acquire(KEY, Duration.ZERO);
            int pid = lock.backendPid();
            if (transactionIsOpen) {
                lock.connection().setAutoCommit(false);
                assertThat(Sql.backendPid(lock.connection())).isEqualTo(pid);
            }
            try (FrozenBackend frozen = SERVER.freezeBackend(pid)) {
                assertThatExceptionOfType(LockLostException.class)
                        .isThrownBy(lock::close)
                        .satisfies(lost -> assertThat(lost.backendPid()).isEqualTo(pid));
                assertEndedInTime(frozen);

                assertThat(LOCKS.holders(KEY)).containsExactly(pid);
                for (int borrowed = 0; borrowed < 10; borrowed++) {
                    try (Connection connection = pool.getConnection()) {
                        assertThat(Sql.backendPid(connection)).isNotEqualTo(pid);
                        assertThat(connection.getNetworkTimeout()).isZero();
                    }
                }
            }
            await().until(() -> LOCKS.isFree(KEY));
        }
    }

    @DisplayName("C10: the end of a transaction on a frozen server is bounded, and commits nothing")
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void endOfTransactionOnFrozenServerIsBounded(boolean workThrows) throws Exception {
        SERVER.execute("drop table if exists written; create table written (n int)");
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            IllegalStateException failure = new IllegalStateException("work");
            AtomicReference<@Nullable FrozenBackend> frozen = new AtomicReference<>();
            Throwable seen = catchThrowable(() -> AdvisoryLocks.on(pool, NETWORK_TIMEOUT)
                    .tryRunInTransaction(KEY, connection -> {
                        Sql.execute(connection, "insert into written values (1)");
                        frozen.set(SERVER.freezeBackend(Sql.backendPid(connection)));
                        if (workThrows) {
                            throw failure;
                        }
                        return true;
                    }));
            try (FrozenBackend toThaw = requireNonNull(frozen.get())) {
                assertEndedInTime(toThaw);
            }

            if (workThrows) {
                assertThat(seen).isSameAs(failure);
                assertThat(seen.getSuppressed()).singleElement().isInstanceOf(SQLException.class);
            } else {
                assertThat(seen).isInstanceOf(LockLostException.class);
            }
            await().until(() -> LOCKS.isFree(KEY));
            assertThat(SERVER.query("select count(*) from written")).containsExactly("0");
        }
    }

    @DisplayName("C10: isHeld on a frozen server is bounded, and says no")
    @Test
    void isHeldOnFrozenServerIsBounded() throws Exception {
        HeldLock lock = AdvisoryLocks.on(SERVER.dataSource(), NETWORK_TIMEOUT).acquire(KEY, Duration.ZERO);
        try (FrozenBackend frozen = SERVER.freezeBackend(lock.backendPid())) {
            assertThat(lock.isHeld()).isFalse();
            assertThatExceptionOfType(LockLostException.class).isThrownBy(lock::close);
            assertEndedInTime(frozen);
        }
        await().until(() -> LOCKS.isFree(KEY));
    }

    @DisplayName("F17, X15: a full lock table is an error, never \"taken by somebody else\"")
    @Test
    void fullLockTableIsAnError() throws Exception {
        try (Connection first = SERVER.dataSource().getConnection();
                Connection second = SERVER.dataSource().getConnection();
                Connection greedy = SERVER.dataSource().getConnection()) {
            LockedCall underSessionLock = AdvisoryLocks.on(TestDataSources.careless(() -> first))::tryRunLocked;
            LockedCall inTransaction = AdvisoryLocks.on(TestDataSources.careless(() -> second))::tryRunInTransaction;
            assertThat(underSessionLock.run(KEY, connection -> true).wasRun()).isTrue();
            assertThat(inTransaction.run(KEY, connection -> true).wasRun()).isTrue();
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() ->
                            Sql.execute(greedy, "select pg_advisory_lock(n) from generate_series(1, 100000) as n"));

            for (LockedCall call : List.of(underSessionLock, inTransaction)) {
                assertThatExceptionOfType(SQLException.class)
                        .isThrownBy(() -> call.run(KEY, connection -> true))
                        .isNotInstanceOf(LockLostException.class)
                        .extracting(SQLException::getSQLState)
                        .isEqualTo("53200");
            }
        }
        await().until(() -> LOCKS.advisoryRows().isEmpty());
    }

    @DisplayName("X16, F13: a client killed in the middle of a statement frees the key,"
            + " with client_connection_check_interval set")
    @Test
    void killedClientFreesTheKey() throws Exception {
        try (JavaProcess client = JavaProcess.start(
                ClientInLongStatement.class,
                SERVER.loginUrl(PostgresServer.DEFAULT_DATABASE)
                        + "&options=-c%20client_connection_check_interval=200")) {
            await().until(() -> SERVER.query("select pid from pg_locks join"
                                    + " pg_stat_activity using (pid) where locktype = 'advisory' and query ~ 'pg_sleep'"
                                    + " and state = 'active' and pid <> pg_backend_pid()")
                            .size()
                    == 1);
            assertThat(LOCKS.isFree(KEY)).isFalse();
            client.kill();
        }

        await().until(() -> LOCKS.isFree(KEY));
    }

    /** Run in a JVM of its own. */
    static final class ClientInLongStatement {
        public static void main(String[] arguments) throws Exception {
            var dataSource = new PGSimpleDataSource();
            dataSource.setUrl(arguments[0]);
            AdvisoryLocks.on(dataSource).runLocked(KEY, Duration.ZERO, connection -> {
                Sql.execute(connection, "select pg_sleep(600)");
                return true;
            });
        }
    }

    private static void assertEndedInTime(FrozenBackend frozen) {
        assertThat(frozen.age()).isBetween(NETWORK_TIMEOUT, NETWORK_TIMEOUT.plusSeconds(20));
    }

    @FunctionalInterface
    private interface LockedCall {
        LockOutcome<Boolean> run(LockKey key, LockedWork<Boolean, RuntimeException> work) throws SQLException;
    }
}
