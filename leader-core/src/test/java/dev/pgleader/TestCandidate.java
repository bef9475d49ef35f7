package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;

/** An elector under test, and what its listener was told. */
final class TestCandidate implements LeadershipListener, AutoCloseable {

    /** A callback; {@code reason} is null for {@code onElected}. */
    record Event(long term, @Nullable RevocationReason reason, boolean wasLeader, long atNanos) {
        boolean isElected() {
            return reason == null;
        }
    }

    static final Duration PATIENCE = Duration.ofSeconds(60);

    /** Short times, for machines that are sometimes slow. */
    static final ElectorOptions FAST = ElectorOptions.builder()
            .leaseDuration(Duration.ofSeconds(3))
            .safetyMargin(Duration.ofMillis(500))
            .healthCheckInterval(Duration.ofMillis(300))
            .healthCheckTimeout(Duration.ofMillis(1500))
            .retryInterval(Duration.ofMillis(200))
            .maxReconnectDelay(Duration.ofMillis(500))
            .revokeTimeout(Duration.ofSeconds(5))
            .takeoverDelay(TakeoverDelay.NONE)
            .build();

    private static final AtomicLong KEYS =
            new AtomicLong(ThreadLocalRandom.current().nextLong());

    private final LeaderElector elector;
    private final List<Event> events = new ArrayList<>();

    private TestCandidate(String id, ConnectionSource source, LockKey key, Consumer<LeaderElector.Builder> adjustment) {
        LeaderElector.Builder builder = LeaderElector.builder()
                .connectTo(source)
                .key(key)
                .instanceId(id)
                .options(FAST)
                .listener(this);
        adjustment.accept(builder);
        elector = builder.build();
    }

    /** A key that no other test of this JVM uses. */
    static long freshKeyBits() {
        return KEYS.incrementAndGet();
    }

    /** See {@link #freshKeyBits()}. */
    static LockKey freshKey() {
        return LockKey.of(freshKeyBits());
    }

    static ConnectionSource direct(PostgresServer server) {
        return direct(server, server.port());
    }

    /** Connects to {@code server} through another port, such as a proxy's. */
    static ConnectionSource direct(PostgresServer server, int port) {
        return ConnectionSource.of(
                "jdbc:postgresql://localhost:" + port + "/" + PostgresServer.DEFAULT_DATABASE,
                server.superuser(),
                server.superuserPassword());
    }

    static TestCandidate start(String id, ConnectionSource source, LockKey key) {
        return start(id, source, key, builder -> {});
    }

    static TestCandidate start(
            String id, ConnectionSource source, LockKey key, Consumer<LeaderElector.Builder> adjustment) {
        TestCandidate candidate = new TestCandidate(id, source, key, adjustment);
        candidate.elector.start();
        return candidate;
    }

    static TestCandidate startLeader(String id, ConnectionSource source, LockKey key) {
        TestCandidate candidate = start(id, source, key);
        candidate.awaitElected(1);
        return candidate;
    }

    @Override
    public void onElected(Leadership leadership) {
        add(new Event(leadership.term(), null, elector.isLeader(), System.nanoTime()));
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {
        add(new Event(leadership.term(), reason, elector.isLeader(), System.nanoTime()));
    }

    private synchronized void add(Event event) {
        events.add(event);
        notifyAll();
    }

    LeaderElector elector() {
        return elector;
    }

    synchronized List<Event> events() {
        return List.copyOf(events);
    }

    /** The process that serves this candidate's session. */
    int backendPid() {
        return Awaitility.await()
                .atMost(PATIENCE)
                .until(() -> elector.status().session(), session -> session.isPresent())
                .orElseThrow()
                .backendPid();
    }

    Event awaitElected(long term) {
        return await(event -> event.isElected() && event.term() == term, "election, term " + term);
    }

    Event awaitRevoked(long term) {
        return await(event -> !event.isElected() && event.term() == term, "revocation, term " + term);
    }

    private synchronized Event await(Predicate<Event> wanted, String description) {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (true) {
            for (Event event : events) {
                if (wanted.test(event)) {
                    return event;
                }
            }
            long leftMillis = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
            assertThat(leftMillis)
                    .as("no %s of %s within %s, but %s", description, elector, PATIENCE, events)
                    .isPositive();
            try {
                wait(leftMillis);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** What a listener may rely on, whatever happened. */
    void assertCallbacksInOrder() {
        List<Event> all = events();
        for (int i = 0; i < all.size(); i++) {
            Event event = all.get(i);
            assertThat(event.isElected()).as("callback %s of %s", i, all).isEqualTo(i % 2 == 0);
            if (!event.isElected()) {
                assertThat(event.term()).isEqualTo(all.get(i - 1).term());
                assertThat(event.wasLeader())
                        .as("isLeader() in onRevoked, %s", event)
                        .isFalse();
            }
        }
    }

    @Override
    public void close() {
        elector.close();
    }
}
