package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/**
 * What an elector was at one moment; for health pages, logs and tests. Immutable. Made without asking the database.
 *
 * @param name the elector's name
 * @param key what it competes for
 * @param instanceId who it is
 * @param role what it is
 * @param paused whether it doesn't compete until it is resumed
 * @param terms how many terms it has led
 * @param leaderSince when its current term began, by this machine's wall clock
 * @param lastRevocation why its last term ended
 * @param knownLeader who leads, as far as this instance has heard
 * @param session the database session; empty while there is none
 * @param sinceLastCheck how long ago the last successful check began; empty before the first
 * @param sinceLastAttempt how long ago the last try for the lock began; empty before the first
 * @param problem what keeps the elector from its work; empty if nothing does
 */
public record LeaderStatus(
        String name,
        LockKey key,
        String instanceId,
        Role role,
        boolean paused,
        long terms,
        Optional<Instant> leaderSince,
        Optional<RevocationReason> lastRevocation,
        Optional<LeaderInfo> knownLeader,
        Optional<Session> session,
        Optional<Duration> sinceLastCheck,
        Optional<Duration> sinceLastAttempt,
        Optional<Problem> problem) {

    /** What an elector is. */
    public enum Role {
        /** Not started, stopped or closed. */
        STOPPED,
        /** A candidate that doesn't hold the lock. */
        FOLLOWER,
        /** Holds the lock and waits for the {@link TakeoverDelay} to pass. */
        TAKING_OVER,
        /** Leads. */
        LEADER,
        /** No longer leads, and still holds the lock until {@code onRevoked} has returned. */
        RESIGNING,
        /** No longer leads nor holds the lock, and doesn't compete again before {@code onRevoked} has returned. */
        REVOKING
    }

    /**
     * The database session.
     *
     * @param backendPid the server process
     * @param database the database; the same key in another one is another lock
     * @param serverAddress host and port that were reached
     * @param serverVersion such as {@code 18.1}
     * @param leaseEnforced whether the server ends a silent session
     */
    public record Session(
            int backendPid, String database, String serverAddress, String serverVersion, boolean leaseEnforced) {}

    /**
     * What keeps an elector from its work. It recovers by itself when the cause is gone.
     *
     * @param kind what doesn't work
     * @param fault what the session or the server did, for {@link Kind#SESSION} and {@link Kind#LOCK_TABLE_FULL}
     * @param message what is wrong and what to do, in one line
     * @param since how long it has lasted
     */
    public record Problem(Kind kind, Optional<LockSessionException.Fault> fault, String message, Duration since) {

        /** What doesn't work. */
        public enum Kind {
            /** There is no database session, or none that can be trusted. */
            SESSION,
            /** The server has no room for more locks, so this candidate can't get its own. */
            LOCK_TABLE_FULL,
            /** Callbacks of the last term haven't returned, and the elector doesn't compete before they have. */
            CALLBACKS_OVERDUE,
            /** The leader's work failed to start in each of the last terms. */
            START_FAILING
        }
    }

    /** Whether the role is {@link Role#LEADER}. */
    public boolean isLeader() {
        return role == Role.LEADER;
    }
}
