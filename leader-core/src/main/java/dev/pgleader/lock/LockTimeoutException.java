package dev.pgleader.lock;

import java.sql.SQLException;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * The lock did not become free within the time that the caller was ready to wait; the work was not run. Its SQLSTATE is
 * 55P03, {@code lock_not_available}, which PostgreSQL's own {@code lock_timeout} has.
 *
 * <p>Checked, and an {@link SQLException}: whoever calls the helpers handles that family anyway, as for any other
 * reason why the database did not let the work run.
 */
public final class LockTimeoutException extends SQLException {

    private static final long serialVersionUID = 1L;

    private final transient LockKey key;
    private final Duration waited;
    private final @Nullable Integer holderPid;
    private final @Nullable String holderApplicationName;

    /**
     * @param holderPid the server process that holds the lock; null if none could be seen
     * @param holderApplicationName what its session calls itself; null if none could be seen
     * @param preparedTransaction the prepared transaction that holds the lock, without a process; null if none does
     */
    LockTimeoutException(
            LockKey key,
            Duration waited,
            @Nullable Integer holderPid,
            @Nullable String holderApplicationName,
            @Nullable String preparedTransaction) {
        super(
                "Lock " + PinnedConnection.describe(key) + " did not become free within " + waited.toMillis() + " ms: "
                        + holder(holderPid, holderApplicationName, preparedTransaction),
                SqlStates.LOCK_NOT_AVAILABLE);
        this.key = key;
        this.waited = waited;
        this.holderPid = holderPid;
        this.holderApplicationName = holderApplicationName;
    }

    /** The lock that was waited for. */
    public LockKey key() {
        return key;
    }

    /** How long the caller waited, the time for getting a connection included. */
    public Duration waited() {
        return waited;
    }

    /**
     * The server process that held the lock at the end of the wait; empty if none could be seen, or if a prepared
     * transaction held it, which the message names then.
     */
    public OptionalInt holderPid() {
        return holderPid == null ? OptionalInt.empty() : OptionalInt.of(holderPid);
    }

    /** The {@code application_name} of the session that held the lock; empty if it has none or none could be seen. */
    public Optional<String> holderApplicationName() {
        return Optional.ofNullable(holderApplicationName).filter(name -> !name.isBlank());
    }

    private static String holder(
            @Nullable Integer pid, @Nullable String applicationName, @Nullable String preparedTransaction) {
        if (preparedTransaction != null) {
            return "held by the prepared transaction \"" + preparedTransaction
                    + "\", until somebody runs COMMIT PREPARED or ROLLBACK PREPARED";
        }
        if (pid == null) {
            return "no holder can be seen now";
        }
        return "held by backend " + pid
                + (applicationName == null || applicationName.isBlank()
                        ? ""
                        : " of application \"" + applicationName + '"');
    }
}
