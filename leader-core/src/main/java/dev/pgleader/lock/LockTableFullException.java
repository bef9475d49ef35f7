package dev.pgleader.lock;

/**
 * The server's lock table is full, see {@code max_locks_per_transaction}. Unlike a {@link LockSessionException} it leaves the
 * session as good as it was.
 */
public final class LockTableFullException extends Exception {

    private static final long serialVersionUID = 1L;

    /** What the server said. */
    public LockTableFullException(String message, Throwable cause) {
        super(message, cause);
    }
}
