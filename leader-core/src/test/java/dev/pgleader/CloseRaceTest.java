package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Direction;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A closed elector leaves nothing behind, whenever it is closed. */
@Timeout(300)
class CloseRaceTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final int ROUNDS = Integer.getInteger("close.rounds", 12);
    private static final int CYCLES = Integer.getInteger("close.cycles", 25);

    private final long bits = freshKeyBits();
    private final LockKey key = LockKey.of(bits);

    @Test
    void closedInTheMiddleOfALoginOrATryItNeitherLocksNorCalls() throws Exception { // C34
        try (TcpProxy proxy = new TcpProxy(SERVER.port());
                LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE)) {
            proxy.future().delay(Direction.SERVER_TO_CLIENT, Duration.ofMillis(15));
            for (int round = 0; round < ROUNDS; round++) {
                String id = "race-" + bits + "-" + round;
                TestCandidate candidate = TestCandidate.start(id, direct(SERVER, proxy.port()), key);
                // A login, the proofs and the try take some 20 round trips of 15 ms.
                long closeAfterNanos = Duration.ofMillis(
                                ThreadLocalRandom.current().nextLong(450))
                        .toNanos();
                long begin = System.nanoTime();
                await().pollInterval(Duration.ofMillis(1)).until(() -> System.nanoTime() - begin > closeAfterNanos);
                candidate.close();
                List<TestCandidate.Event> events = candidate.events();
                int accepted = proxy.acceptedConnections();
                assertThat(locks.holders(bits)).isEmpty();
                assertThat(candidate.elector().isLeader()).isFalse();
                assertThat(events.size()).isEven();
                candidate.close();
                await().atMost(PATIENCE)
                        .until(() -> locks.sessions("pg-leader/" + id).isEmpty());
                assertThat(candidate.events()).isEqualTo(events);
                assertThat(proxy.acceptedConnections()).isEqualTo(accepted);
                assertThat(locks.holders(bits)).isEmpty();
            }
        }
    }

    @Test
    void cyclesOfStartAndCloseLeaveNoThreadSessionOrLock() throws Exception { // X19
        try (LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE)) {
            String id = "cycle-" + bits;
            for (int cycle = 0; cycle < CYCLES; cycle++) {
                TestCandidate candidate = TestCandidate.start(id, direct(SERVER), key);
                if (cycle % 2 == 0) {
                    candidate.awaitElected(1);
                }
                candidate.close();
            }
            await().atMost(PATIENCE).untilAsserted(() -> {
                assertThat(locks.sessions("pg-leader/" + id)).isEmpty();
                assertThat(locks.holders(bits)).isEmpty();
                assertThat(threadsOf(key)).isEmpty();
            });
        }
    }

    @Test
    void closeIsQuickWhenTheDatabaseDoesNotAnswer() throws Exception {
        try (TcpProxy proxy = new TcpProxy(SERVER.port())) {
            proxy.future().flow(TcpProxy.Flow.SWALLOW);
            TestCandidate candidate = TestCandidate.start("unheard", direct(SERVER, proxy.port()), key);
            await().atMost(PATIENCE).until(() -> proxy.acceptedConnections() > 0);
            long begin = System.nanoTime();
            candidate.close();
            Duration bound =
                    TestCandidate.FAST.healthCheckTimeout().multipliedBy(4).plus(PATIENCE);
            assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(bound);
            await().atMost(PATIENCE)
                    .untilAsserted(() -> assertThat(threadsOf(key)).isEmpty());
        }
    }

    private static Set<String> threadsOf(LockKey key) {
        return Thread.getAllStackTraces().keySet().stream()
                .map(Thread::getName)
                .filter(name -> name.contains(key.toString()))
                .collect(Collectors.toSet());
    }
}
