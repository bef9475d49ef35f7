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

    LockTimeoutException(LockKey key, Duration waited, OptionalInt holderPid, @Nullable String holderApplicationName) {
        super(message(key, waited, holderPid, holderApplicationName), SqlStates.LOCK_NOT_AVAILABLE);
        this.key = key;
        this.waited = waited;
        this.holderPid = holderPid.isPresent() ? holderPid.getAsInt() : null;
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

    /** The server process that held the lock at the end of the wait; empty if none could be seen. */
    public OptionalInt holderPid() {
        return holderPid == null ? OptionalInt.empty() : OptionalInt.of(holderPid);
    }

    /** The {@code application_name} of the session that held the lock; empty if it has none or none could be seen. */
    public Optional<String> holderApplicationName() {
        return Optional.ofNullable(holderApplicationName).filter(name -> !name.isBlank());
    }

    private static String message(
            LockKey key, Duration waited, OptionalInt holderPid, @Nullable String holderApplicationName) {
        StringBuilder message = new StringBuilder("Lock ")
                .append(PinnedConnection.describe(key))
                .append(" did not become free within ")
                .append(waited.toMillis())
                .append(" ms: ");
        if (holderPid.isEmpty()) {
            return message.append("no holder can be seen now").toString();
        }
        message.append("held by backend ").append(holderPid.getAsInt());
        if (holderApplicationName != null && !holderApplicationName.isBlank()) {
            message.append(" of application \"").append(holderApplicationName).append('"');
        }
        return message.toString();
    }
}
