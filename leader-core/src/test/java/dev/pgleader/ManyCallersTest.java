package dev.pgleader;

import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKey;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import dev.pgleader.testkit.TcpProxy.Direction;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * R14: all public methods at once, from twenty threads, over round trips of 40 ms. Two electors share a session: the steady one is
 * asked all that doesn't end a term, the wild one all the rest, too.
 */
@Timeout(300)
class ManyCallersTest {

    private static final int THREADS = 20;
    private static final Duration LASTING = Duration.ofSeconds(Integer.getInteger("stress.seconds", 6));
    private static final Duration ONE_WAY = Duration.ofMillis(20);
    private static final Duration CHECK_INTERVAL = Duration.ofSeconds(1);
    /** Far less than the 13 s in which a leader must have been checked; a machine pauses for a second at times. */
    private static final Duration LATEST_CHECK = Duration.ofSeconds(6);

    private static final ElectorOptions OPTIONS = ElectorOptions.builder()
            .healthCheckInterval(CHECK_INTERVAL)
            .coolDown(Duration.ofMillis(1))
            .takeoverDelay(TakeoverDelay.NONE)
            .build();

    private static final List<Consumer<LeaderElector>> CALLS = List.of(
            LeaderElector::isLeader,
            LeaderElector::leadership,
            LeaderElector::status,
            elector -> assertThat(elector.toString()).isNotEmpty(),
            LeaderElector::start,
            LeaderElector::resume,
            elector -> ignore(elector.verify()),
            elector -> ignore(elector.currentLeader()),
            elector -> elector.runIfLeader(leadership -> leadership.isValid()),
            elector -> elector.beginCall("stress", false).ifPresent(LeaderCall::close),
            elector -> elector.addListener(new LeadershipListener() {
                        @Override
                        public void onElected(Leadership leadership) {}

                        @Override
                        public void onRevoked(Leadership leadership, RevocationReason reason) {}
                    })
                    .close(),
            elector -> elector.addObserver(new ElectionObserver() {}).close(),
            elector -> elector.runWhileLeader(leadership -> {}).close());

    private static final List<Consumer<LeaderElector>> CALLS_THAT_END_TERMS = List.of(
            elector -> ignore(elector.resign()),
            elector -> ignore(elector.pause()),
            elector -> ignore(elector.requestResignation()),
            LeaderElector::stop);

    private static void ignore(Future<?> future) {
        // Who gives up waiting is no reason for anything.
        if (ThreadLocalRandom.current().nextInt(10) == 0) {
            future.cancel(false);
        }
    }

    /** A listener that notes what it was told. */
    private static final class Recorder implements LeadershipListener {
        final ConcurrentLinkedQueue<String> events = new ConcurrentLinkedQueue<>();

        @Override
        public void onElected(Leadership leadership) {
            events.add("elected " + leadership.term());
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            events.add("revoked " + leadership.term());
        }

        void assertAlternates() {
            Optional<String> before = Optional.empty();
            for (String event : events) {
                String term = event.substring(event.indexOf(' '));
                assertThat(before.isEmpty() ? "revoked" : before.get().substring(0, 7))
                        .as("before %s", event)
                        .isEqualTo(event.startsWith("elected") ? "revoked" : "elected");
                if (event.startsWith("revoked")) {
                    assertThat(before).hasValue("elected" + term);
                }
                before = Optional.of(event);
            }
        }
    }

    @Test
    void noCallerDelaysACheckOrDisturbsTheOrder() throws Exception {
        PostgresServer server = PostgresServer.shared();
        LockKey steadyKey = freshKey();
        LockKey wildKey = freshKey();
        Recorder steadyEvents = new Recorder();
        Recorder wildEvents = new Recorder();
        AtomicLong checks = new AtomicLong();
        AtomicLong lastCheck = new AtomicLong();
        AtomicLong longest = new AtomicLong();
        try (TcpProxy network = new TcpProxy(server.port())) {
            network.all().delay(Direction.CLIENT_TO_SERVER, ONE_WAY);
            network.all().delay(Direction.SERVER_TO_CLIENT, ONE_WAY);
            LeaderElectorGroup group = LeaderElectorGroup.builder()
                    .connectTo(direct(server, network.port()))
                    .name("many-callers")
                    .options(OPTIONS)
                    .build();
            LeaderElector steady =
                    group.elector(steadyKey).listener(steadyEvents).build();
            LeaderElector wild = group.elector(wildKey).listener(wildEvents).build();
            steady.addObserver(new ElectionObserver() {
                @Override
                public void checked(Duration took) {
                    long began = System.nanoTime() - took.toNanos();
                    long before = lastCheck.getAndSet(began);
                    checks.incrementAndGet();
                    if (before != 0) {
                        longest.accumulateAndGet(began - before, Math::max);
                    }
                }
            });
            group.start();
            assertThat(steady.awaitLeadership(PATIENCE)).isPresent();
            lastCheck.set(0);
            long calls = callFromAllThreads(steady, wild);
            System.out.println(calls + " calls in " + LASTING.toSeconds() + " s, " + checks + " checks, "
                    + TimeUnit.NANOSECONDS.toMillis(longest.get())
                    + " ms between two at the most; the wild elector led "
                    + wildEvents.events.size() / 2 + " terms");

            assertThat(Duration.ofNanos(longest.get())).isLessThan(LATEST_CHECK);
            assertThat(steady.isLeader()).isTrue();
            assertThat(steadyEvents.events).containsExactly("elected 1");
            wild.start();
            wild.resume();
            assertThat(wild.awaitLeadership(PATIENCE)).as("goes on").isPresent();
            group.close();
            wildEvents.assertAlternates();
            assertThat(wildEvents.events).hasSizeGreaterThan(2);
            assertThat(network.acceptedConnections()).as("sessions").isOne();
        }
        await().atMost(PATIENCE)
                .untilAsserted(() -> assertThat(Thread.getAllStackTraces().keySet())
                        .extracting(Thread::getName)
                        .noneMatch(name -> name.contains("many-callers")));
    }

    private static long callFromAllThreads(LeaderElector steady, LeaderElector wild) throws Exception {
        AtomicLong calls = new AtomicLong();
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        CountDownLatch start = new CountDownLatch(1);
        List<Future<?>> callers = new ArrayList<>();
        for (int thread = 0; thread < THREADS; thread++) {
            callers.add(threads.submit(() -> {
                start.await();
                long end = System.nanoTime() + LASTING.toNanos();
                ThreadLocalRandom random = ThreadLocalRandom.current();
                while (System.nanoTime() < end) {
                    CALLS.get(random.nextInt(CALLS.size())).accept(steady);
                    CALLS.get(random.nextInt(CALLS.size())).accept(wild);
                    if (random.nextInt(200) == 0) {
                        CALLS_THAT_END_TERMS
                                .get(random.nextInt(CALLS_THAT_END_TERMS.size()))
                                .accept(wild);
                    }
                    calls.addAndGet(2);
                    // About 10,000 calls a second of all threads.
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(4));
                }
                return null;
            }));
        }
        start.countDown();
        for (Future<?> caller : callers) {
            caller.get();
        }
        threads.shutdownNow();
        return calls.get();
    }
}
