package dev.pgleader;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/**
 * Runs user code one task after another, in the order given, on the threads of an executor. A task that was taken isn't lost: if
 * the executor fails, the tasks wait for the next one, or for {@link #retry()}.
 */
final class CallbackQueue implements Executor {

    private static final Log LOG = Log.of(CallbackQueue.class);

    private final Executor executor;
    private final String name;
    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    /** Whether the executor has been given the tasks, and has not come to their end. */
    private final AtomicBoolean handedOver = new AtomicBoolean();

    private volatile @Nullable Thread running;

    /** @param name for the log */
    CallbackQueue(Executor executor, String name) {
        this.executor = executor;
        this.name = name;
    }

    @Override
    public void execute(Runnable task) {
        tasks.add(task);
        retry();
    }

    /** Hands the tasks that wait over to the executor, unless it has them. Returns false if it doesn't take them. */
    boolean retry() {
        if (tasks.isEmpty() || !handedOver.compareAndSet(false, true)) {
            return true;
        }
        Drain drain = null;
        try {
            drain = new Drain();
            executor.execute(drain);
            return true;
        } catch (Throwable e) {
            // An executor may throw although it took the task, so the task is called off before another one is made.
            if (drain == null || drain.begins()) {
                handedOver.set(false);
                return false;
            }
            return true;
        }
    }

    /** What the executor is given: runs the tasks, once. */
    private final class Drain extends AtomicBoolean implements Runnable {

        private static final long serialVersionUID = 1L;

        /** True for whoever asks first: that one runs the tasks, or hands them over anew. */
        boolean begins() {
            return compareAndSet(false, true);
        }

        @Override
        public void run() {
            if (begins()) {
                drain();
            }
        }
    }

    /** Whether the calling code runs in a task of this queue. */
    boolean isCurrentThread() {
        return running == Thread.currentThread();
    }

    /** The thread that runs a task now; null if none does. */
    @Nullable
    Thread runningThread() {
        return running;
    }

    private void drain() {
        try {
            for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
                runGuarded(task);
            }
        } finally {
            handedOver.set(false);
            // A task may have come after the last look.
            retry();
        }
    }

    private void runGuarded(Runnable task) {
        running = Thread.currentThread();
        try {
            task.run();
        } catch (Throwable e) {
            LOG.error("A callback of {} failed", name, e);
        } finally {
            running = null;
            // An interrupt that a task left behind isn't meant for the next one.
            Thread.interrupted();
        }
    }
}
