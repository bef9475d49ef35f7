package dev.pgleader;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.jetbrains.lincheck.datastructures.Operation;
import org.jetbrains.lincheck.datastructures.Validate;

/**
 * Tasks of any thread for an executor that takes them, refuses them, or takes them and throws all the same, and whose threads run
 * what they were given. In the end each task has run once, those of one thread in their order, and never two at a time.
 */
public class CallbackQueueInterleavings {

    private final Queue<Runnable> handedOver = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean refuses = new AtomicBoolean();
    private final AtomicBoolean throwsAnyway = new AtomicBoolean();
    private final CallbackQueue queue = new CallbackQueue(this::take, "test");

    private final AtomicInteger running = new AtomicInteger();
    private final AtomicInteger posted = new AtomicInteger();
    private final List<Integer> ran = new ArrayList<>(); // of whoever runs tasks: one at a time
    private volatile boolean overlapped;
    private volatile boolean refused;

    private void take(Runnable task) {
        if (refuses.compareAndSet(true, false)) {
            refused = true;
            throw new RejectedExecutionException("refused");
        }
        handedOver.add(task);
        if (throwsAnyway.compareAndSet(true, false)) {
            refused = true;
            throw new RejectedExecutionException("taken all the same");
        }
    }

    @Operation
    public void refuseNext() {
        refuses.set(true);
    }

    @Operation
    public void takeNextAndThrow() {
        throwsAnyway.set(true);
    }

    /** One thread hands tasks in, as the election thread does; so their order is that of their numbers. */
    @Operation(nonParallelGroup = "election thread")
    public void execute() {
        int task = posted.incrementAndGet();
        queue.execute(() -> {
            if (running.incrementAndGet() != 1) {
                overlapped = true;
            }
            ran.add(task);
            running.decrementAndGet();
        });
    }

    @Operation
    public void retry() {
        queue.retry();
    }

    /** A thread of the executor. */
    @Operation
    public void work() {
        Runnable task = handedOver.poll();
        if (task != null) {
            task.run();
        }
    }

    @Validate
    public void eachHasRunOnceInOrder() {
        refuses.set(false);
        throwsAnyway.set(false);
        if (refused) {
            queue.retry();
        }
        while (!handedOver.isEmpty()) {
            work();
        }
        if (overlapped) {
            throw new AssertionError("two tasks ran at a time");
        }
        for (int i = 0; i < posted.get(); i++) {
            if (i >= ran.size() || ran.get(i) != i + 1) {
                throw new AssertionError(posted + " tasks, but these ran: " + ran);
            }
        }
        if (ran.size() != posted.get()) {
            throw new AssertionError(posted + " tasks, but these ran: " + ran);
        }
    }
}
