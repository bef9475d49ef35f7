package dev.pgleader.lock;

import static dev.pgleader.lock.TestServer.backendPid;
import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.lock.TestServer.Frozen;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
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
    private static final TestServer server = TestServer.start();

    /** The server may take a moment to see that a connection of the last test was cut. */
    @BeforeEach
    void awaitFreeKey() {
        await().until(() -> server.isFree(KEY));
    }

    @DisplayName("C10, F11: a try on a frozen server ends within the network timeout, and its connection with it")
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void tryOnFrozenServerIsBounded(boolean inTransaction) throws Exception {
        try (Connection connection = server.dataSource().getConnection()) {
            AdvisoryLocks locks = AdvisoryLocks.on(TestServer.handingOut(() -> connection), NETWORK_TIMEOUT);
            try (Frozen frozen = TestServer.freeze(backendPid(connection))) {
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
            await().until(() -> server.isFree(KEY));
        }
    }

    @DisplayName("C10, F11: an unlock on a frozen server ends within the network timeout and is reported")
    @ParameterizedTest
    @CsvSource({"1, false", "1, true", "5, false"})
    void unlockOnFrozenServerIsBounded(int poolSize, boolean transactionIsOpen) throws Exception {
        try (HikariDataSource pool = server.pool(poolSize)) {
            HeldLock lock = AdvisoryLocks.on(pool, NETWORK_TIMEOUT).acquire(KEY, Duration.ZERO);
            int pid = lock.backendPid();
            if (transactionIsOpen) {
                lock.connection().setAutoCommit(false);
                assertThat(backendPid(lock.connection())).isEqualTo(pid);
            }
            try (Frozen frozen = TestServer.freeze(pid)) {
                assertThatExceptionOfType(LockLostException.class)
                        .isThrownBy(lock::close)
                        .satisfies(lost -> assertThat(lost.backendPid()).isEqualTo(pid));
                assertEndedInTime(frozen);

                assertThat(server.holders(KEY)).containsExactly(pid);
                for (int borrowed = 0; borrowed < 10; borrowed++) {
                    try (Connection connection = pool.getConnection()) {
                        assertThat(backendPid(connection)).isNotEqualTo(pid);
                        assertThat(connection.getNetworkTimeout()).isZero();
                    }
                }
            }
            await().until(() -> server.isFree(KEY));
        }
    }

    @DisplayName("C10: the end of a transaction on a frozen server is bounded, and commits nothing")
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void endOfTransactionOnFrozenServerIsBounded(boolean workThrows) throws Exception {
        server.execute("drop table if exists written; create table written (n int)");
        try (HikariDataSource pool = server.pool(1)) {
            IllegalStateException failure = new IllegalStateException("work");
            AtomicReference<@Nullable Frozen> frozen = new AtomicReference<>();
            Throwable seen = catchThrowable(() -> AdvisoryLocks.on(pool, NETWORK_TIMEOUT)
                    .tryRunInTransaction(KEY, connection -> {
                        TestServer.executeOn(connection, "insert into written values (1)");
                        frozen.set(TestServer.freeze(backendPid(connection)));
                        if (workThrows) {
                            throw failure;
                        }
                        return true;
                    }));
            try (Frozen toThaw = requireNonNull(frozen.get())) {
                assertEndedInTime(toThaw);
            }

            if (workThrows) {
                assertThat(seen).isSameAs(failure);
                assertThat(seen.getSuppressed()).singleElement().isInstanceOf(SQLException.class);
            } else {
                assertThat(seen).isInstanceOf(LockLostException.class);
            }
            await().until(() -> server.isFree(KEY));
            assertThat(server.count("select count(*) from written")).isZero();
        }
    }

    @DisplayName("C10: isHeld on a frozen server is bounded, and says no")
    @Test
    void isHeldOnFrozenServerIsBounded() throws Exception {
        HeldLock lock = AdvisoryLocks.on(server.dataSource(), NETWORK_TIMEOUT).acquire(KEY, Duration.ZERO);
        try (Frozen frozen = TestServer.freeze(lock.backendPid())) {
            assertThat(lock.isHeld()).isFalse();
            assertThatExceptionOfType(LockLostException.class).isThrownBy(lock::close);
            assertEndedInTime(frozen);
        }
        await().until(() -> server.isFree(KEY));
    }

    @DisplayName("F17, X15: a full lock table is an error, never \"taken by somebody else\"")
    @Test
    void fullLockTableIsAnError() throws Exception {
        try (Connection first = server.dataSource().getConnection();
                Connection second = server.dataSource().getConnection();
                Connection greedy = server.dataSource().getConnection()) {
            LockedCall underSessionLock = AdvisoryLocks.on(TestServer.handingOut(() -> first))::tryRunLocked;
            LockedCall inTransaction = AdvisoryLocks.on(TestServer.handingOut(() -> second))::tryRunInTransaction;
            assertThat(underSessionLock.run(KEY, connection -> true).wasRun()).isTrue();
            assertThat(inTransaction.run(KEY, connection -> true).wasRun()).isTrue();
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> TestServer.executeOn(
                            greedy, "select pg_advisory_lock(n) from generate_series(1, 100000) as n"));

            for (LockedCall call : List.of(underSessionLock, inTransaction)) {
                assertThatExceptionOfType(SQLException.class)
                        .isThrownBy(() -> call.run(KEY, connection -> true))
                        .isNotInstanceOf(LockLostException.class)
                        .extracting(SQLException::getSQLState)
                        .isEqualTo("53200");
            }
        }
        await().until(() -> server.count("select count(*) from pg_locks where locktype = 'advisory'") == 0);
    }

    @DisplayName("X16, F13: a client killed in the middle of a statement frees the key,"
            + " with client_connection_check_interval set")
    @Test
    void killedClientFreesTheKey() throws Exception {
        Process client = ForkedJvm.start(
                ForkedJvm.classPath(),
                List.of(),
                ClientInLongStatement.class,
                server.url() + "&options=-c%20client_connection_check_interval=200");
        try {
            await().until(() -> server.count("select count(*) from pg_locks join"
                            + " pg_stat_activity using (pid) where locktype = 'advisory' and query ~ 'pg_sleep'"
                            + " and state = 'active' and pid <> pg_backend_pid()")
                    == 1);
            assertThat(server.isFree(KEY)).isFalse();
        } finally {
            client.destroyForcibly();
        }
        assertThat(client.waitFor(60, TimeUnit.SECONDS)).isTrue();

        await().until(() -> server.isFree(KEY));
    }

    /** Run in a JVM of its own. */
    static final class ClientInLongStatement {
        public static void main(String[] arguments) throws Exception {
            var dataSource = new PGSimpleDataSource();
            dataSource.setUrl(arguments[0]);
            AdvisoryLocks.on(dataSource).runLocked(KEY, Duration.ZERO, connection -> {
                TestServer.executeOn(connection, "select pg_sleep(600)");
                return true;
            });
        }
    }

    private static void assertEndedInTime(Frozen frozen) {
        assertThat(frozen.age()).isBetween(NETWORK_TIMEOUT, NETWORK_TIMEOUT.plusSeconds(20));
    }

    @FunctionalInterface
    private interface LockedCall {
        LockOutcome<Boolean> run(LockKey key, LockedWork<Boolean, RuntimeException> work) throws SQLException;
    }
}
