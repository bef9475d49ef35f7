package dev.pgleader;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * Daemon threads for the callbacks of any number of electors: a few as long as callbacks are short, more when all of them are
 * held up, so that no callback waits long for another one. A thread without a task for some seconds ends.
 *
 * <p>A task that was taken is run. Where the system has no thread for it, it isn't taken.
 */
final class CallbackThreads implements Executor {

    /** How many threads there are while none is held up. */
    static final int FEW = 4;

    private static final Log LOG = Log.of(CallbackThreads.class);
    private static final long IDLE_THREAD_SECONDS = 5;
    private static final long HELD_UP_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    private final String namePrefix;
    private final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
    private final AtomicInteger started = new AtomicInteger();
    private final AtomicInteger alive = new AtomicInteger();
    private final AtomicInteger idle = new AtomicInteger();
    private final AtomicBoolean watched = new AtomicBoolean();

    CallbackThreads(String namePrefix) {
        this.namePrefix = namePrefix;
    }

    static Thread daemon(Runnable task, String name) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        return thread;
    }

    /**
     * Runs the task on one of the threads.
     *
     * @throws RejectedExecutionException if there is none for it; then it isn't run
     */
    @Override
    public void execute(Runnable task) {
        tasks.add(task);
        // If a thread has taken it in the meantime, all the better.
        if (!isServed() && tasks.remove(task)) {
            throw new RejectedExecutionException("There is no thread for callbacks");
        }
    }

    /** Whether the tasks that wait find a thread; starts one if need be. */
    private boolean isServed() {
        if (tasks.size() <= idle.get()) {
            return true;
        }
        return alive.get() < FEW ? startWorker() : watched.get() || watch();
    }

    private boolean startWorker() {
        alive.incrementAndGet();
        boolean working = start(this::work, started.incrementAndGet());
        if (!working) {
            alive.decrementAndGet();
        }
        return working;
    }

    /** Adds threads whenever the first task in the queue has not been taken for a while, until none waits. */
    private boolean watch() {
        if (!watched.compareAndSet(false, true)) {
            return true;
        }
        boolean watching = start(this::watchTasks, 0);
        if (!watching) {
            watched.set(false);
        }
        return watching;
    }

    private void watchTasks() {
        do {
            Runnable first = tasks.peek();
            while (first != null) {
                LockSupport.parkNanos(this, HELD_UP_NANOS);
                Runnable next = tasks.peek();
                if (next == first) {
                    startWorker();
                }
                first = next;
            }
            watched.set(false);
            // A task may have come after the last look.
        } while (!tasks.isEmpty() && watched.compareAndSet(false, true));
    }

    /** @param number of the thread; 0 is the one that watches */
    private boolean start(Runnable task, int number) {
        try {
            daemon(task, namePrefix + "-" + (number == 0 ? "watch" : Integer.toString(number)))
                    .start();
            return true;
        } catch (Throwable e) {
            return false;
        }
    }

    private void work() {
        boolean goesOn = true;
        while (goesOn) {
            try {
                Runnable task = next();
                if (task == null) {
                    goesOn = !isDone();
                } else {
                    runGuarded(task);
                }
            } catch (Throwable e) {
                // There is no memory even to wait or to tell it.
                LockSupport.parkNanos(this, HELD_UP_NANOS);
            }
        }
    }

    /** Whether this thread may end: a task may have come after it had given up waiting for one. */
    private boolean isDone() {
        alive.decrementAndGet();
        if (tasks.isEmpty()) {
            return true;
        }
        alive.incrementAndGet();
        return false;
    }

    private @Nullable Runnable next() {
        idle.incrementAndGet();
        try {
            return tasks.poll(IDLE_THREAD_SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            // Nobody but a task could have meant it.
            return () -> {};
        } finally {
            idle.decrementAndGet();
        }
    }

    private static void runGuarded(Runnable task) {
        try {
            task.run();
        } catch (Throwable e) {
            LOG.error("A callback failed", e);
        } finally {
            // An interrupt that a task left behind isn't meant for the next one.
            Thread.interrupted();
        }
    }
}
