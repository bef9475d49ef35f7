package dev.pgleader;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;

/** Keeps tasks until the test has them run, one after the other, on a thread that isn't the test's, while the test waits. */
final class HandDrivenExecutor implements Executor {

    private static final ExecutorService WORKER =
            Executors.newSingleThreadExecutor(task -> CallbackThreads.daemon(task, "test-callback"));

    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();

    /** Whether it has no thread now. */
    volatile boolean refuse;

    @Override
    public void execute(Runnable task) {
        if (refuse) {
            throw new RejectedExecutionException("scripted: no thread");
        }
        tasks.add(task);
    }

    /** Runs all tasks, and those that they bring. */
    void runAll() {
        for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
            try {
                WORKER.submit(task).get();
            } catch (ExecutionException | InterruptedException e) {
                throw new AssertionError(e);
            }
        }
    }

    /** Throws the tasks away, as if they hung. */
    void loseAll() {
        tasks.clear();
    }

    boolean isIdle() {
        return tasks.isEmpty();
    }
}
