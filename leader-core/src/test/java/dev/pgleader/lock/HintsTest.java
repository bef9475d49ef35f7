package dev.pgleader.lock;

import static dev.pgleader.lock.LockSessionContract.elapsed;
import static dev.pgleader.lock.LockSessionContract.payloads;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.PostgresServer.ShutdownMode;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A server that can't take a notification, for reasons that lie in another database. */
@Timeout(60)
class HintsTest {

    private static final LockKey KEY = LockKey.of(5);
    private static final String OTHER = "other";
    private static final Duration NETWORK_TIMEOUT = Duration.ofSeconds(4);
    private static final Settings SETTINGS = new Settings("hints", Duration.ofSeconds(20), NETWORK_TIMEOUT, true);

    private final ExecutorService executor = Executors.newCachedThreadPool();
    private PostgresServer server;

    @BeforeEach
    void launch() throws SQLException {
        server = PostgresServer.launch();
        server.createDatabase(OTHER);
    }

    @AfterEach
    void stop() {
        executor.shutdownNow();
        server.close();
    }

    private LockSession open() throws LockSessionException {
        return LockSession.open(
                ConnectionSource.of(
                        server.url(PostgresServer.DEFAULT_DATABASE), server.superuser(), server.superuserPassword()),
                SETTINGS);
    }

    /** A session that was opened before works on, and so does one that is opened now. */
    private static void assertWorksButTellsNothing(LockSession session, Duration atMost) throws Exception {
        assertThat(session.attempt(List.of(KEY)).granted()).containsExactly(KEY);
        assertThat(session.check()).containsExactly(KEY);
        long start = System.nanoTime();
        assertThat(session.tell(List.of("lost"))).isFalse();
        assertThat(elapsed(start)).isLessThan(atMost);
        assertThat(session.check()).containsExactly(KEY);
        session.release(List.of(KEY));
        assertThat(session.check()).isEmpty();
        assertThat(session.awaitNotifications(0)).isEmpty();
    }

    @Test
    @DisplayName("N01: while the notification queue is full, telling says no, and all else works; later it works again")
    void fullQueue() throws Exception {
        try (Connection connection = server.connect()) {
            assumeTrue(
                    Sql.truth(connection, "SELECT current_setting('max_notify_queue_pages', true) IS NOT NULL"),
                    "before PostgreSQL 17 the queue takes 8 GB");
        }
        server.setting("max_notify_queue_pages", "64");
        server.restart(ShutdownMode.FAST);
        LockSession before = open();
        LockSession during;
        try (Connection lazy = server.connect(OTHER);
                Connection filling = server.connect(OTHER)) {
            Sql.execute(lazy, "LISTEN anything");
            lazy.setAutoCommit(false);
            Sql.execute(lazy, "SELECT 1");
            await().until(() -> isFull(filling));
            assertWorksButTellsNothing(before, NETWORK_TIMEOUT);
            during = open();
            assertWorksButTellsNothing(during, NETWORK_TIMEOUT);
        }
        await().until(() -> before.tell(List.of("told")));
        assertThat(payloads(during, Duration.ofSeconds(10))).containsExactly("told");
        during.close();
        before.close();
    }

    private static boolean isFull(Connection filling) {
        try {
            Sql.execute(filling, "SELECT pg_notify('anything', repeat('x', 7000)) FROM generate_series(1, 20)");
            return false;
        } catch (SQLException e) {
            assertThat(e.getMessage()).contains("NOTIFY queue");
            return true;
        }
    }

    @Test
    @DisplayName("N01: while a commit hangs in another database with the queue in its hands, telling gives up in time")
    void hangingCommit() throws Exception {
        try (Connection other = server.connect(OTHER)) {
            Sql.execute(other, "CREATE TABLE written (n int)");
        }
        LockSession before = open();
        server.setting("synchronous_standby_names", "nobody");
        try (Connection hanging = server.connect(OTHER);
                Connection observer = server.connect()) {
            int pid = Sql.backendPid(hanging);
            Future<?> commit = executor.submit(() -> {
                Sql.execute(hanging, "INSERT INTO written SELECT 1 FROM (SELECT pg_notify('anything', '')) AS told");
                return null;
            });
            await().until(() -> Sql.truth(
                    observer,
                    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ? AND wait_event = 'SyncRep')",
                    pid));
            assertWorksButTellsNothing(before, NETWORK_TIMEOUT.dividedBy(2));
            LockSession during = open();
            assertWorksButTellsNothing(during, NETWORK_TIMEOUT.dividedBy(2));
            Sql.execute(observer, "SELECT pg_cancel_backend(" + pid + ")");
            commit.get(10, TimeUnit.SECONDS);
            assertThat(before.tell(List.of("told"))).isTrue();
            assertThat(payloads(during, Duration.ofSeconds(10))).containsExactly("told");
            during.close();
        }
        before.close();
    }
}
