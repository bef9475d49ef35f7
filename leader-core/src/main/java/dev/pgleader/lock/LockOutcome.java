package dev.pgleader.lock;

import java.util.NoSuchElementException;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Whether the work was run, and what it returned. Work that returned null was run: it is never taken for work that was
 * skipped. Immutable; thread-safe as far as the value is.
 *
 * @param <T> what the work returns; may be nullable
 */
public final class LockOutcome<T extends @Nullable Object> {

    private static final LockOutcome<?> SKIPPED = new LockOutcome<>(false, null);

    private final boolean run;
    private final @Nullable T value;

    private LockOutcome(boolean run, @Nullable T value) {
        this.run = run;
        this.value = value;
    }

    static <T extends @Nullable Object> LockOutcome<T> ran(T value) {
        return new LockOutcome<>(true, value);
    }

    @SuppressWarnings("unchecked") // It holds no value, so it is one of every type.
    static <T extends @Nullable Object> LockOutcome<T> skipped() {
        return (LockOutcome<T>) SKIPPED;
    }

    /** Whether the lock was taken and the work was run to its end. */
    public boolean wasRun() {
        return run;
    }

    /** Whether another session held the lock, so that the work was not run. */
    public boolean wasSkipped() {
        return !run;
    }

    /**
     * What the work returned.
     *
     * @throws NoSuchElementException if the work was skipped
     */
    @SuppressWarnings("NullAway") // Of work that was run, the value is the T that it returned.
    public T value() {
        if (!run) {
            throw new NoSuchElementException("The work was skipped: another session held the lock");
        }
        return value;
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof LockOutcome<?> that && run == that.run && Objects.equals(value, that.value);
    }

    @Override
    public int hashCode() {
        return Objects.hash(run, value);
    }

    @Override
    public String toString() {
        return run ? "ran: " + value : "skipped";
    }
}
