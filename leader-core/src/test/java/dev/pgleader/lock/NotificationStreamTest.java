package dev.pgleader.lock;

import static dev.pgleader.lock.LockSessionContract.elapsed;
import static dev.pgleader.lock.LockSessionContract.payloads;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.lang.management.ManagementFactory;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Waiting on the socket between statements, plain and under TLS, whose records are no messages of PostgreSQL's. */
@Timeout(300)
class NotificationStreamTest {

    /** How the session is connected. */
    private enum Transport {
        PLAIN("disable"),
        TLS("verify-full");

        private final String sslMode;

        Transport(String sslMode) {
            this.sslMode = sslMode;
        }
    }

    private static final int NOTIFICATIONS = 20_000;
    private static final int LARGEST_BYTES = 1_000;

    @AutoClose
    private static final PostgresServer server = PostgresServer.builder().tls().launch();

    private final ExecutorService executor = Executors.newCachedThreadPool();

    @AfterEach
    void end() {
        executor.shutdownNow();
    }

    private static LockSession open(Transport transport) throws Exception {
        String url = server.url(
                PostgresServer.DEFAULT_DATABASE,
                Map.of(
                        "sslmode",
                        transport.sslMode,
                        "sslrootcert",
                        server.certificate().toString()));
        ConnectionSource source = ConnectionSource.of(url, server.superuser(), server.superuserPassword());
        Settings settings = new Settings("stream", Duration.ofSeconds(20), Duration.ofSeconds(10), true);
        LockSession session = LockSession.open(source, settings);
        try (Connection connection = server.connect()) {
            assertThat(Sql.truth(
                            connection,
                            "SELECT ssl FROM pg_stat_ssl WHERE pid = ?",
                            session.facts().backendPid()))
                    .isEqualTo(transport == Transport.TLS);
        }
        return session;
    }

    @ParameterizedTest
    @EnumSource(Transport.class)
    void noNotificationIsLostOrOutOfOrderWhileStatementsRunInBetween(Transport transport) throws Exception {
        LockSession session = open(transport);
        LockKey key = LockKey.of(1);
        assertThat(session.attempt(List.of(key)).granted()).containsExactly(key);
        Future<?> sending = executor.submit(() -> {
            send();
            return null;
        });
        int received = 0;
        long start = System.nanoTime();
        while (received < NOTIFICATIONS && elapsed(start).compareTo(Duration.ofSeconds(40)) < 0) {
            for (String payload : payloads(session, Duration.ofSeconds(1))) {
                if (!payload.equals(payload(received))) {
                    throw new AssertionError("not the notification " + received + ": " + payload);
                }
                received++;
            }
            assertThat(session.check()).containsExactly(key);
            assertThat(session.findHolders(List.of(key))).hasSize(1);
        }
        sending.get(20, TimeUnit.SECONDS);
        assertThat(received).isEqualTo(NOTIFICATIONS);
        assertThat(session.awaitNotifications(0)).isEmpty();
        session.close();
    }

    @ParameterizedTest
    @EnumSource(Transport.class)
    void anIdleWaitTakesNoProcessorTime(Transport transport) throws Exception {
        LockSession session = open(transport);
        Future<Duration> used = executor.submit(() -> {
            long before = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            long start = System.nanoTime();
            while (elapsed(start).compareTo(Duration.ofSeconds(1)) < 0) {
                assertThat(session.awaitNotifications(TimeUnit.SECONDS.toNanos(1)))
                        .isEmpty();
            }
            return Duration.ofNanos(ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before);
        });
        // Processor time, not time: a loop that asks again and again would use most of the second.
        assertThat(used.get(20, TimeUnit.SECONDS)).isLessThan(Duration.ofMillis(100));
        session.close();
    }

    @ParameterizedTest
    @EnumSource(Transport.class)
    void theLossOfTheBackendIsNoticedAtOnce(Transport transport) throws Exception {
        LockSession session = open(transport);
        Future<Long> noticed = executor.submit(() -> {
            assertThatThrownBy(() -> session.awaitNotifications(TimeUnit.SECONDS.toNanos(30)))
                    .isInstanceOf(LockSessionException.class)
                    .hasMessageContaining("administrator command");
            return System.nanoTime();
        });
        long start = System.nanoTime();
        server.terminateBackend(session.facts().backendPid());
        assertThat(Duration.ofNanos(noticed.get(20, TimeUnit.SECONDS) - start)).isLessThan(Duration.ofSeconds(15));
        session.abort();
    }

    @ParameterizedTest
    @EnumSource(Transport.class)
    void closeAndAbortOfAFrozenSessionWaitForNobody(Transport transport) throws Exception {
        LockSession closed = open(transport);
        LockSession aborted = open(transport);
        server.freeze();
        try {
            long start = System.nanoTime();
            aborted.abort();
            closed.close();
            assertThat(elapsed(start)).as("both, whose network timeout is 10 s").isLessThan(Duration.ofSeconds(8));
        } finally {
            server.thaw();
        }
    }

    private static String payload(int number) {
        return Character.toString('a' + number % 26).repeat(1 + (number * 7_919) % LARGEST_BYTES);
    }

    private static void send() throws SQLException {
        try (Connection sender = server.connect();
                PreparedStatement statement = sender.prepareStatement("SELECT pg_notify('pgleader', ?)")) {
            sender.setAutoCommit(false);
            for (int i = 0; i < NOTIFICATIONS; i++) {
                statement.setString(1, payload(i));
                statement.addBatch();
                if (i % 100 == 99) {
                    statement.executeBatch();
                    sender.commit();
                }
            }
        }
    }
}
