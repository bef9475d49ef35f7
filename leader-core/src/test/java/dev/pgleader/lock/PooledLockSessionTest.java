package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

/** The contract over connections of a pool that opens transactions, of an isolation that keeps snapshots. */
class PooledLockSessionTest extends PostgresLockSessionContract {

    private static final String DATABASE = "pooled_contract";
    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final int POOL_SIZE = 10;

    private final HikariDataSource pool = pool();
    private final ConnectionSource source = ConnectionSource.of(pool);

    @BeforeAll
    static void createDatabase() throws SQLException {
        SERVER.createDatabase(DATABASE);
    }

    private HikariDataSource pool() {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(PostgresServer.url(network.port(), DATABASE, Map.of()));
        config.setUsername(SERVER.superuser());
        config.setPassword(SERVER.superuserPassword());
        config.setAutoCommit(false);
        config.setTransactionIsolation("TRANSACTION_REPEATABLE_READ");
        config.setMaximumPoolSize(POOL_SIZE);
        config.setMinimumIdle(0);
        config.setConnectionTimeout(5_000);
        return new HikariDataSource(config);
    }

    @AfterEach
    void closePool() {
        pool.close();
    }

    @Override
    InetSocketAddress server() {
        return new InetSocketAddress(InetAddress.getLoopbackAddress(), SERVER.port());
    }

    @Override
    Connection connect() throws SQLException {
        return SERVER.connect(DATABASE);
    }

    @Override
    LockSession openSession(Settings settings) throws Exception {
        return LockSession.open(source, settings);
    }

    @Override
    Duration lossIsNoticedWithin() {
        return Duration.ofMillis(1_700);
    }

    @Test
    @DisplayName("C01, F14: a session's physical connection never goes back to the pool, however the session ends")
    void neverReused() throws Exception {
        Set<Integer> sessions = new HashSet<>();
        for (int round = 0; round < 4; round++) {
            LockSession session = open("borrower");
            assertThat(session.attempt(List.of(freshKey())).granted()).hasSize(1);
            assertThat(sessions.add(session.facts().backendPid())).isTrue();
            switch (round % 3) {
                case 0 -> session.close();
                case 1 -> session.abort();
                default -> {
                    terminate(session.facts().backendPid());
                    assertLost(
                            () -> session.awaitNotifications(
                                    Duration.ofSeconds(5).toNanos()),
                            "57P01",
                            "administrator");
                    session.abort();
                }
            }
        }
        for (int round = 0; round < 4; round++) {
            try (Connection borrowed = pool.getConnection()) {
                assertThat(sessions).doesNotContain(Sql.backendPid(borrowed));
                assertThat(borrowed.getAutoCommit()).isFalse();
                assertThat(Sql.text(borrowed, "SHOW application_name")).doesNotContain("pg-leader");
                borrowed.rollback();
            }
        }
        assertThat(pool.getHikariPoolMXBean().getActiveConnections()).isZero();
        await().until(() -> table.sessions("pg-leader/").isEmpty());
    }

    @Test
    void whatIsSaidOnOtherChannelsOfABorrowedConnectionIsNotForIt() throws Exception {
        try (Connection borrowed = pool.getConnection()) {
            Sql.execute(borrowed, "LISTEN somebody_elses");
            borrowed.commit();
        }
        LockSession session = open("borrower");
        try (Connection other = connect()) {
            Sql.execute(other, "NOTIFY somebody_elses, 'resign bigint:1'");
        }
        session.tell(List.of("ours"));
        assertThat(receive(session, 1)).containsExactly("ours");
    }

    @Test
    @DisplayName("C03: a session outlives the pool's wish to retire its connection")
    void softEviction() throws Exception {
        LockKey key = freshKey();
        LockSession session = open("leader");
        assertThat(session.attempt(List.of(key)).granted()).containsExactly(key);
        pool.getHikariPoolMXBean().softEvictConnections();
        assertThat(session.check()).containsExactly(key);
        assertThat(table.holders(key.bits())).containsExactly(session.facts().backendPid());
    }
}
