package dev.pgleader;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs user code one task after another, in the order given, on threads of an executor; nothing is lost if the executor
 * refuses. The lock is held to move tasks, never while one runs.
 */
final class CallbackQueue implements Executor {

    private static final Logger LOG = LoggerFactory.getLogger(CallbackQueue.class);

    private final Executor executor;
    private final String threadName;
    private final Queue<Runnable> tasks = new ArrayDeque<>();
    private boolean draining;
    private volatile @Nullable Thread running;

    /**
     * A queue on {@code executor}.
     *
     * @param threadName the name of the thread that takes over if the executor refuses
     */
    CallbackQueue(Executor executor, String threadName) {
        this.executor = executor;
        this.threadName = threadName;
    }

    static Thread daemon(Runnable task, String name) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        return thread;
    }

    @Override
    public void execute(Runnable task) {
        synchronized (tasks) {
            tasks.add(task);
            if (draining) {
                return;
            }
            draining = true;
        }
        Submission submission = new Submission(Thread.currentThread());
        try {
            executor.execute(() -> {
                if (submission.isUnderWay()) {
                    startOwnThread();
                } else {
                    drain();
                }
            });
        } catch (RuntimeException | Error e) {
            LOG.warn(
                    "The callback executor refuses tasks; callbacks of {} run on a thread of their own", threadName, e);
            startOwnThread();
        } finally {
            submission.over = true;
        }
    }

    /** An executor that runs its tasks in the calling thread would run user code on the election thread. */
    private static final class Submission {
        private final Thread caller;
        /** Read only by the thread that writes it. */
        private boolean over;

        Submission(Thread caller) {
            this.caller = caller;
        }

        boolean isUnderWay() {
            return Thread.currentThread() == caller && !over;
        }
    }

    private void startOwnThread() {
        try {
            daemon(this::drain, threadName).start();
        } catch (RuntimeException | Error e) {
            LOG.error("No thread for the callbacks of {}; they wait for the next one", threadName, e);
            synchronized (tasks) {
                draining = false;
            }
        }
    }

    /** Whether the calling code runs in a task of this queue. */
    boolean isCurrentThread() {
        return running == Thread.currentThread();
    }

    private void drain() {
        for (Runnable task = next(); task != null; task = next()) {
            running = Thread.currentThread();
            try {
                task.run();
            } catch (Throwable e) {
                LOG.error("A callback of {} failed", threadName, e);
            } finally {
                running = null;
                // An interrupt that a task left behind isn't meant for the next one.
                Thread.interrupted();
            }
        }
    }

    private @Nullable Runnable next() {
        synchronized (tasks) {
            Runnable task = tasks.poll();
            draining = task != null;
            return task;
        }
    }
}
