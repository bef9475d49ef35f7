package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The guarantee: a leader that is cut off stops trusting itself before the server gives its lock away. */
@Timeout(300)
class LeaseGuaranteeTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final int ROUNDS = Integer.getInteger("lease.rounds", 30);
    private static final int ROUNDS_AT_A_TIME = 10;

    private static final ElectorOptions SHORT_LEASE = TestCandidate.FAST.toBuilder()
            .leaseDuration(Duration.ofMillis(1200))
            .safetyMargin(Duration.ofMillis(200))
            .healthCheckInterval(Duration.ofMillis(200))
            .healthCheckTimeout(Duration.ofMillis(700))
            .retryInterval(Duration.ofMillis(100))
            .build();

    /** What one round measured, in microseconds from the moment at which the network began to swallow. */
    private record Round(long ceasedToLead, long lockSeenWithAnother) {}

    @Test
    void aLeaderBehindASwallowingNetworkCeasesToLeadBeforeTheServerElectsAnother() throws Exception { // C09, C12, X10
        ExecutorService rounds = Executors.newFixedThreadPool(ROUNDS_AT_A_TIME);
        try {
            List<Future<Round>> results = new ArrayList<>();
            for (int i = 0; i < ROUNDS; i++) {
                results.add(rounds.submit(LeaseGuaranteeTest::round));
            }
            List<Long> ceased = new ArrayList<>();
            List<Long> margins = new ArrayList<>();
            for (Future<Round> result : results) {
                Round round = result.get(150, TimeUnit.SECONDS);
                ceased.add(round.ceasedToLead());
                margins.add(round.lockSeenWithAnother() - round.ceasedToLead());
            }
            Percentiles cut = new Percentiles("network swallows to isLeader() == false", ceased);
            Percentiles margin = new Percentiles("isLeader() == false to the lock with another session", margins);
            assertThat(cut.at(100)).isLessThanOrEqualTo(SHORT_LEASE.trustWindow());
            assertThat(margin.at(0)).isPositive();
        } finally {
            rounds.shutdownNow();
        }
    }

    private static Round round() throws Exception {
        long bits = freshKeyBits();
        LockKey key = LockKey.of(bits);
        try (TcpProxy proxy = new TcpProxy(SERVER.port());
                LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);
                TestCandidate cutOff = TestCandidate.start(
                        "cut-off", direct(SERVER, proxy.port()), key, builder -> builder.options(SHORT_LEASE))) {
            cutOff.awaitElected(1);
            try (TestCandidate other =
                    TestCandidate.start("other", direct(SERVER), key, builder -> builder.options(SHORT_LEASE))) {
                other.backendPid();
                int oldHolder = cutOff.backendPid();
                proxy.all().flow(Flow.SWALLOW);
                // After the change: any check that still succeeded began before.
                long swallowedAt = System.nanoTime();

                long lastSeenLeading = swallowedAt;
                long seenWithAnother;
                while (true) {
                    List<Integer> holders = locks.holders(bits);
                    // The order matters: had it led when the lock was seen elsewhere, this would see it.
                    long before = System.nanoTime();
                    boolean leads = cutOff.elector().isLeader();
                    long now = System.nanoTime();
                    if (leads) {
                        lastSeenLeading = before;
                    }
                    if (!holders.isEmpty() && holders.get(0) != oldHolder) {
                        assertThat(leads).as("two leaders").isFalse();
                        seenWithAnother = now;
                        break;
                    }
                    assertThat(now - swallowedAt).isLessThan(PATIENCE.toNanos());
                }
                other.awaitElected(1);
                assertThat(cutOff.awaitRevoked(1).reason())
                        .isIn(RevocationReason.CHECK_TIMEOUT, RevocationReason.LEASE_EXPIRED);
                return new Round(
                        TimeUnit.NANOSECONDS.toMicros(lastSeenLeading - swallowedAt),
                        TimeUnit.NANOSECONDS.toMicros(seenWithAnother - swallowedAt));
            }
        }
    }
}
