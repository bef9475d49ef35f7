package dev.pgleader;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Daemon threads for the callbacks of any number of electors: a few as long as callbacks are short, more when all of them are
 * held up, so that no callback waits long for another one. A thread without a task for some seconds ends.
 */
final class CallbackThreads implements Executor {

    /** How many threads there are while none is held up. */
    static final int FEW = 4;

    private static final long IDLE_THREAD_SECONDS = 5;
    private static final long HELD_UP_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    private final String namePrefix;
    private final AtomicInteger count = new AtomicInteger();
    private final BlockingQueue<Runnable> waiting = new LinkedBlockingQueue<>();
    private final AtomicBoolean watched = new AtomicBoolean();
    private final ThreadPoolExecutor pool;

    CallbackThreads(String namePrefix) {
        this.namePrefix = namePrefix;
        this.pool = new ThreadPoolExecutor(
                FEW,
                Integer.MAX_VALUE,
                IDLE_THREAD_SECONDS,
                TimeUnit.SECONDS,
                waiting,
                task -> CallbackQueue.daemon(task, namePrefix + "-" + count.incrementAndGet()));
        pool.allowCoreThreadTimeOut(true);
    }

    @Override
    public void execute(Runnable task) {
        pool.execute(task);
        watchWaiting();
    }

    private void watchWaiting() {
        if (!waiting.isEmpty() && watched.compareAndSet(false, true)) {
            try {
                CallbackQueue.daemon(this::relieve, namePrefix + "-watch").start();
            } catch (RuntimeException | Error e) {
                watched.set(false);
                throw e;
            }
        }
    }

    /** Adds threads whenever the first task in the queue has not been taken for a while, until none waits. */
    private void relieve() {
        for (Runnable first = waiting.peek(); first != null; first = waiting.peek()) {
            LockSupport.parkNanos(this, HELD_UP_NANOS);
            if (waiting.peek() == first) {
                pool.setCorePoolSize(pool.getPoolSize() + Math.max(1, pool.getPoolSize() / 2));
            }
        }
        pool.setCorePoolSize(FEW);
        watched.set(false);
        watchWaiting();
    }
}
