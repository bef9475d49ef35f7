package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/** Asks electors all the time whether they lead, and notes when two do at one moment. */
final class OverlapWatch implements AutoCloseable {

    private static final long PAUSE_NANOS = TimeUnit.MICROSECONDS.toNanos(200);

    private final List<LeaderElector> electors;
    private final Queue<String> overlaps = new ConcurrentLinkedQueue<>();
    private final Thread thread;
    private volatile boolean over;

    OverlapWatch(TestCandidate... candidates) {
        electors = Stream.of(candidates).map(TestCandidate::elector).toList();
        thread = new Thread(this::watch, "overlap watch");
        thread.setDaemon(true);
        thread.start();
    }

    private void watch() {
        while (!over) {
            for (LeaderElector one : electors) {
                one.leadership().ifPresent(term -> lookFromWithin(one, term));
            }
            LockSupport.parkNanos(PAUSE_NANOS);
        }
    }

    private void lookFromWithin(LeaderElector one, Leadership term) {
        for (LeaderElector other : electors) {
            // A term that is still valid afterwards was so when the other one answered.
            if (other != one && other.isLeader() && term.isValid()) {
                overlaps.add(one.status() + " and " + other.status());
            }
        }
    }

    void assertNeverTwo() {
        assertThat(thread.isAlive()).isTrue();
        assertThat(overlaps).as("two leaders").isEmpty();
    }

    @Override
    public void close() {
        over = true;
        try {
            thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
