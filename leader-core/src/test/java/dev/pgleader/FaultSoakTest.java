package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Whatever strikes, there are never two leaders, and soon one again. */
class FaultSoakTest {

    private static final Duration SHORT = Duration.ofSeconds(10);
    private static final int LEAST_FAULTS_A_MINUTE = 25;

    @Test
    void shortForm() throws Exception {
        soak(SHORT);
    }

    @Test
    @Tag("soak")
    void longForm() throws Exception {
        soak(Duration.ofMinutes(Long.getLong("faults.minutes", 10)));
    }

    private static void soak(Duration duration) throws Exception {
        long seed = Long.getLong("faults.seed", ThreadLocalRandom.current().nextLong());
        System.out.println("faults.seed=" + seed);
        try (FaultSoak soak = new FaultSoak(seed)) {
            soak.run(duration, (int) (duration.toSeconds() * LEAST_FAULTS_A_MINUTE / 60));
            System.out.println(soak.report(duration));
            soak.assertNeverTwo();
            assertThat(soak.recoveries())
                    .allSatisfy(micros ->
                            assertThat(Duration.ofNanos(micros * 1000)).isLessThan(FaultSoak.BOUND));
            assertThat(soak.terms()).isPositive();
        }
    }
}
