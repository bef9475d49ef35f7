package dev.pgleader;

/** How a candidate comes by the lock. */
public enum AcquisitionMode {

    /**
     * Tries the lock once in each {@link ElectorOptions#retryInterval()}, and at once when the leader says that it has released it.
     * When a leader's process dies, it takes up to one interval until the next leader is elected. The default.
     */
    POLL,

    /**
     * Waits for the lock inside the server, in slices of at most {@link ElectorOptions#queueSlice()}, so that the server hands
     * it over in the moment in which the leader's session ends.
     *
     * <p>The price: while a candidate waits, its session is {@code active} and holds a snapshot that is at most one slice old,
     * so {@code VACUUM} can't remove what was deleted since, and statements such as {@code CREATE INDEX CONCURRENTLY} wait
     * for the slices that run when they begin, see <a
     * href="https://www.postgresql.org/docs/current/sql-createindex.html#SQL-CREATEINDEX-CONCURRENTLY">Building Indexes
     * Concurrently</a>. With {@code log_lock_waits} on, the server writes a line for each slice that is longer than {@code
     * deadlock_timeout} (1 s by default).
     *
     * <p>A session waits for one key at a time: in a {@link LeaderElectorGroup}, followers take turns waiting, and all of them
     * poll as well; what is asked of a group that waits, such as to resign or to pause, waits for the slice to end. A group
     * that holds keys waits in slices of 100 ms at the most.
     */
    QUEUE
}
