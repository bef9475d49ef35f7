package dev.pgleader.lock;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * For this library and its tests only, and no API: it changes without notice between two versions. Use {@code
 * dev.pgleader.LeaderElector} for elections and {@link AdvisoryLocks} for single locks.
 *
 * <p>One database session that holds advisory locks under a lease: the seam between an election and PostgreSQL. One thread
 * uses it; {@link #wake()} and {@link #abort()} may be called from any. Each method that talks to the server returns within the
 * {@link Settings#networkTimeout()} per round trip, of which it takes one, and up to three when somebody cancels its statement.
 * After a {@link LockSessionException} the session is in doubt and must be aborted: the server may have done what the client
 * gave up on.
 */
public interface LockSession {

    /**
     * How a session presents itself and how long it may be silent.
     *
     * @param instanceId shown in {@code pg_stat_activity.application_name}, after {@code pg-leader/}
     * @param lease after this time without a statement of ours the server ends the session, which frees its locks
     * @param networkTimeout the bound of each round trip
     * @param requireEnforcedLease whether a server that refuses to end silent sessions is refused
     */
    record Settings(String instanceId, Duration lease, Duration networkTimeout, boolean requireEnforcedLease) {}

    /**
     * What was true of the session and its server when it was opened.
     *
     * @param backendPid the process that serves it
     * @param database the database whose locks these are
     * @param serverAddress host and port that the driver reached
     * @param serverVersion such as {@code 18.1}
     * @param server which run of which server this is
     * @param serverUptime for how long the server says that it had been running, since its start or since it recovered from a
     *     crash; by its own wall clock, so it may be negative or far too long
     * @param leaseEnforced whether the server ends the session when it is silent for the lease
     */
    record Facts(
            int backendPid,
            String database,
            String serverAddress,
            String serverVersion,
            ServerRun server,
            Duration serverUptime,
            boolean leaseEnforced) {}

    /**
     * One run of a server, from its start, crash recovery or promotion to the next; locks are forgotten in between. What the
     * server says of itself is compared for identity alone: its clock may have been set.
     *
     * @param startedAt when its postmaster started, as the server writes it
     * @param statisticsResetAt when its statistics were reset last, which a crash recovery does, too; as the server writes it
     * @param timeline what changes with each promotion; 0 if the server doesn't tell
     */
    record ServerRun(String startedAt, String statisticsResetAt, int timeline) {

        /** Whether the locks may have been forgotten since {@code earlier}. */
        public boolean isAnotherThan(ServerRun earlier) {
            boolean promoted = timeline != 0 && earlier.timeline != 0 && timeline != earlier.timeline;
            return promoted
                    || !startedAt.equals(earlier.startedAt)
                    || !statisticsResetAt.equals(earlier.statisticsResetAt);
        }

        /** The same run, with a timeline that was known before if the server doesn't tell it now. */
        public ServerRun knowing(ServerRun earlier) {
            return timeline == 0 ? new ServerRun(startedAt, statisticsResetAt, earlier.timeline) : this;
        }
    }

    /**
     * Who holds a lock.
     *
     * @param backendPid the holder's backend
     * @param applicationName what the holder's session calls itself
     */
    record Holder(int backendPid, String applicationName) {

        /** The instance id of a lock session; what another session calls itself. */
        public String instanceId() {
            return applicationName.startsWith(PgLockSession.INSTANCE_PREFIX)
                    ? applicationName.substring(PgLockSession.INSTANCE_PREFIX.length())
                    : applicationName;
        }
    }

    /**
     * A notification on the channel that all lock sessions of a database listen on. Anybody who may connect can send one.
     *
     * @param senderPid the backend that sent it, as the server says
     * @param payload what it says
     */
    record Notification(int senderPid, String payload) {}

    /**
     * What came of a try.
     *
     * @param granted the keys that were granted; a grant counts only once {@link #check()} has shown it
     * @param holders who holds the others, as far as the server's {@code pg_locks} shows
     */
    record Attempt(Set<LockKey> granted, Map<LockKey, Holder> holders) {}

    /** Opens sessions. */
    @FunctionalInterface
    interface Opener {

        /**
         * Opens a session.
         *
         * @throws LockSessionException if there is no session to be had now
         */
        LockSession open(Settings settings) throws LockSessionException;
    }

    /** What was true when the session was opened. */
    Facts facts();

    /**
     * Shows this session to be a member of a group, for as long as it lives, by a shared lock on the group's key.
     *
     * @return false if somebody holds that key exclusively
     */
    boolean join(LockKey group) throws LockSessionException;

    /** How many sessions of this session's role have {@linkplain #join joined} the group. */
    int countMembers(LockKey group) throws LockSessionException;

    /**
     * Proves that this is still the session that was opened, on a server that may be trusted with the job, with its lease
     * in force.
     *
     * @return the keys that the server says this session holds exclusively
     */
    Set<LockKey> check() throws LockSessionException;

    /**
     * Tries each key once, without waiting. Must not be called with a key that this session holds: PostgreSQL would count
     * it twice.
     *
     * @throws LockTableFullException if the server has no room for so many locks; then the session is still good, but some of
     *     the keys may have been granted
     */
    Attempt attempt(Collection<LockKey> keys) throws LockSessionException, LockTableFullException;

    /**
     * Waits for the key in the server's queue. Meanwhile nothing else can be asked of the session, and its transaction holds
     * a snapshot, as any statement that runs does. Must not be called with a key that this session holds.
     *
     * @param longest how long to wait; shorter than the lease
     * @return whether the key was granted; a grant counts only once {@link #check()} has shown it
     * @throws LockTableFullException if the server has no room for the lock; then the session is still good
     */
    boolean waitInQueue(LockKey key, Duration longest) throws LockSessionException, LockTableFullException;

    /** Who holds the keys now, without those that nobody holds. */
    Map<LockKey, Holder> findHolders(Collection<LockKey> keys) throws LockSessionException;

    /**
     * Unlocks the keys, and tells nobody.
     *
     * @throws LockSessionException also if the session didn't hold one of the locks
     */
    void release(Collection<LockKey> keys) throws LockSessionException;

    /**
     * Tells all sessions of the database, this one among them. The server may be unable to take it, because its notification
     * queue or lock table is full or because another transaction holds the queue up; that is found out within {@link
     * Settings#networkTimeout()} / 4 and harms nothing.
     *
     * @return whether it was told; if not, nothing was
     */
    boolean tell(List<String> notifications) throws LockSessionException;

    /** Which of these backends may command this session: those that run as the same role, or as a superuser. */
    Set<Integer> findCommanders(Collection<Integer> backendPids) throws LockSessionException;

    /** Ends what {@link #join} began. */
    void leave(LockKey group) throws LockSessionException;

    /**
     * Waits for notifications, for the end of the time or for a {@link #wake()}; returns early if it likes.
     *
     * @throws LockSessionException if the connection turns out to be lost
     */
    List<Notification> awaitNotifications(long maxNanos) throws LockSessionException;

    /** Ends the current or the next {@link #awaitNotifications}. */
    void wake();

    /** Says goodbye to the server and closes the connection. */
    void close();

    /** Closes the connection at once, whatever it's doing. */
    void abort();

    /**
     * Opens a session and has the server prove that it can be trusted with the job.
     *
     * @throws LockSessionException if there is no such session to be had now
     */
    static LockSession open(ConnectionSource source, Settings settings) throws LockSessionException {
        return SessionOpening.open(source, settings);
    }
}
