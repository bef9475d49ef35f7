package dev.pgleader.spring.test;

import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderStatus;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.Registration;
import dev.pgleader.RevocationReason;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.spring.NoDatabase;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.springframework.beans.factory.ObjectProvider;

/**
 * Decides the elections of a test's application context. The electors are real ones: listeners, events, {@code @LeaderOnly}
 * and status behave as they do in production. Nobody leads until the test says so.
 *
 * <p>Each method returns when the callbacks of what it has done have returned, and throws {@link IllegalStateException} if
 * that takes longer than 10 s or a callback fails. For one thread at a time.
 */
public final class TestLeaderElectors {

    private static final Duration PATIENCE = Duration.ofSeconds(10);
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

    private final NoDatabase database;
    private final ObjectProvider<LeaderElector> electors;

    TestLeaderElectors(NoDatabase database, ObjectProvider<LeaderElector> electors) {
        this.database = database;
        this.electors = electors;
    }

    /** The application becomes the leader of its only election, or of that of {@code pgleader.key}. */
    public Leadership grant() {
        return grant(electors.getObject());
    }

    /** The application becomes the leader of the election. */
    public Leadership grant(String election) {
        return grant(named(election));
    }

    /** The application gives leadership of its only election, or of that of {@code pgleader.key}, up in order. */
    public void revoke() {
        revoke(electors.getObject());
    }

    /** The application gives leadership of the election up in order: the reason is {@link RevocationReason#RESIGNED}. */
    public void revoke(String election) {
        revoke(named(election));
    }

    /**
     * The application loses its session, and with it the leadership of all elections: the reason is {@link
     * RevocationReason#SESSION_LOST}.
     */
    public void loseSession() {
        lose(Fault.CONNECTION_LOST);
    }

    /**
     * The database no longer answers, and the application loses the leadership of all elections: the reason is {@link
     * RevocationReason#CHECK_TIMEOUT}.
     */
    public void loseDatabase() {
        lose(Fault.TIMEOUT);
    }

    /** Gives leadership of all elections up in order, for instance after each test. */
    public void revokeAll() {
        all().forEach(this::revoke);
    }

    private Leadership grant(LeaderElector elector) {
        Function<String, IllegalStateException> failure = what ->
                new IllegalStateException(what + " when " + elector.name() + " was granted: " + elector.status());
        await(
                () -> elector.status().role() != LeaderStatus.Role.STOPPED,
                () -> failure.apply("The application context isn't started"));
        if (elector.status().paused()) {
            throw failure.apply("The elector is paused");
        }
        CompletableFuture<Leadership> takenUp = new CompletableFuture<>();
        database.grant(elector.key());
        long terms = elector.status().terms();
        await(() -> elector.isLeader() || elector.status().terms() > terms, () -> failure.apply("Nothing happened"));
        // Callbacks run in order, so this one is told after those of the application.
        Registration probe = elector.addListener(new LeadershipListener() {
            @Override
            public void onElected(Leadership leadership) {
                takenUp.complete(leadership);
            }

            @Override
            public void onRevoked(Leadership leadership, RevocationReason reason) {}
        });
        try (probe) {
            await(() -> takenUp.isDone() || !elector.isLeader(), () -> failure.apply("A callback didn't return"));
        }
        Leadership leadership = takenUp.getNow(null);
        // A failure is told to the election before this is asked.
        if (leadership == null || !get(elector.verify(), () -> failure.apply("The elector didn't answer"))) {
            database.withdraw(elector.key());
            throw failure.apply("A callback failed");
        }
        return leadership;
    }

    private void revoke(LeaderElector elector) {
        database.withdraw(elector.key());
        if (elector.status().role() == LeaderStatus.Role.STOPPED) {
            return;
        }
        get(
                elector.resign(),
                () -> new IllegalStateException(
                        "A callback didn't return when " + elector.name() + " was revoked: " + elector.status()));
    }

    private static <T> T get(CompletableFuture<T> future, Supplier<IllegalStateException> failure) {
        await(future::isDone, failure);
        return future.join();
    }

    private void lose(Fault fault) {
        List<LeaderElector> leading =
                all().stream().filter(LeaderElector::isLeader).toList();
        database.fail(fault);
        for (LeaderElector elector : leading) {
            await(
                    () -> elector.status().role() == LeaderStatus.Role.FOLLOWER,
                    () -> new IllegalStateException(
                            "A callback of " + elector.name() + " didn't return: " + elector.status()));
        }
    }

    private List<LeaderElector> all() {
        return electors.orderedStream().toList();
    }

    private LeaderElector named(String election) {
        return all().stream()
                .filter(elector -> elector.name().equals(election))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("There is no election \"" + election + "\" among "
                        + all().stream().map(LeaderElector::name).toList()));
    }

    @Override
    public String toString() {
        return all().stream()
                .map(elector -> elector.name() + "=" + elector.status().role())
                .collect(Collectors.joining(", ", "TestLeaderElectors[", "]"));
    }

    private static void await(Supplier<Boolean> condition, Supplier<IllegalStateException> failure) {
        long begin = System.nanoTime();
        while (!condition.get()) {
            if (System.nanoTime() - begin > PATIENCE.toNanos()) {
                throw failure.get();
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
    }
}
