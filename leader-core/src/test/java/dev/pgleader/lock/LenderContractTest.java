package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.assertj.core.api.Assumptions.assumeThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.TakeoverDelay;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.PGConnection;
import org.postgresql.jdbc.PgConnection;

/**
 * What holds for each DataSource that users bring (N05): whatever electors and helpers, or their work, do with its
 * connections, the pool is whole afterwards. The table in docs/pools.md names it.
 */
@Timeout(120)
@ParameterizedClass(name = "{0}")
@EnumSource(Lender.class)
class LenderContractTest {

    private static final String DATABASE = "lender_contract";
    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final Duration NETWORK_TIMEOUT = Duration.ofSeconds(15);
    /** Work that leaves the connection busy costs it. */
    private static final Duration SHORT_NETWORK_TIMEOUT = Duration.ofMillis(1500);

    private static final int ROUNDS = Integer.getInteger("lender.rounds", 5);
    /** 100 of them take some 5 seconds. */
    private static final int SESSIONS = Integer.getInteger("lender.sessions", 15);

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

    @Parameter
    Lender lender;

    private final LockKey key = LockKey.of(KEYS.incrementAndGet());
    private LockTable table;
    private String settingsBefore;

    @BeforeAll
    static void createDatabase() throws SQLException {
        SERVER.createDatabase(DATABASE);
        try (Connection connection = SERVER.connect(DATABASE)) {
            Sql.execute(connection, "CREATE TABLE written (n int)");
        }
    }

    @BeforeEach
    void noteSettings() throws Exception {
        table = new LockTable(SERVER, DATABASE);
        try (Lender.Open open = open(1);
                Connection connection = open.dataSource().getConnection()) {
            settingsBefore = settings(connection);
            if (!connection.getAutoCommit()) {
                connection.rollback();
            }
        }
    }

    @AfterEach
    void closeTable() throws SQLException {
        table.close();
    }

    private Lender.Open open(int size) throws Exception {
        return lender.open(url(), size);
    }

    private static String url() {
        return SERVER.url(DATABASE, Map.of("user", SERVER.superuser(), "password", SERVER.superuserPassword()));
    }

    private static String settings(Connection connection) throws SQLException {
        return Sql.text(
                connection,
                "SELECT coalesce(string_agg(name || '=' || setting, ' ' ORDER BY name), '') FROM pg_settings"
                        + " WHERE source = 'session' AND setting IS DISTINCT FROM reset_val AND name NOT LIKE 'transaction\\_%'");
    }

    /** All slots at the same time. */
    private void assertWhole(Lender.Open open, int size) throws Exception {
        List<Connection> borrowed = new ArrayList<>();
        try {
            Set<Integer> pids = new HashSet<>();
            for (int slot = 0; slot < size; slot++) {
                Connection connection = open.dataSource().getConnection();
                borrowed.add(connection);
                assertThat(connection.getAutoCommit()).isTrue();
                assertThat(connection.isReadOnly()).isFalse();
                assertThat(connection.getNetworkTimeout()).isZero();
                assertThat(connection.unwrap(PgConnection.class).getPrepareThreshold())
                        .isEqualTo(5);
                assertThat(pids.add(Sql.backendPid(connection))).isTrue();
                assertThat(settings(connection)).isEqualTo(settingsBefore);
                assertThat(Sql.text(connection, "SELECT count(*) FROM pg_listening_channels()"))
                        .isEqualTo("0");
                assertThat(Sql.text(
                                connection,
                                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"))
                        .isEqualTo("0");
                assertThat(Sql.text(connection, "SELECT current_setting('app.tenant', true)"))
                        .isIn(null, "");
            }
        } finally {
            for (Connection connection : borrowed) {
                connection.close();
            }
        }
        await().atMost(PATIENCE).until(() -> table.holders(key.bits()).isEmpty());
        await().atMost(PATIENCE).until(() -> table.sessions("pg-leader/").isEmpty());
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
        await().atMost(PATIENCE).until(() -> elected.get() == count);
    }

    @DisplayName("N05: electors that lead, lose their session, lead again and close cost no slot")
    @ParameterizedTest(name = "pool of {0}")
    @ValueSource(ints = {1, SIZE})
    void electors(int size) throws Exception {
        try (Lender.Open open = open(size)) {
            for (int round = 1; round <= ROUNDS; round++) {
                int rounds = round;
                try (LeaderElector elector = lead(open)) {
                    SERVER.terminateBackend(table.awaitHolder(key.bits(), PATIENCE));
                    await().atMost(PATIENCE).until(() -> revoked.get() == 2 * rounds - 1);
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
        LockSession.Settings settings =
                new LockSession.Settings("rounds", Duration.ofSeconds(20), Duration.ofSeconds(15), true);
        try (Lender.Open open = open(SIZE)) {
            for (int round = 0; round < SESSIONS; round++) {
                // The server may take a moment to see that the last session has gone.
                LockKey fresh = LockKey.of(KEYS.incrementAndGet());
                LockSession session = LockSession.open(ConnectionSource.of(open.dataSource()), settings);
                assertThat(session.attempt(List.of(fresh)).granted()).containsExactly(fresh);
                switch (round % 3) {
                    case 0 -> {
                        SERVER.terminateBackend(session.facts().backendPid());
                        session.abort();
                    }
                    case 1 -> session.abort();
                    default -> session.close();
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
                                    return table.holders(key.bits());
                                })
                                .value())
                        .hasSize(1);
            }
            assertWhole(open, 1);
        }
    }

    /** Work that leaves the connection in a state. */
    private enum Mess {
        THROWS,
        THROWS_ERROR,
        CLOSES_BY_STATEMENT,
        CLOSES_BY_RESULT,
        CLOSES_BY_METADATA,
        CLOSES_BY_UNWRAPPED_HANDLE,
        CLOSES_DRIVERS_CONNECTION,
        LEAVES_TRANSACTION,
        LEAVES_FAILED_TRANSACTION,
        LEAVES_COPY,
        LEAVES_SETTINGS,
        LEAVES_ROLE_OF_ITS_OWN,
        LEAVES_LISTENER,
        LEAVES_LOCKS,
        LEAVES_JDBC_SETTINGS,
        SESSION_IS_ENDED;

        Duration networkTimeout() {
            return this == LEAVES_COPY ? SHORT_NETWORK_TIMEOUT : NETWORK_TIMEOUT;
        }
    }

    @SuppressWarnings("StatementSwitchToExpressionSwitch")
    private boolean make(Mess mess, Connection connection, boolean inTransaction) throws SQLException {
        switch (mess) {
            case THROWS -> throw new IllegalStateException("work");
            case THROWS_ERROR -> throw new AssertionError("work");
            case CLOSES_BY_STATEMENT -> {
                try (Statement statement = connection.createStatement()) {
                    statement.getConnection().close();
                }
            }
            case CLOSES_BY_RESULT -> {
                try (PreparedStatement statement = connection.prepareStatement("SELECT 1");
                        ResultSet rows = statement.executeQuery()) {
                    rows.getStatement().getConnection().close();
                }
            }
            case CLOSES_BY_METADATA -> connection.getMetaData().getConnection().close();
            case CLOSES_BY_UNWRAPPED_HANDLE ->
                connection.unwrap(Connection.class).close();
            case CLOSES_DRIVERS_CONNECTION ->
                connection.unwrap(PgConnection.class).close();
            case LEAVES_TRANSACTION -> {
                Sql.execute(connection, inTransaction ? "SELECT 1" : "BEGIN");
                Sql.execute(connection, "INSERT INTO written VALUES (-1)");
            }
            case LEAVES_FAILED_TRANSACTION -> {
                Sql.execute(connection, inTransaction ? "SELECT 1" : "BEGIN");
                assertThat(catchThrowable(() -> Sql.execute(connection, "SELECT 1 / 0")))
                        .isInstanceOf(SQLException.class);
            }
            case LEAVES_COPY ->
                connection.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY written FROM STDIN");
            case LEAVES_SETTINGS -> {
                Sql.execute(connection, "SET statement_timeout = 54321");
                Sql.execute(connection, "SELECT set_config('app.tenant', 'other', false)");
            }
            case LEAVES_ROLE_OF_ITS_OWN -> Sql.execute(connection, "SET ROLE pg_monitor");
            case LEAVES_LISTENER -> Sql.execute(connection, "LISTEN somebody");
            case LEAVES_LOCKS -> Sql.execute(connection, "SELECT pg_advisory_lock(4711)");
            case LEAVES_JDBC_SETTINGS -> {
                connection.setNetworkTimeout(Runnable::run, 12_345);
                if (!inTransaction) {
                    connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                    connection.setReadOnly(true);
                    connection.setAutoCommit(false);
                }
            }
            case SESSION_IS_ENDED -> SERVER.terminateBackend(Sql.backendPid(connection));
        }
        return true;
    }

    @DisplayName("N05, R27, R29: whatever the work of a session lock leaves behind, nobody else gets it")
    @ParameterizedTest
    @EnumSource(Mess.class)
    void sessionLock(Mess mess) throws Exception {
        try (Lender.Open open = open(1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource(), mess.networkTimeout());
            long startNanos = System.nanoTime();
            Throwable failure =
                    catchThrowable(() -> locks.tryRunLocked(key, connection -> make(mess, connection, false)));
            assertThat(Duration.ofNanos(System.nanoTime() - startNanos)).isLessThan(Duration.ofSeconds(60));
            switch (mess) {
                case THROWS -> assertThat(failure).isInstanceOf(IllegalStateException.class);
                case THROWS_ERROR -> assertThat(failure).isInstanceOf(AssertionError.class);
                case CLOSES_BY_STATEMENT, CLOSES_BY_RESULT, CLOSES_BY_METADATA, CLOSES_BY_UNWRAPPED_HANDLE ->
                    assertThat(failure).isInstanceOf(SQLException.class).hasMessageContaining("close is refused");
                case LEAVES_COPY, CLOSES_DRIVERS_CONNECTION, SESSION_IS_ENDED ->
                    assertThat(failure).isInstanceOf(LockLostException.class);
                default -> assertThat(failure).isNull();
            }
            assertWhole(open, 1);
        }
    }

    @DisplayName("N05, R27, R29: whatever the work of a transaction lock leaves behind, nobody else gets it")
    @ParameterizedTest
    @EnumSource(Mess.class)
    void transactionLock(Mess mess) throws Exception {
        try (Lender.Open open = open(1)) {
            AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource(), mess.networkTimeout());
            Throwable failure =
                    catchThrowable(() -> locks.tryRunInTransaction(key, connection -> make(mess, connection, true)));
            switch (mess) {
                case THROWS -> assertThat(failure).isInstanceOf(IllegalStateException.class);
                case THROWS_ERROR -> assertThat(failure).isInstanceOf(AssertionError.class);
                case LEAVES_FAILED_TRANSACTION ->
                    assertThat(failure).isInstanceOf(SQLException.class).hasMessageContaining("rolled back");
                case CLOSES_BY_STATEMENT, CLOSES_BY_RESULT, CLOSES_BY_METADATA, CLOSES_BY_UNWRAPPED_HANDLE ->
                    assertThat(failure).isInstanceOf(SQLException.class).hasMessageContaining("close is refused");
                case LEAVES_COPY, CLOSES_DRIVERS_CONNECTION, SESSION_IS_ENDED ->
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
            await().atMost(PATIENCE).until(() -> table.holders(key.bits()).isEmpty());
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

    /** With all of them it takes minutes: the long lane has them. */
    static Stream<Lender> otherPools() {
        Stream<Lender> all = Stream.of(
                Lender.AGROAL, Lender.C3P0, Lender.DBCP2, Lender.TOMCAT, Lender.TOMCAT_BEFORE_11_0_22, Lender.DRUID);
        return Boolean.getBoolean("lender.all") ? all : all.limit(2);
    }

    @DisplayName("N05: each pool gets its slot back through each wrapper, too")
    @ParameterizedTest
    @MethodSource("otherPools")
    void aroundOtherPools(Lender pool) throws Exception {
        assumeThat(lender.isWrapper()).isTrue();
        try (Lender.Open open = lender.around(pool, url(), 1)) {
            LockSession session = LockSession.open(
                    ConnectionSource.of(open.dataSource()),
                    new LockSession.Settings("wrapped", Duration.ofSeconds(20), Duration.ofSeconds(5), true));
            assertThat(session.attempt(List.of(key)).granted()).hasSize(1);
            session.close();
            awaitWhole(open);
            for (Mess mess : List.of(Mess.SESSION_IS_ENDED, Mess.LEAVES_SETTINGS, Mess.LEAVES_COPY)) {
                AdvisoryLocks locks = AdvisoryLocks.on(open.dataSource(), mess.networkTimeout());
                assertThat(catchThrowable(() -> locks.tryRunLocked(key, connection -> make(mess, connection, false))))
                        .satisfiesAnyOf(
                                failure -> assertThat(failure).isNull(),
                                failure -> assertThat(failure).isInstanceOf(LockLostException.class));
                awaitWhole(open);
            }
        }
    }

    /** Agroal clears up behind a wrapper a moment later. */
    private void awaitWhole(Lender.Open open) {
        await().atMost(PATIENCE).ignoreExceptions().untilAsserted(() -> assertWhole(open, 1));
    }

    @DisplayName("N05: a key that is taken, and an end of the wait, cost no slot")
    @Test
    void takenKey() throws Exception {
        try (Lender.Open open = open(1);
                Connection other = SERVER.connect(DATABASE)) {
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
