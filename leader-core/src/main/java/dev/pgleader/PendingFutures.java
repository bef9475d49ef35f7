package dev.pgleader;

import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/**
 * The futures that wait for something to happen to one candidate. User code may hang on them, so they are completed on the
 * callback executor, each by itself. Any thread adds; the election thread completes.
 */
final class PendingFutures {

    private final Executor executor;
    private final Queue<CompletableFuture<Leadership>> untilElected = new ConcurrentLinkedQueue<>();
    private final Queue<CompletableFuture<Void>> untilReleased = new ConcurrentLinkedQueue<>();
    /** What no thread could be had for. */
    private final Queue<Runnable> postponed = new ConcurrentLinkedQueue<>();

    PendingFutures(Executor executor) {
        this.executor = executor;
    }

    /** Completes the future at the next election; until then it may be {@linkplain #forget forgotten}. */
    void completeWhenElected(CompletableFuture<Leadership> future) {
        untilElected.add(future);
    }

    void forget(CompletableFuture<Leadership> future) {
        untilElected.removeIf(each -> each == future);
    }

    void completeElected(Leadership leadership) {
        for (CompletableFuture<Leadership> future = untilElected.poll(); future != null; future = untilElected.poll()) {
            complete(future, leadership);
        }
    }

    /** Completes the future when the candidate doesn't hold the lock any more. */
    void completeWhenReleased(CompletableFuture<Void> future) {
        untilReleased.add(future);
    }

    void completeReleased() {
        for (CompletableFuture<Void> future = untilReleased.poll(); future != null; future = untilReleased.poll()) {
            complete(future);
        }
    }

    void complete(CompletableFuture<Void> future) {
        aside(() -> future.complete(null));
    }

    <T> void complete(CompletableFuture<T> future, T value) {
        aside(() -> future.complete(value));
    }

    /** Completes the future, or fails it. */
    void settle(CompletableFuture<Void> future, @Nullable Throwable failure) {
        if (failure == null) {
            complete(future);
        } else {
            fail(future, failure);
        }
    }

    void fail(CompletableFuture<?> future, Throwable failure) {
        aside(() -> future.completeExceptionally(failure));
    }

    /** Runs the task on the callback executor, now or when there is a thread for it. */
    void aside(Runnable task) {
        try {
            executor.execute(task);
        } catch (Throwable e) {
            postponed.add(task);
        }
    }

    /** Runs what was postponed; returns false if there's still no thread. */
    boolean retry() {
        Runnable task = postponed.poll();
        if (task != null) {
            aside(task);
        }
        return postponed.isEmpty();
    }
}
