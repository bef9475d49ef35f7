package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.supervisor.LabEvent.HolderChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.LabStarted;
import dev.pgleader.example.lab.supervisor.LabEvent.NodeChanged;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * What happened in the lab, in order. A page that reads it from the start knows what there is to know; one that lost its
 * connection goes on where it was. The oldest entries are dropped, but for the last word on each lane.
 *
 * <p>Thread-safe. Nobody who writes ever waits for one who reads.
 */
public final class EventLog {

    /**
     * An entry.
     *
     * @param id rises by one from kept entry to kept entry; that of an entry that isn't kept is that of the one before
     * @param atMillis when it happened, counted from the start of the supervisor
     */
    public record Entry(long id, long atMillis, LabEvent event) {}

    private static final int KEPT = 4_000;

    private final int capacity;
    private final List<Subscription> subscriptions = new CopyOnWriteArrayList<>();

    // Guarded by this.
    private final Map<String, Entry> lanes = new LinkedHashMap<>();
    private final Deque<Entry> recent = new ArrayDeque<>();
    private @Nullable Entry start;
    // A page that outlived an earlier supervisor must not take this one's entries for those that it knows.
    private long lastId = System.currentTimeMillis();

    EventLog() {
        this(KEPT);
    }

    EventLog(int capacity) {
        this.capacity = capacity;
    }

    /** Adds an entry that is kept. */
    synchronized void add(long atMillis, LabEvent event) {
        Entry entry = new Entry(++lastId, atMillis, event);
        if (event instanceof LabStarted) {
            start = entry;
            lanes.clear();
            recent.clear();
        } else {
            recent.add(entry);
            if (recent.size() > capacity) {
                drop(recent.remove());
            }
        }
        pass(entry);
    }

    /** Tells those who listen now. */
    synchronized void tell(long atMillis, LabEvent event) {
        pass(new Entry(lastId, atMillis, event));
    }

    private void pass(Entry entry) {
        subscriptions.forEach(subscription -> subscription.offer(entry));
    }

    private void drop(Entry entry) {
        if (entry.event() instanceof NodeChanged change) {
            lanes.put(change.node(), entry);
        } else if (entry.event() instanceof HolderChanged) {
            lanes.put("", entry);
        }
    }

    /**
     * Listens from now on, after all that is kept.
     *
     * @param afterId what the listener knows already; 0 if nothing
     */
    public synchronized Subscription subscribe(long afterId) {
        Subscription subscription = new Subscription();
        Entry first = recent.peek();
        boolean goesOn = start != null
                && afterId >= start.id()
                && afterId <= lastId
                && (first == null || afterId >= first.id() - 1);
        List<Entry> known = new ArrayList<>();
        if (!goesOn) {
            if (start != null) {
                known.add(start);
            }
            known.addAll(lanes.values());
        }
        known.addAll(recent);
        known.stream().filter(entry -> !goesOn || entry.id() > afterId).forEach(subscription::offer);
        subscriptions.add(subscription);
        return subscription;
    }

    /** One listener's queue. Closed when it's full: the listener may come again and go on where it was. */
    public final class Subscription implements AutoCloseable {

        private final BlockingQueue<Entry> queue = new LinkedBlockingQueue<>(2 * KEPT);
        private volatile boolean overrun;

        private Subscription() {}

        private void offer(Entry entry) {
            if (!queue.offer(entry)) {
                overrun = true;
                close();
            }
        }

        /**
         * Waits for the next entry.
         *
         * @return the entry; null if none came in time
         * @throws InterruptedException if the calling thread is interrupted
         */
        public @Nullable Entry next(long timeoutMillis) throws InterruptedException {
            return queue.poll(timeoutMillis, TimeUnit.MILLISECONDS);
        }

        /** Whether the listener was too slow, and has missed entries. */
        public boolean isOverrun() {
            return overrun;
        }

        @Override
        public void close() {
            subscriptions.remove(this);
        }
    }
}
