package dev.pgleader.lock;

import java.sql.SQLException;
import org.jspecify.annotations.Nullable;

/**
 * The lock turned out to be gone, or could not be confirmed, when the helper came to free it or to commit: for some
 * time the work may have run beside another holder. In a transaction nothing of the work was committed by the helper;
 * under a session lock, what the work did stays done. The connection was ended, so the server frees what it still held
 * as soon as it sees that.
 *
 * <p>Checked, and an {@link SQLException}: whoever calls the helpers handles that family anyway, and a result that was
 * computed without protection must not slip through as a success.
 */
public final class LockLostException extends SQLException {

    private static final long serialVersionUID = 1L;

    private final transient LockKey key;
    private final int backendPid;

    LockLostException(LockKey key, int backendPid, String what, @Nullable Throwable cause) {
        super("Lock " + PinnedConnection.describe(key) + " of backend " + backendPid + " was lost: " + what, cause);
        this.key = key;
        this.backendPid = backendPid;
    }

    /** The lock that was lost. */
    public LockKey key() {
        return key;
    }

    /** The server process whose session had taken the lock. */
    public int backendPid() {
        return backendPid;
    }
}
