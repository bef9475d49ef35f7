package dev.pgleader;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/** Tells the observers of one elector what happens. An observer that hangs loses events instead of filling the memory. */
final class ObserverQueue {

    /** How many events may wait. */
    static final int CAPACITY = 1_000;

    private static final Log LOG = Log.of(ObserverQueue.class);

    private final String electorName;
    private final CallbackQueue queue;
    private final List<ElectionObserver> observers = new CopyOnWriteArrayList<>();
    private final AtomicInteger waiting = new AtomicInteger();
    private final AtomicInteger lost = new AtomicInteger();

    ObserverQueue(String electorName, Executor executor) {
        this.electorName = electorName;
        this.queue = new CallbackQueue(executor, electorName + " (observers)");
    }

    void add(ElectionObserver observer) {
        observers.add(observer);
    }

    void remove(ElectionObserver observer) {
        observers.remove(observer);
    }

    void tell(Consumer<ElectionObserver> event) {
        if (observers.isEmpty()) {
            return;
        }
        if (waiting.get() < CAPACITY) {
            enqueue(event);
        } else if (lost.getAndIncrement() == 0) {
            LOG.warn(
                    "[{}] An observer doesn't return: {} events wait for it, further ones are lost; the election goes on",
                    electorName,
                    CAPACITY);
        }
    }

    /** The last event of all, for which there is always room. */
    void tellClosed() {
        enqueue(ElectionObserver::closed);
    }

    private void enqueue(Consumer<ElectionObserver> event) {
        waiting.incrementAndGet();
        try {
            queue.execute(() -> {
                waiting.decrementAndGet();
                reportLost();
                observers.forEach(observer -> tell(observer, event));
            });
        } catch (Throwable e) {
            // There is no memory for one more. What goes on isn't worth a term.
            waiting.decrementAndGet();
            lost.incrementAndGet();
        }
    }

    private void reportLost() {
        int count = waiting.get() < CAPACITY / 2 ? lost.getAndSet(0) : 0;
        if (count > 0) {
            LOG.warn("[{}] Observers take events again; {} were lost", electorName, count);
            observers.forEach(observer -> tell(observer, each -> each.eventsLost(count)));
        }
    }

    private void tell(ElectionObserver observer, Consumer<ElectionObserver> event) {
        try {
            event.accept(observer);
        } catch (Throwable e) {
            LOG.error("[{}] An observer failed", electorName, e);
        }
    }

    boolean retry() {
        return queue.retry();
    }
}
