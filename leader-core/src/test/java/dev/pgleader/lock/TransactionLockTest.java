package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
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
    private static final PostgresServer SERVER =
            PostgresServer.builder().setting("max_prepared_transactions", "2").launch();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    /** The server may take a moment to see that a connection of the last test was cut. */
    @BeforeEach
    void awaitFreeKey() {
        await().until(() -> LOCKS.isFree(KEY));
    }

    @BeforeEach
    void emptyTable() throws Exception {
        SERVER.execute(
                "drop table if exists written;" + " create table written (n int unique deferrable initially deferred)");
    }

    @DisplayName("C24, F5: the key is held for the whole work, and free right after")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void keyIsHeldForTheWholeWorkAndNoLonger(boolean autoCommit) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1, config -> config.setAutoCommit(autoCommit))) {
            int pid = AdvisoryLocks.on(pool).runInTransaction(KEY, Duration.ZERO, connection -> {
                assertThat(LOCKS.isFree(KEY)).isFalse();
                assertThat(LOCKS.holders(KEY)).containsExactly(Sql.backendPid(connection));
                Sql.execute(connection, "insert into written values (1)");
                assertThat(LOCKS.isFree(KEY)).isFalse();
                assertThat(written()).isZero();
                return Sql.backendPid(connection);
            });

            assertThat(LOCKS.isFree(KEY)).isTrue();
            assertThat(written()).isEqualTo(1);
            assertGivenBack(pool, pid, autoCommit);
        }
    }

    @DisplayName("C24: whatever the work throws, its writes are rolled back and the caller sees just that")
    @Test
    void writesAreRolledBackWhateverTheWorkThrows() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(pool);
            AtomicInteger pid = new AtomicInteger();
            for (Throwable thrown :
                    List.of(new Exception("work"), new IllegalStateException("work"), new AssertionError("work"))) {
                assertThatThrownBy(() -> locks.tryRunInTransaction(KEY, connection -> {
                            pid.set(Sql.backendPid(connection));
                            Sql.execute(connection, "insert into written values (1)");
                            if (thrown instanceof Error error) {
                                throw error;
                            }
                            throw (Exception) thrown;
                        }))
                        .isSameAs(thrown)
                        .hasNoSuppressedExceptions();

                assertThat(written()).isZero();
                assertThat(LOCKS.isFree(KEY)).isTrue();
            }
            assertGivenBack(pool, pid.get(), true);
        }
    }

    @DisplayName("C02: an interrupt by the work is preserved, and its writes are committed")
    @Test
    void interruptIsPreserved() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                Sql.execute(connection, "insert into written values (1)");
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
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                Sql.execute(connection, "insert into written values (1)");
                assertRefused("commit", connection::commit);
                assertRefused("rollback", connection::rollback);
                assertRefused("setAutoCommit", () -> connection.setAutoCommit(true));
                assertRefused("setAutoCommit", () -> connection.setAutoCommit(false));
                assertRefused("close", connection::close);
                assertRefused("abort", () -> connection.abort(Runnable::run));
                assertThat(LOCKS.isFree(KEY)).isFalse();
                assertThat(connection.unwrap(PgConnection.class).getBackendPID())
                        .isEqualTo(Sql.backendPid(connection));
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
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(Sql.backendPid(connection));
                        if (sql.equals("JDBC")) {
                            connection.unwrap(PgConnection.class).setAutoCommit(true);
                        } else {
                            Sql.execute(connection, sql);
                        }
                        Sql.execute(connection, "insert into written values (2)");
                        return true;
                    }))
                    .withMessageContaining("transaction-lock-test")
                    .withNoCause()
                    .satisfies(lost -> assertThat(lost.backendPid()).isEqualTo(pid.get()));

            // Past the guard, the work's connection is in autocommit mode, so what it writes there is its own affair.
            assertThat(written()).isEqualTo(sql.equals("JDBC") ? 1 : 0);
            if (sql.startsWith("prepare")) {
                SERVER.execute("rollback prepared 'x'");
            }
            assertThat(LOCKS.isFree(KEY)).isTrue();
            assertGivenBack(pool, pid.get(), true);
        }
    }

    @DisplayName("C24, F5: a rollback to a savepoint of the work keeps the lock")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void rollbackToSavepointKeepsTheLock(boolean bySql) throws Exception {
        AdvisoryLocks.on(SERVER.dataSource()).tryRunInTransaction(KEY, connection -> {
            Sql.execute(connection, "insert into written values (1)");
            Savepoint savepoint = connection.setSavepoint("s");
            Sql.execute(connection, "insert into written values (2)");
            if (bySql) {
                Sql.execute(connection, "rollback to savepoint s");
            } else {
                connection.rollback(savepoint);
            }
            assertThat(LOCKS.isFree(KEY)).isFalse();
            return true;
        });

        assertThat(written()).isEqualTo(1);
    }

    @DisplayName("F4: work that returns after a failed statement is told that nothing was committed")
    @Test
    void abortedTransactionIsNoSuccess() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(Sql.backendPid(connection));
                        Sql.execute(connection, "insert into written values (1)");
                        assertThatThrownBy(() -> Sql.execute(connection, "select 1 / 0"))
                                .isInstanceOf(SQLException.class);
                        return true;
                    }))
                    .withMessageContaining("aborted")
                    .extracting(SQLException::getSQLState)
                    .isEqualTo("25P02");

            assertThat(written()).isZero();
            assertThat(LOCKS.isFree(KEY)).isTrue();
            assertGivenBack(pool, pid.get(), true);
        }
    }

    @DisplayName("A commit that the server refuses reaches the caller as it is")
    @Test
    void refusedCommitReachesTheCaller() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(Sql.backendPid(connection));
                        Sql.execute(connection, "insert into written values (1), (1)");
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
        SERVER.execute("create or replace function end_session() returns trigger language plpgsql as"
                + " 'begin perform pg_terminate_backend(pg_backend_pid()); return null; end'");
        SERVER.execute("create constraint trigger end_session after insert on written"
                + " deferrable initially deferred for each row execute function end_session()");
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(Sql.backendPid(connection));
                        Sql.execute(connection, "insert into written values (1)");
                        return true;
                    }))
                    .withMessageContaining("may or may not have happened")
                    .withCauseInstanceOf(SQLException.class)
                    .extracting(SQLException::getSQLState)
                    .isEqualTo("08007");

            TestDataSources.assertNeverHandedOut(LOCKS, pool, pid.get());
        }
    }

    @DisplayName("C01: a session that ended under the work is reported, and never handed out again")
    @Test
    void endedSessionIsReportedAndNeverReused() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AtomicInteger pid = new AtomicInteger();

            assertThatExceptionOfType(LockLostException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                        pid.set(Sql.backendPid(connection));
                        Sql.execute(connection, "insert into written values (1)");
                        SERVER.endBackend(pid.get());
                        return true;
                    }))
                    .withCauseInstanceOf(SQLException.class);

            assertThat(written()).isZero();
            TestDataSources.assertNeverHandedOut(LOCKS, pool, pid.get());
        }
    }

    @DisplayName("The work sees what the last holder committed, whatever the pool's isolation, which stays")
    @ParameterizedTest
    @ValueSource(strings = {"TRANSACTION_REPEATABLE_READ", "TRANSACTION_SERIALIZABLE"})
    void workSeesWhatTheLastHolderCommitted(String isolation) throws Exception {
        try (HikariDataSource pool =
                TestDataSources.hikari(SERVER, 1, config -> config.setTransactionIsolation(isolation))) {
            int before;
            try (Connection connection = pool.getConnection()) {
                before = connection.getTransactionIsolation();
            }

            AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> {
                assertThat(Sql.column(connection, "select count(*) from written"))
                        .containsExactly("0");
                SERVER.execute("insert into written values (1)");
                assertThat(Sql.column(connection, "select count(*) from written"))
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
        try (Connection connection = SERVER.dataSource().getConnection()) {
            connection.setNetworkTimeout(Runnable::run, 12_345);
            connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            connection.setReadOnly(true);
            connection.setAutoCommit(autoCommit);

            AdvisoryLocks.on(TestDataSources.careless(() -> connection)).tryRunInTransaction(KEY, pinned -> {
                assertThat(pinned.getNetworkTimeout()).isEqualTo(12_345);
                assertThat(Sql.column(pinned, "show transaction_read_only")).containsExactly("on");
                pinned.setNetworkTimeout(Runnable::run, 54_321);
                Sql.execute(pinned, "set session characteristics as transaction isolation level serializable");
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
                AdvisoryLocks.on(SERVER.dataSource()).tryRunInTransaction(KEY, connection -> null);

        assertThat(outcome.wasRun()).isTrue();
        assertThat(outcome.value()).isNull();
    }

    @Test
    void workIsSkippedWhileTheKeyIsTakenByEitherForm() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(pool);
            AdvisoryLocks others = AdvisoryLocks.on(SERVER.dataSource());

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
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            try (Connection careless = pool.getConnection()) {
                Sql.execute(careless, "select pg_advisory_lock(" + KEY.bits() + ")");
            }

            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> AdvisoryLocks.on(pool).tryRunInTransaction(KEY, connection -> true))
                    .withMessageContaining("already held");

            await().until(() -> LOCKS.isFree(KEY));
        }
    }

    private static long written() throws SQLException {
        return Long.parseLong(SERVER.query("select count(*) from written").get(0));
    }

    private static void assertGivenBack(HikariDataSource pool, int pid, boolean autoCommit) throws SQLException {
        assertThat(LOCKS.session(pid).orElseThrow().state()).isEqualTo("idle");
        try (Connection again = pool.getConnection()) {
            assertThat(again.getAutoCommit()).isEqualTo(autoCommit);
            assertThat(Sql.backendPid(again)).isEqualTo(pid);
        }
    }
}
