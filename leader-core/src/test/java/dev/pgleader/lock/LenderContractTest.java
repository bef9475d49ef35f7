package dev.pgleader.lock;

import static dev.pgleader.lock.LenderDatabase.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.TakeoverDelay;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.BeforeParameterizedClassInvocation;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.EnumSource.Mode;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What holds for each DataSource that users bring (N05): whatever electors and helpers, or their work, do with its
 * connections, the pool is whole afterwards. The table in docs/pools.md names it.
 */
@Timeout(300)
@ParameterizedClass(name = "{0}")
@MethodSource("dev.pgleader.lock.Lender#ofThisRun")
class LenderContractTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final Duration NETWORK_TIMEOUT = Duration.ofSeconds(15);

    /** Elections of each pool size, two in each round. */
    private static final int ROUNDS = Integer.getInteger("lender.rounds", 3);
    /** Of a loss, an abort and a close. */
    private static final int SESSIONS = Integer.getInteger("lender.sessions", 5);

    private static final int SIZE = 2;
    private static final AtomicLong KEYS =
            new AtomicLong(ThreadLocalRandom.current().nextLong());

    private static final ElectorOptions FAST = ElectorOptions.builder()
            .leaseDuration(Duration.ofSeconds(6))
            .safetyMargin(Duration.ofMillis(500))
            .healthCheckInterval(Duration.ofMillis(300))
            .healthCheckTimeout(Duration.ofMillis(3000))
            .retryInterval(Duration.ofMillis(100))
            .maxReconnectDelay(Duration.ofMillis(200))
            .takeoverDelay(TakeoverDelay.NONE)
            .build();

    @AutoClose
    private static final LenderDatabase DATABASE = LenderDatabase.create("lender_contract");

    private static String settings;

    @Parameter
    Lender lender;

    private final LockKey key = LockKey.of(KEYS.incrementAndGet());

    @BeforeParameterizedClassInvocation
    static void noteSettings(Lender lender) throws Exception {
        try (Lender.Open open = lender.open(DATABASE.url(), 1)) {
            settings = LenderDatabase.settings(open);
        }
    }

    private Lender.Open open(int size) throws Exception {
        return lender.open(DATABASE.url(), size);
    }

    private void assertWhole(Lender.Open open, int size) throws SQLException {
        DATABASE.assertWhole(open, size, settings, key);
    }

    private final AtomicInteger elected = new AtomicInteger();
    private final AtomicInteger revoked = new AtomicInteger();

    private LeaderElector lead(Lender.Open open) {
        LeaderElector elector = LeaderElector.builder()
                .connectTo(ConnectionSource.of(open.dataSource()))
                .key(key)
                .options(FAST)
                .listener(new LeadershipListener() {
                    @Override
                    public void onElected(Leadership leadership) {
                        elected.incrementAndGet();
                    }

                    @Override
                    public void onRevoked(Leadership leadership, RevocationReason reason) {
                        revoked.incrementAndGet();
                    }
                })
                .build();
        int terms = elected.get();
        elector.start();
        awaitElections(terms + 1);
        return elector;
    }

    /** A term that ends before its listener heard of it isn't told at all, so this waits until it has. */
    private void awaitElections(int count) {
        await().until(() -> elected.get() == count);
    }

    @DisplayName("N05: electors that lead, lose their session, lead again and close cost no slot")
    @ParameterizedTest(name = "pool of {0}")
    @ValueSource(ints = {1, SIZE})
    void electors(int size) throws Exception {
        try (Lender.Open open = open(size)) {
            for (int round = 1; round <= ROUNDS; round++) {
                int rounds = round;
                try (LeaderElector elector = lead(open)) {
                    SERVER.terminateBackend(DATABASE.table().awaitHolder(key.bits(), Duration.ofSeconds(20)));
                    await().until(() -> revoked.get() == 2 * rounds - 1);
                    awaitElections(2 * rounds);
                    assertThat(elector.isLeader()).isTrue();
                }
                assertThat(revoked).hasValue(2 * rounds);
            }
            assertWhole(open, size);
        }
    }

    @DisplayName("N05: sessions that are lost, aborted or closed, many times over, cost no slot")
    @Test
    void sessions() throws Exception {
        LockSession.Settings ofSession =
                new LockSession.Settings("rounds", Duration.ofSeconds(20), Duration.ofSeconds(15), true);
        try (Lender.Open open = open(SIZE)) {
            for (int round = 0; round < SESSIONS; round++) {
                for (String end : List.of("loss", "abort", "close")) {
                    // The server may take a moment to see that the last session has gone.
                    LockKey fresh = LockKey.of(KEYS.incrementAndGet());
                    LockSession session = LockSession.open(ConnectionSource.of(open.dataSource()), ofSession);
                    assertThat(session.attempt(List.of(fresh)).granted()).containsExactly(fresh);
                    if (end.equals("loss")) {
                        SERVER.terminateBackend(session.facts().backendPid());
                    }
                    if (end.equals("close")) {
                        session.close();
                    } else {
                        session.abort();
                    }
                }
            }
            assertWhole(open, SIZE);
        }
    }

    @DisplayName("C01, N05: both forms of the helper give each connection back")
    @Test
    void helpers() throws Exception {
        try (Lender.Open open = open(1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource());
            int pid = locks.tryRunLocked(key, Sql::backendPid).value();
            for (int round = 0; round < 10; round++) {
                int again = locks.tryRunLocked(key, Sql::backendPid).value();
                assertThat(again == pid).isEqualTo(lender != Lender.NO_POOL);
                assertThat(locks.tryRunInTransaction(key, connection -> {
                                    Sql.execute(connection, "INSERT INTO written VALUES (1)");
                                    return DATABASE.table().holders(key.bits());
                                })
                                .value())
                        .hasSize(1);
            }
            assertWhole(open, 1);
        }
    }

    @DisplayName("N05, R27, R29: whatever the work of a session lock leaves behind, nobody else gets it")
    @ParameterizedTest
    @EnumSource(value = Mess.class, mode = Mode.EXCLUDE, names = "LEAVES_COPY") // BusyConnectionTest has it.
    void sessionLock(Mess mess) throws Exception {
        try (Lender.Open open = open(1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource(), NETWORK_TIMEOUT);
            long startNanos = System.nanoTime();
            Throwable failure =
                    catchThrowable(() -> locks.tryRunLocked(key, connection -> mess.make(SERVER, connection, false)));
            assertThat(Duration.ofNanos(System.nanoTime() - startNanos)).isLessThan(Duration.ofSeconds(60));
            switch (mess) {
                case THROWS -> assertThat(failure).isInstanceOf(IllegalStateException.class);
                case THROWS_ERROR -> assertThat(failure).isInstanceOf(AssertionError.class);
                case CLOSES_BY_STATEMENT, CLOSES_BY_RESULT, CLOSES_BY_METADATA, CLOSES_BY_UNWRAPPED_HANDLE ->
                    assertThat(failure).isInstanceOf(SQLException.class).hasMessageContaining("close is refused");
                case CLOSES_DRIVERS_CONNECTION, SESSION_IS_ENDED ->
                    assertThat(failure).isInstanceOf(LockLostException.class);
                default -> assertThat(failure).isNull();
            }
            assertWhole(open, 1);
        }
    }

    @DisplayName("N05, R27, R29: whatever the work of a transaction lock leaves behind, nobody else gets it")
    @ParameterizedTest
    @EnumSource(value = Mess.class, mode = Mode.EXCLUDE, names = "LEAVES_COPY") // BusyConnectionTest has it.
    void transactionLock(Mess mess) throws Exception {
        try (Lender.Open open = open(1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource(), NETWORK_TIMEOUT);
            Throwable failure = catchThrowable(
                    () -> locks.tryRunInTransaction(key, connection -> mess.make(SERVER, connection, true)));
            switch (mess) {
                case THROWS -> assertThat(failure).isInstanceOf(IllegalStateException.class);
                case THROWS_ERROR -> assertThat(failure).isInstanceOf(AssertionError.class);
                case LEAVES_FAILED_TRANSACTION ->
                    assertThat(failure).isInstanceOf(SQLException.class).hasMessageContaining("rolled back");
                case CLOSES_BY_STATEMENT, CLOSES_BY_RESULT, CLOSES_BY_METADATA, CLOSES_BY_UNWRAPPED_HANDLE ->
                    assertThat(failure).isInstanceOf(SQLException.class).hasMessageContaining("close is refused");
                case CLOSES_DRIVERS_CONNECTION, SESSION_IS_ENDED ->
                    assertThat(failure).isInstanceOf(LockLostException.class);
                default -> assertThat(failure).isNull();
            }
            assertWhole(open, 1);
        }
    }

    @DisplayName("R29: a locked session that the work gave back to the pool past the guard ends with the lock")
    @Test
    void handleClosedPastTheGuard() throws Exception {
        try (Lender.Open open = open(1)) {
            PinnedConnection pinned = PinnedConnection.borrow(open.dataSource(), NETWORK_TIMEOUT);
            HeldLock lock = HeldLock.tryLock(pinned, key);
            pinned.handle().close();

            assertThatExceptionOfType(LockLostException.class).isThrownBy(lock::close);
            await().until(() -> DATABASE.table().holders(key.bits()).isEmpty());
            for (int borrowed = 0; borrowed < 3; borrowed++) {
                // A pool that wasn't asked to look at what it lends can't know yet that it has a dead connection.
                try (Connection next = open.dataSource().getConnection()) {
                    assertThat(Sql.text(next, "SELECT pg_backend_pid()"))
                            .isNotEqualTo(String.valueOf(lock.backendPid()));
                } catch (SQLException e) {
                    assertThat(e.getMessage()).contains("closed");
                }
            }
        }
    }

    @DisplayName("N05: a key that is taken, and an end of the wait, cost no slot")
    @Test
    void takenKey() throws Exception {
        try (Lender.Open open = open(1);
                Connection other = DATABASE.connect()) {
            assertThat(Sql.tryLock(other, key.bits())).isTrue();
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource());
            for (int round = 0; round < 3; round++) {
                assertThat(locks.tryAcquire(key)).isEmpty();
                assertThat(locks.tryRunInTransaction(key, connection -> true).wasSkipped())
                        .isTrue();
                assertThatThrownBy(() -> locks.acquire(key, Duration.ofMillis(1)))
                        .isInstanceOf(LockTimeoutException.class);
            }
            Sql.execute(other, "SELECT pg_advisory_unlock_all()");
            assertWhole(open, 1);
        }
    }
}
