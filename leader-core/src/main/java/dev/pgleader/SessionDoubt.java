package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.util.HashSet;
import java.util.Set;

/** What it means when a check doesn't show what it should. */
final class SessionDoubt {

    private SessionDoubt() {}

    /**
     * What is wrong with a session that holds other locks than it should.
     *
     * @param granted the keys of {@code expected} that the server granted since the last check
     */
    static LockSessionException of(Set<LockKey> expected, Set<LockKey> held, Set<LockKey> granted) {
        Set<LockKey> missing = new HashSet<>(expected);
        missing.removeAll(held);
        if (missing.isEmpty()) {
            return new LockSessionException(
                    Fault.LOCK_LOST,
                    "The session holds locks that it never took: expected " + expected + ", got " + held);
        }
        return granted.containsAll(missing)
                ? new LockSessionException(
                        Fault.LOCKS_NOT_REAL,
                        "The server granted " + missing
                                + ", but pg_locks doesn't show it: it has no real advisory locks")
                : new LockSessionException(
                        Fault.LOCK_LOST, "The session no longer holds " + missing + ", though it lives");
    }

    /** Why a term ends when its session is given up for this fault. */
    static RevocationReason revocationReason(Fault fault) {
        return switch (fault) {
            case TIMEOUT -> RevocationReason.CHECK_TIMEOUT;
            case STANDBY, READ_ONLY -> RevocationReason.NOT_WRITABLE;
            case LOCK_LOST, LOCKS_NOT_REAL, SHARED_BACKEND, LEASE_NOT_ENFORCED -> RevocationReason.LOCK_LOST;
            default -> RevocationReason.SESSION_LOST;
        };
    }
}
