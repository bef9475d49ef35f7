package dev.pgleader.lock;

import static dev.pgleader.lock.TestServer.backendPid;
import static dev.pgleader.lock.TestServer.executeOn;
import static dev.pgleader.lock.TestServer.queryStrings;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.jdbc.PgConnection;

class TransactionLockTest {

    private static final LockKey KEY = LockKey.named("transaction-lock-test");

    @AutoClose
    private static final TestServer server = TestServer.start();

    /** The server may take a moment to see that a connection of the last test was cut. */
    @BeforeEach
    void awaitFreeKey() {
        await().until(() -> server.isFree(KEY));
    }

    @BeforeEach
    void emptyTable() throws Exception {
        server.execute(
                "drop table if exists written;" + " create table written (n int unique deferrable initially deferred)");
    }

    @DisplayName("C24, F5: the key is held for the whole work, and free right after")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void keyIsHeldForTheWholeWorkAndNoLonger(boolean autoCommit) throws Exception {
        try (HikariDataSource pool = server.pool(1, config -> config.setAutoCommit(autoCommit))) {
            int pid = AdvisoryLocks.on(pool).runInTransaction(KEY, Duration.ZERO, connection -> {
                assertThat(server.isFree(KEY)).isFalse();
                assertThat(server.holders(KEY)).containsExactly(backendPid(connection));
                executeOn(connection, "insert into written values (1)");
                assertThat(server.isFree(KEY)).isFalse();
                assertThat(written()).isZero();
                return backendPid(connection);
            });

            assertThat(server.isFree(KEY)).isTrue();
            assertThat(written()).isEqualTo(1);
            assertGivenBack(pool, pid, autoCommit);
        }
    }

    @DisplayName("C24: whatever the work throws, its writes are rolled back and the caller sees just that")
    @Test
    void writesAreRolledBackWhateverTheWorkThrows() throws Exception {
        try (HikariDataSource pool = server.pool(1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(pool);
            AtomicInteger pid = new AtomicInteger();
            for (Throwable thrown :
                    List.of(new Exception("work"), new IllegalStateException("work"), new AssertionError("work"))) {
                assertThatThrownBy(() -> locks.tryRunInTransaction(KEY, connection -> {
                            pid.set(backendPid(connection));
                            executeOn(connection, "insert into written values (1)");
                            if (thrown instanceof Error error) {
                                throw error;
                            }
                            throw (Exception) thrown;
                        }))
                        .isSameAs(thrown)
                        .hasNoSuppressedExceptions();

                assertThat(written()).isZero();
                assertThat(server.isFree(KEY)).isTrue();
            }
            assertGivenBack(pool, pid.get(), true);
        }
    }

    @DisplayName("C02: an interrupt by the work is preserved, and its writes are committed")
    @Test
    void interruptIsPreserved() throws Exception {
        try (HikariDataSource pool = server.pool(1)) {
            AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                executeOn(connection, "insert into written values (1)");
                Thread.currentThread().interrupt();
                return true;
            });

            assertThat(Thread.interrupted()).isTrue();
            assertThat(written()).isEqualTo(1);
        }
    }

    @DisplayName("C24: the work can't end the transaction by JDBC, and is told why")
    @Test
    void workCannotEndTheTransaction() throws Exception {
        try (HikariDataSource pool = server.pool(1)) {
            AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                executeOn(connection, "insert into written values (1)");
                assertRefused("commit", connection::commit);
                assertRefused("rollback", connection::rollback);
                assertRefused("setAutoCommit", () -> connection.setAutoCommit(true));
                assertRefused("setAutoCommit", () -> connection.setAutoCommit(false));
                assertRefused("close", connection::close);
                assertRefused("abort", () -> connection.abort(Runnable::run));
                assertThat(server.isFree(KEY)).isFalse();
                assertThat(connection.unwrap(PgConnection.class).getBackendPID())
                        .isEqualTo(backendPid(connection));
                return true;
            });
            assertThat(written()).isEqualTo(1);
        }
    }

    private static void assertRefused(String method, ThrowingCallable call) {
        assertThatThrownBy(call)
                .isInstanceOf(SQLException.class)
                .hasMessageContaining(method + " is refused")
                .hasMessageContaining("transaction-lock-test")
                .hasMessageContaining("return to commit, throw to roll back");
    }

    @DisplayName("C24: a work that ends the transaction by SQL, or past the guard, is reported")
    @ParameterizedTest
    @ValueSource(
            strings = {"commit", "rollback", "commit and chain", "commit; begin", "prepare transaction 'x'", "JDBC"})
    void transactionEndedByTheWorkIsReported(String sql) throws Exception {
        try (HikariDataSource pool = server.pool(1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(backendPid(connection));
                        if (sql.equals("JDBC")) {
                            connection.unwrap(PgConnection.class).setAutoCommit(true);
                        } else {
                            executeOn(connection, sql);
                        }
                        executeOn(connection, "insert into written values (2)");
                        return true;
                    }))
                    .withMessageContaining("transaction-lock-test")
                    .withNoCause()
                    .satisfies(lost -> assertThat(lost.backendPid()).isEqualTo(pid.get()));

            // Past the guard, the work's connection is in autocommit mode, so what it writes there is its own affair.
            assertThat(written()).isEqualTo(sql.equals("JDBC") ? 1 : 0);
            if (sql.startsWith("prepare")) {
                server.execute("rollback prepared 'x'");
            }
            assertThat(server.isFree(KEY)).isTrue();
            assertGivenBack(pool, pid.get(), true);
        }
    }

    @DisplayName("C24, F5: a rollback to a savepoint of the work keeps the lock")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void rollbackToSavepointKeepsTheLock(boolean bySql) throws Exception {
        AdvisoryLocks.on(server.dataSource()).tryRunInTransaction(KEY, connection -> {
            executeOn(connection, "insert into written values (1)");
            Savepoint savepoint = connection.setSavepoint("s");
            executeOn(connection, "insert into written values (2)");
            if (bySql) {
                executeOn(connection, "rollback to savepoint s");
            } else {
                connection.rollback(savepoint);
            }
            assertThat(server.isFree(KEY)).isFalse();
            return true;
        });

        assertThat(written()).isEqualTo(1);
    }

    @DisplayName("F4: work that returns after a failed statement is told that nothing was committed")
    @Test
    void abortedTransactionIsNoSuccess() throws Exception {
        try (HikariDataSource pool = server.pool(1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(backendPid(connection));
                        executeOn(connection, "insert into written values (1)");
                        assertThatThrownBy(() -> executeOn(connection, "select 1 / 0"))
                                .isInstanceOf(SQLException.class);
                        return true;
                    }))
                    .withMessageContaining("aborted")
                    .extracting(SQLException::getSQLState)
                    .isEqualTo("25P02");

            assertThat(written()).isZero();
            assertThat(server.isFree(KEY)).isTrue();
            assertGivenBack(pool, pid.get(), true);
        }
    }

    @DisplayName("A commit that the server refuses reaches the caller as it is")
    @Test
    void refusedCommitReachesTheCaller() throws Exception {
        try (HikariDataSource pool = server.pool(1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(backendPid(connection));
                        executeOn(connection, "insert into written values (1), (1)");
                        return true;
                    }))
                    .extracting(SQLException::getSQLState)
                    .isEqualTo("23505");

            assertThat(written()).isZero();
            assertGivenBack(pool, pid.get(), true);
        }
    }

    @DisplayName("A commit whose answer never came is neither success nor failure")
    @Test
    void unconfirmedCommitIsReportedAsUnknown() throws Exception {
        server.execute("create or replace function end_session() returns trigger language plpgsql as"
                + " 'begin perform pg_terminate_backend(pg_backend_pid()); return null; end'");
        server.execute("create constraint trigger end_session after insert on written"
                + " deferrable initially deferred for each row execute function end_session()");
        try (HikariDataSource pool = server.pool(1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(backendPid(connection));
                        executeOn(connection, "insert into written values (1)");
                        return true;
                    }))
                    .withMessageContaining("may or may not have happened")
                    .withCauseInstanceOf(SQLException.class)
                    .extracting(SQLException::getSQLState)
                    .isEqualTo("08007");

            server.assertNeverHandedOut(pool, pid.get());
        }
    }

    @DisplayName("C01: a session that ended under the work is reported, and never handed out again")
    @Test
    void endedSessionIsReportedAndNeverReused() throws Exception {
        try (HikariDataSource pool = server.pool(1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(backendPid(connection));
                        executeOn(connection, "insert into written values (1)");
                        server.terminate(pid.get());
                        return true;
                    }))
                    .withCauseInstanceOf(SQLException.class);

            assertThat(written()).isZero();
            server.assertNeverHandedOut(pool, pid.get());
        }
    }

    @DisplayName("The work sees what the last holder committed, whatever the pool's isolation, which stays")
    @ParameterizedTest
    @ValueSource(strings = {"TRANSACTION_REPEATABLE_READ", "TRANSACTION_SERIALIZABLE"})
    void workSeesWhatTheLastHolderCommitted(String isolation) throws Exception {
        try (HikariDataSource pool = server.pool(1, config -> config.setTransactionIsolation(isolation))) {
            int before;
            try (Connection connection = pool.getConnection()) {
                before = connection.getTransactionIsolation();
            }

            AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                assertThat(queryStrings(connection, "select count(*) from written"))
                        .containsExactly("0");
                server.execute("insert into written values (1)");
                assertThat(queryStrings(connection, "select count(*) from written"))
                        .containsExactly("1");
                return true;
            });

            try (Connection connection = pool.getConnection()) {
                assertThat(connection.getTransactionIsolation()).isEqualTo(before);
            }
        }
    }

    @DisplayName("X17: the settings of the connection are as before, also if the work changed them")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void settingsArePutBack(boolean autoCommit) throws Exception {
        try (Connection connection = server.dataSource().getConnection()) {
            connection.setNetworkTimeout(Runnable::run, 12_345);
            connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            connection.setReadOnly(true);
            connection.setAutoCommit(autoCommit);

            AdvisoryLocks.on(TestServer.handingOut(() -> connection)).tryRunInTransaction(KEY, pinned -> {
                assertThat(pinned.getNetworkTimeout()).isEqualTo(12_345);
                assertThat(queryStrings(pinned, "show transaction_read_only")).containsExactly("on");
                pinned.setNetworkTimeout(Runnable::run, 54_321);
                executeOn(pinned, "set session characteristics as transaction isolation level serializable");
                return true;
            });

            assertThat(connection.getNetworkTimeout()).isEqualTo(12_345);
            assertThat(connection.getAutoCommit()).isEqualTo(autoCommit);
            assertThat(connection.isReadOnly()).isTrue();
            assertThat(connection.getTransactionIsolation()).isEqualTo(Connection.TRANSACTION_REPEATABLE_READ);
        }
    }

    @Test
    @SuppressWarnings("NullAway") // Outside its JSpecify mode it takes the result of a lambda for never null.
    void workThatReturnsNullIsNotSkipped() throws Exception {
        LockOutcome<@Nullable String> outcome =
                AdvisoryLocks.on(server.dataSource()).tryRunInTransaction(KEY, connection -> null);

        assertThat(outcome.wasRun()).isTrue();
        assertThat(outcome.value()).isNull();
    }

    @Test
    void workIsSkippedWhileTheKeyIsTakenByEitherForm() throws Exception {
        try (HikariDataSource pool = server.pool(1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(pool);
            AdvisoryLocks others = AdvisoryLocks.on(server.dataSource());

            try (HeldLock other = others.acquire(KEY, Duration.ZERO)) {
                assertThat(locks.tryRunInTransaction(KEY, connection -> 1).wasSkipped())
                        .isTrue();
                assertThat(other.isHeld()).isTrue();
            }
            others.tryRunInTransaction(KEY, connection -> {
                assertThat(locks.tryRunInTransaction(KEY, same -> 1).wasSkipped())
                        .isTrue();
                assertThat(locks.tryRunLocked(KEY, same -> 1).wasSkipped()).isTrue();
                return true;
            });
            assertThat(locks.tryRunInTransaction(KEY, connection -> 1)).isEqualTo(LockOutcome.ran(1));
        }
    }

    @DisplayName("C07, F14: a session that has the key already is refused and ended")
    @Test
    void sessionThatHoldsTheKeyAlreadyIsRefused() throws Exception {
        try (HikariDataSource pool = server.pool(1)) {
            try (Connection careless = pool.getConnection()) {
                executeOn(careless, "select pg_advisory_lock(" + KEY.bits() + ")");
            }

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> true))
                    .withMessageContaining("already held");

            await().until(() -> server.isFree(KEY));
        }
    }

    private static long written() throws SQLException {
        return server.count("select count(*) from written");
    }

    private static void assertGivenBack(HikariDataSource pool, int pid, boolean autoCommit) throws SQLException {
        assertThat(server.activity(pid, "state")).containsExactly("idle");
        try (Connection again = pool.getConnection()) {
            assertThat(again.getAutoCommit()).isEqualTo(autoCommit);
            assertThat(backendPid(again)).isEqualTo(pid);
        }
    }
}
