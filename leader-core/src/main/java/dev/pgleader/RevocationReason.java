package dev.pgleader;

/** Why a term of leadership ended. */
public enum RevocationReason {
    /** The database session is gone: backend terminated, server stopped, connection reset. */
    SESSION_LOST,
    /** The server didn't answer a check in time. */
    CHECK_TIMEOUT,
    /** No check succeeded within the trust window: this process was paused, or the server was out of reach. */
    LEASE_EXPIRED,
    /** The session lives, but no longer holds the lock, or can't be trusted to. */
    LOCK_LOST,
    /** The server became a standby or takes no writes any more. */
    NOT_WRITABLE,
    /** {@link LeaderElector#resign()} or {@link LeaderElector#pause()} was called, or another instance asked for it. */
    RESIGNED,
    /** The elector was stopped or closed. */
    CLOSED,
    /** {@link LeadershipListener#onElected} threw, or work of {@link LeaderElector#runWhileLeader} did. */
    CALLBACK_FAILED,
    /** The listener was removed while the elector leads; only that listener hears of it. */
    LISTENER_REMOVED
}
