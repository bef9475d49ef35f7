package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.freshKey;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.Credentials;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LogCapture;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import dev.pgleader.testkit.TcpProxy;
import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.slf4j.event.Level;

/** Elections on a server that asks for passwords and offers TLS. */
@Timeout(300)
class SecuredServerTest {

    private static final String SECRET = "s3cret-Pa55";
    private static final String NEW_SECRET = "n3w-s3cret-Pa55";
    private static final int REFUSED_LOGINS = 5;
    /** Four fifths, by the clock of an attempt that asked late; half leaves room for a busy machine. */
    private static final double LEAST_JITTER = 0.5;

    @AutoClose
    private static final PostgresServer server =
            PostgresServer.builder().passwords().tls().launch();

    private final LockKey key = freshKey();

    @ParameterizedTest
    @CsvSource(
            quoteCharacter = '"',
            value = {
                "rotating, PASSWORD '" + NEW_SECRET + "', LOGIN, password authentication failed",
                "barred, NOLOGIN, LOGIN PASSWORD '" + NEW_SECRET + "', is not permitted to log in"
            })
    void refusedLoginsAreTriedOnceABackoffStepWithTheCredentialsOfThatMoment(
            String role, String refusal, String remedy, String message) throws Exception {
        server.createRole(role, SECRET);
        AtomicReference<Credentials> current = new AtomicReference<>(new Credentials(role, SECRET));
        List<Long> askedAt = new CopyOnWriteArrayList<>();
        try (LogCapture log = LogCapture.of("dev.pgleader", Level.DEBUG);
                TcpProxy network = new TcpProxy(server.port())) {
            ConnectionSource source = ConnectionSource.of(
                    PostgresServer.url(network.port(), PostgresServer.DEFAULT_DATABASE, Map.of()), () -> {
                        askedAt.add(System.nanoTime());
                        return current.get();
                    });
            try (TestCandidate candidate = TestCandidate.start("rotating", source, key)) {
                candidate.awaitElected(1);
                int pid = candidate.backendPid();
                server.execute("ALTER ROLE " + role + " " + refusal);
                int asked = askedAt.size();
                int accepted = network.acceptedConnections();
                server.terminateBackend(pid);
                candidate.awaitRevoked(1);
                await().atMost(PATIENCE).until(() -> askedAt.size() - asked > REFUSED_LOGINS);
                LeaderStatus status = candidate.elector().status();
                LeaderStatus.Problem problem = status.problem().orElseThrow();
                assertThat(problem.fault()).contains(Fault.LOGIN_REFUSED);
                assertThat(problem.message()).contains(message);
                assertThat(status.toString()).doesNotContain(SECRET);
                for (int step = 0; step < REFUSED_LOGINS; step++) {
                    assertThat(Duration.ofNanos(askedAt.get(asked + step + 1) - askedAt.get(asked + step)))
                            .isGreaterThanOrEqualTo(shortestDelay(step));
                }

                server.execute("ALTER ROLE " + role + " " + remedy);
                current.set(new Credentials(role, NEW_SECRET));
                candidate.awaitElected(2);
                assertThat(candidate.elector().status().problem()).isEmpty();
                assertThat(network.acceptedConnections() - accepted)
                        .as("connections for %s credentials", askedAt.size() - asked)
                        .isEqualTo(askedAt.size() - asked);
                candidate.assertCallbacksInOrder();
            }
            assertThat(log.messages(Level.WARN))
                    .filteredOn(warning -> warning.contains(message))
                    .hasSize(1);
            assertThat(log.events().toString()).doesNotContain(SECRET).doesNotContain(NEW_SECRET);
        }
    }

    private static Duration shortestDelay(int step) {
        long millis = Math.min(
                (FAST.retryInterval().toMillis() / 4) << step,
                FAST.maxReconnectDelay().toMillis());
        return Duration.ofMillis((long) (LEAST_JITTER * millis));
    }

    @Test
    void overTlsAReleaseIsHeardAtOnceAndSoIsALoss() throws Exception { // C13 (a)
        // So long that whatever happens soon comes from no check and no poll.
        Duration farOff = Duration.ofSeconds(30);
        Duration soon = Duration.ofSeconds(15);
        ElectorOptions patient = ElectorOptions.builder()
                .leaseDuration(Duration.ofMinutes(2))
                .healthCheckInterval(farOff)
                .retryInterval(farOff)
                .maxReconnectDelay(farOff)
                .takeoverDelay(TakeoverDelay.NONE)
                .build();
        Map<String, String> tls = Map.of(
                "sslmode", "verify-full", "sslrootcert", server.certificate().toString());
        ConnectionSource source = ConnectionSource.of(
                server.url(PostgresServer.DEFAULT_DATABASE, tls), server.superuser(), server.superuserPassword());
        try (Connection operator = server.connect();
                TestCandidate first = TestCandidate.start("first", source, key, builder -> builder.options(patient))) {
            first.awaitElected(1);
            try (TestCandidate second =
                    TestCandidate.start("second", source, key, builder -> builder.options(patient))) {
                for (TestCandidate candidate : List.of(first, second)) {
                    assertThat(Sql.truth(operator, "SELECT ssl FROM pg_stat_ssl WHERE pid = ?", candidate.backendPid()))
                            .isTrue();
                }
                long resignedAt = System.nanoTime();
                first.elector().resign().get(20, TimeUnit.SECONDS);
                assertThat(Duration.ofNanos(second.awaitElected(1).atNanos() - resignedAt))
                        .isLessThan(soon);

                int pid = second.backendPid();
                long terminatedAt = System.nanoTime();
                server.terminateBackend(pid);
                TestCandidate.Event revoked = second.awaitRevoked(1);
                assertThat(revoked.reason()).isEqualTo(RevocationReason.SESSION_LOST);
                assertThat(Duration.ofNanos(revoked.atNanos() - terminatedAt)).isLessThan(soon);
            }
        }
    }
}
