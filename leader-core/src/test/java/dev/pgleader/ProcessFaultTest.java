package dev.pgleader;

import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What happens to whole processes: killed, stopped and continued. */
@Timeout(300)
class ProcessFaultTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final int KILLS = Integer.getInteger("kill.rounds", 3);

    private final long bits = freshKeyBits();

    @Test
    void aKilledLeaderIsReplacedWithinARetry() throws Exception { // F18
        // So long that the kernel frees the lock, which closes the connection, and not the lease.
        ElectorOptions options = TestCandidate.FAST.toBuilder()
                .leaseDuration(Duration.ofSeconds(60))
                .build();
        List<Long> micros = new ArrayList<>();
        JavaProcess leader = ElectorProcess.start(SERVER, SERVER.port(), bits, "first", options);
        leader.awaitLine("elected 1", PATIENCE);
        for (int round = 1; round <= KILLS; round++) {
            JavaProcess follower = ElectorProcess.start(SERVER, SERVER.port(), bits, "follower-" + round, options);
            try (LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE)) {
                String name = "pg-leader/follower-" + round;
                await().atMost(PATIENCE).until(() -> locks.sessions(name).size() == 1);
            }
            long killedAt = System.nanoTime();
            leader.kill();
            JavaProcess.Line elected = follower.awaitLine("elected 1", PATIENCE);
            micros.add(TimeUnit.NANOSECONDS.toMicros(elected.arrivalNanos() - killedAt));
            leader.close();
            leader = follower;
        }
        leader.close();
        Percentiles times = new Percentiles("kill -9 of the leader's JVM to the other's onElected", micros);
        assertThat(times.at(100)).as(times.toString()).isLessThan(PATIENCE);
    }

    @Test
    void aStoppedLeaderIsReplacedAndDoesNotLeadWhenItContinues() { // C38
        ElectorOptions options = TestCandidate.FAST;
        try (JavaProcess stopped = ElectorProcess.start(SERVER, SERVER.port(), bits, "stopped", options)) {
            stopped.awaitLine("elected 1", PATIENCE);
            try (JavaProcess other = ElectorProcess.start(SERVER, SERVER.port(), bits, "other", options)) {
                stopped.pause();
                other.awaitLine("elected 1", PATIENCE);
                stopped.resume();
                assertThat(stopped.awaitLine("woke", PATIENCE).text()).isEqualTo("woke false");
                stopped.awaitLine("revoked 1", PATIENCE);
                assertThat(stopped.lines())
                        .filteredOn(line -> line.text().startsWith("revoked"))
                        .hasSize(1);

                other.kill();
                stopped.awaitLine("elected 2", PATIENCE);
            }
        }
    }

    @Test
    void aLeaderStoppedForLessThanItsTrustWindowGoesOn() throws Exception { // C38 (a)
        ElectorOptions options = TestCandidate.FAST.toBuilder()
                .leaseDuration(Duration.ofSeconds(10))
                .build();
        try (JavaProcess leader = ElectorProcess.start(SERVER, SERVER.port(), bits, "leader", options);
                JavaProcess follower = ElectorProcess.start(SERVER, SERVER.port(), bits, "follower", options)) {
            await().atMost(PATIENCE).until(() -> hasElected(leader) || hasElected(follower));
            JavaProcess stopped = hasElected(leader) ? leader : follower;
            JavaProcess other = stopped == leader ? follower : leader;
            stopped.pause();
            long stoppedAt = System.nanoTime();
            await().atMost(PATIENCE)
                    .until(() -> System.nanoTime() - stoppedAt
                            > Duration.ofMillis(1500).toNanos());
            stopped.resume();
            assertThat(stopped.awaitLine("woke", PATIENCE).text()).isEqualTo("woke true");
            assertThat(stopped.lines()).noneMatch(line -> line.text().startsWith("revoked"));
            assertThat(hasElected(other)).isFalse();
        }
    }

    @Test
    void aProcessThatForgetsToCloseEndsAndItsLockIsFree() throws Exception { // X04
        try (JavaProcess forgetful = JavaProcess.start(
                        Forgetful.class,
                        SERVER.url(PostgresServer.DEFAULT_DATABASE),
                        SERVER.superuser(),
                        SERVER.superuserPassword(),
                        Long.toString(bits));
                LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE)) {
            assertThat(forgetful.exitCode(PATIENCE)).isZero();
            assertThat(forgetful.lines()).extracting(JavaProcess.Line::text).contains("leads: true");
            locks.awaitFree(bits, PATIENCE);
        }
    }

    /** A main method that comes to its end while its elector leads. */
    static final class Forgetful {
        public static void main(String[] arguments) throws InterruptedException {
            LeaderElector elector = LeaderElector.builder()
                    .connectTo(ConnectionSource.of(arguments[0], arguments[1], arguments[2]))
                    .key(LockKey.of(Long.parseLong(arguments[3])))
                    .options(TestCandidate.FAST)
                    .build();
            elector.runWhileLeader(leadership -> new CountDownLatch(1).await());
            elector.start();
            boolean leads = elector.awaitLeadership(PATIENCE).isPresent();
            System.out.println("leads: " + leads);
        }
    }

    private static boolean hasElected(JavaProcess process) {
        return process.lines().stream().anyMatch(line -> line.text().startsWith("elected"));
    }
}
