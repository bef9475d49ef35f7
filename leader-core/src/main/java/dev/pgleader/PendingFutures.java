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
        completeAll(untilElected, leadership);
    }

    /** Completes the future when the candidate doesn't hold the lock any more. */
    void completeWhenReleased(CompletableFuture<Void> future) {
        untilReleased.add(future);
    }

    @SuppressWarnings("NullAway") // Null is the only value of a Void.
    void completeReleased() {
        completeAll(untilReleased, null);
    }

    private <T> void completeAll(Queue<CompletableFuture<T>> futures, T value) {
        for (CompletableFuture<T> future = futures.peek(); future != null; future = futures.peek()) {
            CompletableFuture<T> completed = future;
            complete(completed, value);
            // Not before: it would be lost if there were no memory for its task.
            futures.removeIf(each -> each == completed);
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
        if (!isTaken(task)) {
            postponed.add(task);
        }
    }

    private boolean isTaken(Runnable task) {
        try {
            executor.execute(task);
            return true;
        } catch (Throwable e) {
            return false;
        }
    }

    /** Runs what was postponed; returns false if there's still no thread for some of it. */
    boolean retry() {
        for (Runnable task = postponed.peek(); task != null; task = postponed.peek()) {
            if (!isTaken(task)) {
                return false;
            }
            postponed.remove(task);
        }
        return true;
    }
}
