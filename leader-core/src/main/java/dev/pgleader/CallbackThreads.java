package dev.pgleader;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Daemon threads for the callbacks of any number of electors: a few as long as callbacks are short, more when all of them are
 * held up, so that no callback waits long for another one. A thread without a task for some seconds ends.
 *
 * <p>A task that was taken is never lost: where the system has no thread to give, it waits for one that is there already, or for
 * the next call of {@link #relieve()}, which the election thread makes in each of its turns.
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

    @Override
    public void execute(Runnable task) {
        tasks.add(task);
        relieve();
    }

    /** Sees that tasks that wait find a thread. Returns false if some wait and there is none to be had now. */
    boolean relieve() {
        int waiting = tasks.size();
        if (waiting <= idle.get()) {
            return true;
        }
        if (alive.get() < FEW) {
            return startWorker() || alive.get() > 0;
        }
        return watched.get() || watch();
    }

    private boolean startWorker() {
        alive.incrementAndGet();
        if (start(this::work, Integer.toString(started.incrementAndGet()))) {
            return true;
        }
        alive.decrementAndGet();
        return false;
    }

    /** Adds threads whenever the first task in the queue has not been taken for a while, until none waits. */
    private boolean watch() {
        if (!watched.compareAndSet(false, true)) {
            return true;
        }
        boolean watching = start(
                () -> {
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
                    relieve();
                },
                "watch");
        if (!watching) {
            watched.set(false);
        }
        return watching;
    }

    private boolean start(Runnable task, String suffix) {
        try {
            daemon(task, namePrefix + "-" + suffix).start();
            return true;
        } catch (Throwable e) {
            LOG.warn("No thread can be started for callbacks, they wait: {}", String.valueOf(e));
            return false;
        }
    }

    private void work() {
        try {
            for (Runnable task = next(); task != null; task = next()) {
                runGuarded(task);
            }
        } finally {
            alive.decrementAndGet();
            // A task may have come after this thread had given up waiting for one.
            relieve();
        }
    }

    private Runnable next() {
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
