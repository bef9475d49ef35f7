package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariDataSource;
import com.zaxxer.hikari.SQLExceptionOverride;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.PostgresServer.FrozenBackend;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.ds.PGSimpleDataSource;

class LentConnectionTest {

    private static final LockKey KEY = LockKey.named("lent-connection-test");

    @AutoClose
    private static final PostgresServer SERVER = PostgresServer.launch();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    /** The server may take a moment to see that a connection of the last test was cut. */
    @BeforeEach
    void awaitFreeKey() {
        await().until(() -> LOCKS.isFree(KEY));
    }

    @DisplayName("C01, F14: a discarded connection frees its locks, and HikariCP never hands it out again")
    @ParameterizedTest
    @ValueSource(ints = {1, 5})
    void discardedConnectionIsNeverHandedOutAgain(int poolSize) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, poolSize)) {
            int pid = lockAndDiscard(pool, pool);

            await().until(() -> LOCKS.isFree(KEY));
            TestDataSources.assertNeverHandedOut(LOCKS, pool, pid);
            assertThat(pool.getHikariPoolMXBean().getActiveConnections()).isZero();
        }
    }

    @DisplayName("C01: also a HikariCP that is set to keep broken connections does not hand out a discarded one")
    @Test
    void poolThatKeepsBrokenConnectionsForgetsADiscardedOne() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(
                SERVER, 1, config -> config.setExceptionOverrideClassName(KeepsBroken.class.getName()))) {
            int pid = lockAndDiscard(pool, pool);

            TestDataSources.assertNeverHandedOut(LOCKS, pool, pid);
        }
    }

    /** Made by HikariCP, by its name. */
    public static final class KeepsBroken implements SQLExceptionOverride {
        @java.lang.Override
        public Override adjudicate(SQLException failure) {
            return Override.DO_NOT_EVICT;
        }
    }

    @DisplayName("F14: without the pool's help, too, a discarded connection frees its locks")
    @Test
    void discardNeedsNoHelpOfThePool() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            int pid = lockAndDiscard(null, pool);

            await().until(() -> LOCKS.isFree(KEY));
            try (Connection connection = pool.getConnection()) {
                assertThat(Sql.backendPid(connection)).isNotEqualTo(pid);
            }
        }
        lockAndDiscard(null, SERVER.dataSource());
        lockAndDiscard(SERVER.dataSource(), SERVER.dataSource());
        try (Connection kept = SERVER.dataSource().getConnection()) {
            lockAndDiscard(null, TestDataSources.careless(() -> kept));
            assertThat(kept.isClosed()).isTrue();
        }
        await().until(() -> LOCKS.isFree(KEY));
    }

    @Test
    void discardTwiceAndAfterCloseIsHarmless() throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            LentConnection first = LentConnection.borrow(pool);
            first.giveBack();
            LentConnection second = LentConnection.borrow(pool);
            assertThat(second.physical()).isSameAs(first.physical());
            first.discard();

            assertThat(second.handle().isValid(1)).isTrue();
            second.discard();
            second.discard();
            second.giveBack();
            try (Connection third = pool.getConnection()) {
                assertThat(third.isValid(1)).isTrue();
            }
        }
    }

    @DisplayName("C10, F11: discarding does not wait for a frozen server, even in the middle of a statement")
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void discardDoesNotWaitForTheServer(boolean inStatement) throws Exception {
        try (HikariDataSource pool = TestDataSources.hikari(SERVER, 1)) {
            LentConnection lent = LentConnection.borrow(pool);
            Connection connection = lent.handle();
            try (FrozenBackend frozen = SERVER.freezeBackend(Sql.backendPid(connection))) {
                FutureTask<Throwable> failure = new FutureTask<>(
                        () -> catchThrowableOfType(SQLException.class, () -> Sql.execute(connection, "select 1")));
                Thread thread = new Thread(failure);
                if (inStatement) {
                    thread.start();
                    await().until(() -> isReading(thread));
                }

                lent.discard();

                assertThat(frozen.age()).isLessThan(Duration.ofSeconds(10));
                if (inStatement) {
                    assertThat(failure.get(20, TimeUnit.SECONDS)).isNotNull();
                }
            }
        }
    }

    private static boolean isReading(Thread thread) {
        return Arrays.stream(thread.getStackTrace())
                .anyMatch(frame -> frame.getClassName().endsWith("SocketInputStream")
                        || frame.getClassName().endsWith("NioSocketImpl"));
    }

    @DisplayName("The helpers and discard work where neither HikariCP nor Spring is on the class path")
    @Test
    void poolsAndSpringAreOptional() throws Exception {
        try (JavaProcess other = JavaProcess.builder(WithoutOthers.class)
                .classPathWithout("HikariCP", "/spring-", "/agroal-")
                .arguments(SERVER.loginUrl(PostgresServer.DEFAULT_DATABASE))
                .start()) {
            assertThat(other.awaitOutput(Duration.ofMinutes(1)))
                    .containsExactly(
                            "no com.zaxxer.hikari.HikariDataSource",
                            "no org.springframework.jdbc.datasource.ConnectionHolder",
                            "ran: true",
                            "closed: true");
        }
    }

    /** Run in a JVM of its own. */
    static final class WithoutOthers {
        public static void main(String[] arguments) throws Exception {
            for (String name : List.of(
                    "com.zaxxer.hikari.HikariDataSource", "org.springframework.jdbc.datasource.ConnectionHolder")) {
                if (!Pools.isPresent(name)) {
                    System.out.println("no " + name);
                }
            }
            PGSimpleDataSource dataSource = new PGSimpleDataSource();
            dataSource.setUrl(arguments[0]);
            System.out.println(AdvisoryLocks.on(dataSource).tryRunLocked(KEY, connection -> true));
            LentConnection lent = LentConnection.borrow(dataSource);
            lent.discard();
            System.out.println("closed: " + lent.handle().isClosed());
        }
    }

    private static int lockAndDiscard(@Nullable DataSource pool, DataSource dataSource) throws SQLException {
        LentConnection lent =
                pool == null ? LentConnection.own(dataSource.getConnection()) : LentConnection.borrow(pool);
        int pid = Sql.backendPid(lent.handle());
        Sql.execute(lent.handle(), "select pg_try_advisory_lock(" + KEY.bits() + ")");
        lent.discard();
        return pid;
    }
}
