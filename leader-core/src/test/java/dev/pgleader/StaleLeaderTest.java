package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.PostgresServer.ShutdownMode;
import dev.pgleader.testkit.Sql;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.ds.PGSimpleDataSource;

/** A leader whose lock is gone finds out by itself, and campaigns again by itself. */
@Timeout(300)
class StaleLeaderTest {

    private final long bits = freshKeyBits();
    private final LockKey key = LockKey.of(bits);

    @ParameterizedTest
    @EnumSource(ShutdownMode.class)
    void aRestartOfTheServerRevokesAndTheCampaignGoesOn(ShutdownMode mode) { // C13 (b), X12, X23
        try (PostgresServer server = PostgresServer.launch();
                TestCandidate first = TestCandidate.startLeader("first", direct(server), key);
                TestCandidate second = TestCandidate.start("second", direct(server), key)) {
            second.backendPid();
            server.stop(mode);
            long stoppedAt = System.nanoTime();
            server.start();
            assertThat(first.awaitRevoked(1).reason()).isEqualTo(RevocationReason.SESSION_LOST);
            await().atMost(PATIENCE)
                    .until(() -> first.elector().isLeader() || second.elector().isLeader());
            long electedAt = System.nanoTime();
            Duration someChecks = FAST.healthCheckInterval().multipliedBy(2);
            await().atMost(PATIENCE).until(() -> System.nanoTime() - electedAt > someChecks.toNanos());
            for (TestCandidate candidate : List.of(first, second)) {
                assertThat(candidate.events())
                        .as("elected to stay")
                        .noneMatch(event -> !event.isElected()
                                && candidate.awaitElected(event.term()).atNanos() - stoppedAt > 0);
            }
            first.assertCallbacksInOrder();
        }
    }

    @Test
    void aKilledServerRevokesAndTheCampaignGoesOn() {
        try (PostgresServer server = PostgresServer.launch();
                TestCandidate candidate = TestCandidate.startLeader("only", direct(server), key)) {
            server.killPostmaster();
            assertThat(candidate.awaitRevoked(1).reason()).isEqualTo(RevocationReason.SESSION_LOST);
            await().atMost(PATIENCE)
                    .until(() -> candidate
                            .elector()
                            .status()
                            .problem()
                            .filter(problem -> problem.fault()
                                    .filter(Fault.UNREACHABLE::equals)
                                    .isPresent())
                            .isPresent());
            server.start();
            candidate.awaitElected(2);
            assertThat(candidate.elector().status().problem()).isEmpty();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"SELECT pg_advisory_unlock_all()", "DISCARD ALL"})
    void aLockThatVanishesFromALivingSessionIsNoticedAtTheNextCheck(String statement) throws Exception { // C13 (c)
        PostgresServer server = PostgresServer.shared();
        TappedDataSource tapped = new TappedDataSource(server);
        try (TestCandidate leader = TestCandidate.startLeader("leader", ConnectionSource.of(tapped.dataSource()), key);
                TestCandidate follower = TestCandidate.start("follower", direct(server), key)) {
            follower.backendPid();
            tapped.executeOnLastConnection(statement);
            assertThat(leader.awaitRevoked(1).reason()).isEqualTo(RevocationReason.LOCK_LOST);
            follower.awaitElected(1);
            leader.assertCallbacksInOrder();
        }
    }

    @Test
    void aFollowerBehindADeadConnectionReconnectsAndWins() throws Exception { // C11
        PostgresServer server = PostgresServer.shared();
        try (TcpProxy proxy = new TcpProxy(server.port());
                TestCandidate leader = TestCandidate.startLeader("leader", direct(server), key);
                TestCandidate follower = TestCandidate.start("follower", direct(server, proxy.port()), key)) {
            follower.backendPid();
            proxy.existing().flow(Flow.SWALLOW);
            leader.elector().close();
            follower.awaitElected(1);
        }
    }

    @Test
    void pollingAloneIsEnoughToWin() throws Exception { // C11
        PostgresServer server = PostgresServer.shared();
        try (Connection holder = server.connect();
                TestCandidate candidate = TestCandidate.start("candidate", direct(server), key)) {
            // This holder says nothing when it lets go.
            await().atMost(PATIENCE).until(() -> candidate.elector().isLeader());
            candidate.elector().pause().get(10, TimeUnit.SECONDS);
            assertThat(Sql.tryLock(holder, bits)).isTrue();
            candidate.elector().resume();
            assertThat(candidate.elector().awaitLeadership(FAST.retryInterval().multipliedBy(3)))
                    .isEmpty();
            assertThat(Sql.unlock(holder, bits)).isTrue();
            candidate.awaitElected(2);
        }
    }

    @Test
    void tenCyclesOfLossAndElection() throws Exception { // X12
        PostgresServer server = PostgresServer.shared();
        try (TestCandidate candidate = TestCandidate.start("only", direct(server), key)) {
            for (int term = 1; term <= 10; term++) {
                candidate.awaitElected(term);
                server.terminateBackend(candidate.backendPid());
                candidate.awaitRevoked(term);
            }
            candidate.assertCallbacksInOrder();
        }
    }

    @Test
    void theServerEndsASilentLeader() throws Exception { // C12, C26
        PostgresServer server = PostgresServer.shared();
        ElectorOptions options = FAST.toBuilder()
                .leaseDuration(Duration.ofMillis(1500))
                .healthCheckTimeout(Duration.ofMillis(600))
                .build();
        try (TcpProxy proxy = new TcpProxy(server.port());
                LockTable locks = new LockTable(server, PostgresServer.DEFAULT_DATABASE);
                TestCandidate leader = TestCandidate.start(
                        "silent", direct(server, proxy.port()), key, builder -> builder.options(options))) {
            leader.awaitElected(1);
            int pid = leader.backendPid();
            proxy.all().flow(Flow.SWALLOW);
            long begin = System.nanoTime();
            locks.awaitFree(bits, PATIENCE);
            assertThat(Duration.ofNanos(System.nanoTime() - begin))
                    .isLessThan(options.leaseDuration().plus(PATIENCE));
            assertThat(locks.session(pid)).isEmpty();
            assertThat(leader.elector().isLeader()).isFalse();
        }
    }

    @Test
    void closingALeaderWhoseBackendIsFrozenIsBounded() throws Exception { // C10, F11
        PostgresServer server = PostgresServer.shared();
        try (LockTable locks = new LockTable(server, PostgresServer.DEFAULT_DATABASE);
                TestCandidate leader = TestCandidate.startLeader("frozen", direct(server), key)) {
            int pid = leader.backendPid();
            server.freezeBackend(pid);
            try {
                long begin = System.nanoTime();
                leader.elector().close();
                assertThat(Duration.ofNanos(System.nanoTime() - begin))
                        .isLessThan(FAST.healthCheckTimeout().plus(PATIENCE));
                assertThat(leader.elector().isLeader()).isFalse();
                leader.assertCallbacksInOrder();
                assertThat(leader.events()).hasSize(2);
            } finally {
                server.thawBackend(pid);
            }
            locks.awaitFree(bits, PATIENCE);
        }
    }

    @Test
    void anIdleTimeoutOfTheRoleIsNotOurs() throws Exception { // C26
        PostgresServer server = PostgresServer.shared();
        String role = "culled_" + ProcessHandle.current().pid();
        server.createRole(role, "secret");
        server.execute("ALTER ROLE " + role + " SET idle_session_timeout = '300ms'");
        server.execute("ALTER ROLE " + role + " SET statement_timeout = '1s'");
        ConnectionSource source = ConnectionSource.of(server.url(PostgresServer.DEFAULT_DATABASE), role, "secret");
        ElectorOptions options =
                FAST.toBuilder().healthCheckInterval(Duration.ofMillis(900)).build();
        try (TestCandidate leader = TestCandidate.start("leader", source, key, builder -> builder.options(options))) {
            leader.awaitElected(1);
            long begin = System.nanoTime();
            await().atMost(PATIENCE).until(() -> System.nanoTime() - begin > TimeUnit.SECONDS.toNanos(3));
            assertThat(leader.events()).hasSize(1);
        }
    }

    @Test
    void aFullLockTableIsAnErrorThatIsRetried() throws Exception { // X15, F17, 53200
        try (PostgresServer small = PostgresServer.builder()
                        .setting("max_locks_per_transaction", "10")
                        .setting("max_connections", "10")
                        .launch();
                Connection hoarder = small.connect()) {
            int next = 0;
            // In large steps until it's full, then one by one for what the end of the failed statements freed.
            for (int step : new int[] {100, 1, 1, 1}) {
                while (hoard(hoarder, next, step)) {
                    next += step;
                }
                next += step;
            }
            try (TestCandidate candidate = TestCandidate.start("patient", direct(small), key)) {
                await().atMost(PATIENCE)
                        .until(() -> candidate
                                .elector()
                                .status()
                                .problem()
                                .filter(problem -> problem.fault()
                                                .filter(Fault.LOCK_TABLE_FULL::equals)
                                                .isPresent()
                                        && problem.message().contains("shared memory"))
                                .isPresent());
                assertThat(candidate.elector().isLeader()).isFalse();
                assertThat(candidate.elector().status().knownLeader()).isEmpty();
                Sql.execute(hoarder, "SELECT pg_advisory_unlock_all()");
                candidate.awaitElected(1);
                assertThat(candidate.elector().status().problem()).isEmpty();
            }
        }
    }

    /** Returns false if the lock table is full. */
    private static boolean hoard(Connection hoarder, int first, int count) throws SQLException {
        try {
            Sql.execute(
                    hoarder,
                    "SELECT pg_advisory_lock(n) FROM generate_series(" + first + ", " + (first + count - 1) + ") AS n");
            return true;
        } catch (SQLException e) {
            assertThat(e.getSQLState()).isEqualTo("53200");
            return false;
        }
    }

    /** A data source of which the test can use the connection that an elector got last. */
    private static final class TappedDataSource {

        private final PGSimpleDataSource real = new PGSimpleDataSource();
        private volatile Connection last;

        TappedDataSource(PostgresServer server) {
            real.setUrl(server.url(PostgresServer.DEFAULT_DATABASE));
            real.setUser(server.superuser());
            real.setPassword(server.superuserPassword());
        }

        DataSource dataSource() {
            return (DataSource) Proxy.newProxyInstance(
                    TappedDataSource.class.getClassLoader(),
                    new Class<?>[] {DataSource.class},
                    (proxy, method, args) -> {
                        try {
                            Object result = method.invoke(real, args);
                            if (result instanceof Connection connection) {
                                last = connection;
                            }
                            return result;
                        } catch (InvocationTargetException e) {
                            throw e.getCause();
                        }
                    });
        }

        void executeOnLastConnection(String statement) throws Exception {
            Sql.execute(last, statement);
        }
    }
}
