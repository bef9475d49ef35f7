package dev.pgleader;

import dev.pgleader.lock.LockSessionException;
import java.time.Duration;
import java.util.List;

/**
 * Hears of all that happens in an election; for metrics and diagnosis. Every method does nothing by default.
 *
 * <p>Called one at a time and in order, on the elector's callback executor, but independently of its listeners. What a
 * method throws is logged. Where several electors share a session, each one's observers hear of that session.
 */
public interface ElectionObserver {

    /** A session to the database was opened, which took this long. */
    default void sessionOpened(Duration took) {}

    /** A session couldn't be opened, or was given up, because of this. */
    default void sessionFailed(LockSessionException.Fault fault, String message) {}

    /** The lock was tried. */
    default void attempted(boolean granted, Duration took) {}

    /** The session was checked successfully. */
    default void checked(Duration took) {}

    /** A term began. */
    default void elected(Leadership leadership) {}

    /** A term ended after this long. */
    default void revoked(Leadership leadership, RevocationReason reason, Duration lasted) {}

    /** A callback of a listener threw. */
    default void callbackFailed(Throwable failure) {}

    /**
     * These calls, by {@linkplain LeaderElector#beginCall name}, still ran when this instance no longer had the lock: it was lost, or
     * {@link ElectorOptions#revokeTimeout()} was over.
     */
    default void callsCutOff(List<String> calls) {}

    /** Somebody leads, this instance or another. */
    default void leaderChanged(LeaderInfo leader) {}

    /** The elector was closed, and its last term has ended: nothing comes after this. */
    default void closed() {}

    /** That many events were lost to all observers, since one of them was too slow. */
    default void eventsLost(int count) {}
}
