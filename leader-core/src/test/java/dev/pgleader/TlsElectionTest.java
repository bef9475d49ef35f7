package dev.pgleader;

import static dev.pgleader.Candidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Over TLS, too, the election thread waits on the socket. */
@Timeout(60)
class TlsElectionTest {

    /** So long that whatever happens soon comes from no check and no poll. */
    private static final Duration FAR_OFF = Duration.ofSeconds(20);

    private static final Duration SOON = Duration.ofSeconds(2);

    private static final ElectorOptions PATIENT = ElectorOptions.builder()
            .leaseDuration(Duration.ofMinutes(2))
            .healthCheckInterval(FAR_OFF)
            .retryInterval(FAR_OFF)
            .maxReconnectDelay(FAR_OFF)
            .takeoverDelay(TakeoverDelay.NONE)
            .build();

    private final LockKey key = LockKey.of(freshKeyBits());

    @Test
    void leadsHandsOverByNotificationAndHearsOfALossAtOnce() throws Exception { // C13 (a)
        try (PostgresServer server = PostgresServer.builder().tls().launch();
                Connection operator = server.connect()) {
            ConnectionSource source = ConnectionSource.of(
                    server.url(
                            PostgresServer.DEFAULT_DATABASE,
                            Map.of(
                                    "sslmode",
                                    "verify-full",
                                    "sslrootcert",
                                    server.certificate().toString())),
                    server.superuser(),
                    server.superuserPassword());
            try (Candidate first = Candidate.start("first", source, key, builder -> builder.options(PATIENT))) {
                first.awaitElected(1);
                try (Candidate second = Candidate.start("second", source, key, builder -> builder.options(PATIENT))) {
                    for (Candidate candidate : new Candidate[] {first, second}) {
                        assertThat(Sql.truth(
                                        operator, "SELECT ssl FROM pg_stat_ssl WHERE pid = ?", candidate.backendPid()))
                                .isTrue();
                    }
                    long resignedAt = System.nanoTime();
                    first.elector().resign().get(10, TimeUnit.SECONDS);
                    assertThat(Duration.ofNanos(second.awaitElected(1).atNanos() - resignedAt))
                            .isLessThan(SOON);

                    int pid = second.backendPid();
                    long terminatedAt = System.nanoTime();
                    server.terminateBackend(pid);
                    Candidate.Event revoked = second.awaitRevoked(1);
                    assertThat(revoked.reason()).isEqualTo(RevocationReason.SESSION_LOST);
                    assertThat(Duration.ofNanos(revoked.atNanos() - terminatedAt))
                            .isLessThan(SOON);
                }
            }
        }
    }
}
