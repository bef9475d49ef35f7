package dev.pgleader;

import static dev.pgleader.Candidate.FAST;
import static dev.pgleader.Candidate.PATIENCE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.Credentials;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Logins that are refused for a while, as when a password is changed on the server first. */
@Timeout(120)
class PasswordRotationTest {

    private static final int REFUSED_LOGINS = 5;
    private static final double LEAST_JITTER = 0.8;

    private static PostgresServer server;

    @BeforeAll
    static void launch() {
        server = PostgresServer.builder().passwords().tls().launch();
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @ParameterizedTest
    @CsvSource(
            quoteCharacter = '"',
            value = {
                "rotating, PASSWORD 'second', PASSWORD 'second', password authentication failed",
                "barred, NOLOGIN, LOGIN PASSWORD 'second', is not permitted to log in"
            })
    void refusedLoginsAreTriedOnceABackoffStepWithTheCredentialsOfThatMoment(
            String role, String refusal, String remedy, String message) throws Exception {
        server.createRole(role, "first");
        AtomicReference<Credentials> current = new AtomicReference<>(new Credentials(role, "first"));
        List<Long> askedAt = new CopyOnWriteArrayList<>();
        try (TcpProxy network = new TcpProxy(server.port())) {
            ConnectionSource source = ConnectionSource.of(
                    PostgresServer.url(network.port(), PostgresServer.DEFAULT_DATABASE, Map.of()), () -> {
                        askedAt.add(System.nanoTime());
                        return current.get();
                    });
            try (Candidate candidate = Candidate.start("rotating", source, Candidate.freshKey())) {
                candidate.awaitElected(1);
                int pid = candidate.backendPid();
                server.execute("ALTER ROLE " + role + " " + refusal);
                int asked = askedAt.size();
                int accepted = network.acceptedConnections();
                server.terminateBackend(pid);
                candidate.awaitRevoked(1);
                await().atMost(PATIENCE).until(() -> askedAt.size() - asked > REFUSED_LOGINS);
                LeaderStatus.Problem problem =
                        candidate.elector().status().problem().orElseThrow();
                assertThat(problem.fault()).isEqualTo(Fault.UNREACHABLE);
                assertThat(problem.message()).contains(message);
                for (int step = 0; step < REFUSED_LOGINS; step++) {
                    assertThat(Duration.ofNanos(askedAt.get(asked + step + 1) - askedAt.get(asked + step)))
                            .isGreaterThanOrEqualTo(shortestDelay(step));
                }

                server.execute("ALTER ROLE " + role + " " + remedy);
                current.set(new Credentials(role, "second"));
                candidate.awaitElected(2);
                assertThat(candidate.elector().status().problem()).isEmpty();
                assertThat(network.acceptedConnections() - accepted)
                        .as("connections for %s credentials", askedAt.size() - asked)
                        .isEqualTo(askedAt.size() - asked);
                candidate.assertCallbacksInOrder();
            }
        }
    }

    private static Duration shortestDelay(int step) {
        long millis = Math.min(
                (FAST.retryInterval().toMillis() / 4) << step,
                FAST.maxReconnectDelay().toMillis());
        return Duration.ofMillis((long) (LEAST_JITTER * millis));
    }
}
