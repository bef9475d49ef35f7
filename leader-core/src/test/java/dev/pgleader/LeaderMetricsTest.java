package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKey;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.micrometer.LeaderMetrics;
import dev.pgleader.testkit.PostgresServer;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(300)
class LeaderMetricsTest {

    private final SimpleMeterRegistry registry = new SimpleMeterRegistry();

    @Test
    void allMetersExistBeforeAnythingHappens() {
        LeaderElector elector = LeaderElector.builder()
                .connectTo(direct(PostgresServer.shared()))
                .key("metrics")
                .build();
        new LeaderMetrics(elector, Tags.of("region", "here")).bindTo(registry);
        assertThat(registry.getMeters())
                .extracting(meter -> meter.getId().getName())
                .contains(
                        "pgleader.leader",
                        "pgleader.check.age",
                        "pgleader.elections",
                        "pgleader.term",
                        "pgleader.checks",
                        "pgleader.sessions",
                        "pgleader.callback.failures");
        for (RevocationReason reason : RevocationReason.values()) {
            assertThat(registry.get("pgleader.revocations")
                            .tag("reason", reason.name())
                            .counter()
                            .count())
                    .isZero();
        }
        for (Fault fault : Fault.values()) {
            assertThat(registry.get("pgleader.failures")
                            .tag("fault", fault.name())
                            .counter()
                            .count())
                    .isZero();
        }
        assertThat(registry.getMeters())
                .extracting(Meter::getId)
                .allMatch(id -> "metrics".equals(id.getTag("elector")) && "here".equals(id.getTag("region")));
        assertThat(registry.get("pgleader.leader").gauge().value()).isZero();
        assertThat(registry.get("pgleader.check.age").timeGauge().value()).isNaN();
    }

    @Test
    void metersTellWhatHappened() {
        try (TestCandidate candidate = TestCandidate.start("metered", direct(PostgresServer.shared()), freshKey())) {
            new LeaderMetrics(candidate.elector()).bindTo(registry);
            candidate.awaitElected(1);
            var unused = candidate.elector().resign();
            candidate.awaitElected(2);
            await().atMost(PATIENCE).untilAsserted(() -> {
                assertThat(registry.get("pgleader.leader").gauge().value()).isEqualTo(1);
                assertThat(registry.get("pgleader.elections").counter().count()).isPositive();
                assertThat(registry.get("pgleader.revocations")
                                .tag("reason", "RESIGNED")
                                .counter()
                                .count())
                        .isEqualTo(1);
                assertThat(registry.get("pgleader.term").timer().count()).isEqualTo(1);
                assertThat(registry.get("pgleader.attempts")
                                .tag("result", "granted")
                                .timer()
                                .count())
                        .isPositive();
                assertThat(registry.get("pgleader.checks").timer().totalTime(TimeUnit.NANOSECONDS))
                        .isPositive();
                assertThat(registry.get("pgleader.check.age").timeGauge().value(TimeUnit.SECONDS))
                        .isBetween(0.0, 20.0);
            });
        }
    }
}
