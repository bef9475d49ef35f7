package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.Credentials;
import dev.pgleader.testkit.JavaProcess;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Flow;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The machine of a leader is suspended for longer than its lease, and wakes up while another one leads. */
@Timeout(180)
class SuspendTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final Duration LEASE = Duration.ofSeconds(2);

    private final List<Suspended> all = new ArrayList<>();

    /** Two electors, the first of which will be suspended. */
    private static final class Suspended implements AutoCloseable {

        final long bits = freshKeyBits();
        final TcpProxy network = new TcpProxy(SERVER.port());
        final Suspension suspension = new Suspension();
        final boolean endIsSeen;
        final String name;
        final ElectorOptions options;
        final JavaProcess sleeper;
        JavaProcess other;
        JavaProcess.Line led;

        Suspended(TakeoverDelay takeoverDelay, boolean endIsSeen) {
            this.endIsSeen = endIsSeen;
            name = takeoverDelay + (endIsSeen ? "-cut" : "-silent");
            options = TestCandidate.FAST.toBuilder()
                    .leaseDuration(LEASE)
                    .safetyMargin(Duration.ofMillis(300))
                    .healthCheckTimeout(Duration.ofMillis(700))
                    .takeoverDelay(takeoverDelay)
                    .build();
            sleeper = suspension
                    .of(ElectorProcess.describe(
                            PostgresServer.url(network.port(), PostgresServer.DEFAULT_DATABASE, Map.of()),
                            new Credentials(SERVER.superuser(), SERVER.superuserPassword()),
                            bits,
                            "sleeper",
                            options))
                    .start();
        }

        void startOther() {
            sleeper.awaitLine("led 1", PATIENCE);
            other = ElectorProcess.start(SERVER, SERVER.port(), bits, name, options);
        }

        void suspend() {
            await().atMost(PATIENCE).until(() -> {
                try (LockTable locks = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE)) {
                    return !locks.sessions("pg-leader/" + name).isEmpty();
                }
            });
            network.all().flow(Flow.SWALLOW);
            suspension.suspend(sleeper);
        }

        void wakeUp() {
            led = other.awaitLine("led 1", PATIENCE);
            // On a busy machine the other one may have led before.
            await().until(() -> suspension.lasted().compareTo(LEASE) > 0);
            if (endIsSeen) {
                network.cut();
            }
            suspension.resume(sleeper);
        }

        void assertDoesNotLead() {
            assertThat(sleeper.awaitLine("woke", PATIENCE).text()).as(name).isEqualTo("woke false");
            sleeper.awaitLine("revoked 1", PATIENCE);
            assertThat(ElectorProcess.lastLed(sleeper, 1))
                    .as("%s: the sleeper's last moment as leader, before the first of the other", name)
                    .isLessThan(Long.parseLong(led.text().split(" ", -1)[2]));
        }

        @Override
        public void close() {
            sleeper.close();
            if (other != null) {
                other.close();
            }
            network.close();
            suspension.close();
        }
    }

    @AfterEach
    void close() {
        all.forEach(Suspended::close);
    }

    @Test
    @DisplayName(
            "R12: who wakes up from suspend doesn't lead beside the new leader, whether or not it sees the end of its session")
    void doesNotLeadWhenItWakesUp() {
        for (TakeoverDelay delay : List.of(TakeoverDelay.AUTO, TakeoverDelay.of(LEASE))) {
            all.add(new Suspended(delay, true));
            all.add(new Suspended(delay, false));
        }
        all.forEach(Suspended::startOther);
        all.forEach(Suspended::suspend);
        all.forEach(Suspended::wakeUp);
        all.forEach(Suspended::assertDoesNotLead);
    }
}
