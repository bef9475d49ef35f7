package dev.pgleader.lock;

import java.sql.Connection;
import org.jspecify.annotations.Nullable;

/**
 * What {@link AdvisoryLocks} runs while it holds a lock. The compiler infers {@code X} from what a lambda throws, so
 * that the caller has to handle just that: nothing beyond the helper's own exceptions if the work throws nothing.
 *
 * @param <T> what the work returns; may be nullable
 * @param <X> what the work throws
 */
@FunctionalInterface
public interface LockedWork<T extends @Nullable Object, X extends Exception> {

    /**
     * Does the work, on the caller's thread.
     *
     * @param connection the connection that holds the lock. It is the helper's: it refuses to be closed, and is of no
     *     use after the work's return
     */
    T run(Connection connection) throws X;
}
