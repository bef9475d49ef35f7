package dev.pgleader.lock;

import java.sql.SQLException;
import java.time.Duration;
import java.util.Optional;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * Runs work while holding a PostgreSQL <a
 * href="https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS">advisory lock</a>: in the whole
 * database, one session at a time has a key. Immutable and thread-safe.
 *
 * <p><b>In a transaction</b> ({@link #tryRunInTransaction}, {@link #runInTransaction}) is the form for work that only
 * writes to this database: the lock and the writes end together, so that nothing is written without the lock. It takes
 * one transaction, hence also works through a pooler in transaction mode. {@code CREATE INDEX CONCURRENTLY} can't run
 * in it.
 *
 * <p><b>Under a session lock</b> ({@link #tryAcquire}, {@link #acquire}, {@link #tryRunLocked}, {@link #runLocked}) is
 * the form for everything else. It needs a session of its own, which a pooler in transaction mode doesn't give. If the
 * session ends under the work, another one can take the lock at once, and nothing stops the work: the caller is told
 * at the end, by a {@link LockLostException}. There is no fencing token.
 *
 * <p>Both forms take exactly one connection from the {@link DataSource}, keep it to the end, and give it back with the
 * settings that it came with; a pool of one is enough. A connection is never given back locked: on any doubt its
 * physical connection is ended. The key is not reentrant: within the work, the same key is taken, as for anybody else.
 *
 * <p>Waiting is polling, every 50 ms at first and every 500 ms later. Between two tries the session is idle, with no
 * transaction and no snapshot, so it holds back neither vacuum nor an index build. Waiters have no order among them.
 *
 * <p>Each round trip of the helpers ends within the network timeout, even if the server is frozen; what the work does
 * on the connection has the connection's own timeout. The server frees the lock of a client that died as soon as it
 * sees the connection close. While it runs a statement for that client it only looks if <a
 * href="https://www.postgresql.org/docs/current/runtime-config-connection.html#GUC-CLIENT-CONNECTION-CHECK-INTERVAL">
 * {@code client_connection_check_interval}</a> is set.
 */
public final class AdvisoryLocks {

    /** How long a round trip of the helpers may take, where nothing else is said: 5 seconds. */
    public static final Duration DEFAULT_NETWORK_TIMEOUT = Duration.ofSeconds(5);

    private static final Duration SHORTEST_NETWORK_TIMEOUT = Duration.ofMillis(10);
    private static final Duration LONGEST_NETWORK_TIMEOUT = Duration.ofHours(1);

    private final DataSource dataSource;
    private final Duration networkTimeout;

    private AdvisoryLocks(DataSource dataSource, Duration networkTimeout) {
        this.dataSource = dataSource;
        this.networkTimeout = networkTimeout;
    }

    /** Locks on the database of this DataSource, with {@link #DEFAULT_NETWORK_TIMEOUT}. */
    public static AdvisoryLocks on(DataSource dataSource) {
        return on(dataSource, DEFAULT_NETWORK_TIMEOUT);
    }

    /**
     * Locks on the database of this DataSource.
     *
     * @param dataSource a pool, or any other source of connections of the PostgreSQL JDBC driver. Not a
     *     transaction-aware one: the helpers need a connection without a transaction
     * @param networkTimeout how long a round trip of the helpers may take before they give up and end the connection:
     *     10 ms to 1 hour. Must leave time for a commit, with its deferred constraints and synchronous standbys
     * @throws IllegalArgumentException if the timeout is out of range
     */
    public static AdvisoryLocks on(DataSource dataSource, Duration networkTimeout) {
        if (networkTimeout.compareTo(SHORTEST_NETWORK_TIMEOUT) < 0
                || networkTimeout.compareTo(LONGEST_NETWORK_TIMEOUT) > 0) {
            throw new IllegalArgumentException("networkTimeout must be between " + SHORTEST_NETWORK_TIMEOUT + " and "
                    + LONGEST_NETWORK_TIMEOUT + ", but is " + networkTimeout);
        }
        return new AdvisoryLocks(dataSource, networkTimeout);
    }

    /**
     * Takes the key for a session, or finds it taken. Tries once.
     *
     * @return the lock, to be closed by the caller; empty if another session has the key
     * @throws SQLException if the database could not be asked, or hands out a session that has the key already
     */
    public Optional<HeldLock> tryAcquire(LockKey key) throws SQLException {
        return Optional.ofNullable(tryOnce(key, HeldLock::tryLock));
    }

    /**
     * Takes the key for a session, and waits for it if need be.
     *
     * @param maxWait how long to try: zero, for one try, to 30 days. Getting a connection counts, but is not cut short
     * @return the lock, to be closed by the caller
     * @throws LockTimeoutException if another session has the key for all that time
     * @throws InterruptedException if the thread is interrupted before or during the wait; the key is not taken then
     * @throws SQLException if the database could not be asked, or hands out a session that has the key already
     * @throws IllegalArgumentException if {@code maxWait} is out of range
     */
    public HeldLock acquire(LockKey key, Duration maxWait) throws SQLException, InterruptedException {
        return tryUntil(key, maxWait, HeldLock::tryLock);
    }

    /**
     * Runs the work under a session lock, or skips it if another session has the key.
     *
     * @param work gets the connection of the lock, in autocommit mode. May use it or not. What the work throws is what
     *     the caller sees; the lock is freed whatever happens
     * @throws LockLostException if the lock was not held any more at the end of the work; suppressed in what the work
     *     threw, if it threw
     * @throws SQLException if the database could not be asked, or hands out a session that has the key already
     * @throws X what the work throws
     */
    public <T extends @Nullable Object, X extends Exception> LockOutcome<T> tryRunLocked(
            LockKey key, LockedWork<T, X> work) throws SQLException, X {
        try (HeldLock lock = tryOnce(key, HeldLock::tryLock)) {
            return lock == null ? LockOutcome.skipped() : LockOutcome.ran(work.run(lock.connection()));
        }
    }

    /**
     * Runs the work under a session lock, and waits for the key if need be.
     *
     * @param maxWait as for {@link #acquire}
     * @param work as for {@link #tryRunLocked}
     * @return what the work returns
     * @throws LockTimeoutException if another session has the key for all that time
     * @throws LockLostException if the lock was not held any more at the end of the work; suppressed in what the work
     *     threw, if it threw
     * @throws InterruptedException if the thread is interrupted before or during the wait; the work is not run then
     * @throws SQLException if the database could not be asked, or hands out a session that has the key already
     * @throws IllegalArgumentException if {@code maxWait} is out of range
     * @throws X what the work throws
     */
    public <T extends @Nullable Object, X extends Exception> T runLocked(
            LockKey key, Duration maxWait, LockedWork<T, X> work) throws SQLException, InterruptedException, X {
        try (HeldLock lock = tryUntil(key, maxWait, HeldLock::tryLock)) {
            return work.run(lock.connection());
        }
    }

    /**
     * Runs the work in a transaction that has the key, or skips it if another session has the key. The transaction is
     * committed if the work returns, and rolled back if it throws anything. It is READ COMMITTED, so that the work sees
     * what the last holder committed.
     *
     * @param work gets the connection, which refuses to commit or to roll back other than to a savepoint
     * @throws LockLostException if the lock was not held any more at the end of the work, as when the work sent a
     *     {@code COMMIT} of its own; nothing is committed by the helper then
     * @throws SQLException if the database could not be asked, hands out a session that has the key already, or refused
     *     the commit. With SQLSTATE 08007 the connection broke during the commit, which may or may not have happened
     * @throws X what the work throws
     */
    public <T extends @Nullable Object, X extends Exception> LockOutcome<T> tryRunInTransaction(
            LockKey key, LockedWork<T, X> work) throws SQLException, X {
        try (LockedTransaction transaction = tryOnce(key, LockedTransaction::tryBegin)) {
            return transaction == null ? LockOutcome.skipped() : LockOutcome.ran(runAndCommit(transaction, work));
        }
    }

    /**
     * Runs the work in a transaction that has the key, and waits for the key if need be. Otherwise as {@link
     * #tryRunInTransaction}.
     *
     * @param maxWait as for {@link #acquire}
     * @return what the work returns
     * @throws LockTimeoutException if another session has the key for all that time
     * @throws LockLostException as for {@link #tryRunInTransaction}
     * @throws InterruptedException if the thread is interrupted before or during the wait; the work is not run then
     * @throws SQLException as for {@link #tryRunInTransaction}
     * @throws IllegalArgumentException if {@code maxWait} is out of range
     * @throws X what the work throws
     */
    public <T extends @Nullable Object, X extends Exception> T runInTransaction(
            LockKey key, Duration maxWait, LockedWork<T, X> work) throws SQLException, InterruptedException, X {
        try (LockedTransaction transaction = tryUntil(key, maxWait, LockedTransaction::tryBegin)) {
            return runAndCommit(transaction, work);
        }
    }

    private static <T extends @Nullable Object, X extends Exception> T runAndCommit(
            LockedTransaction transaction, LockedWork<T, X> work) throws SQLException, X {
        T result = work.run(transaction.connection());
        transaction.commit();
        return result;
    }

    private <L> @Nullable L tryOnce(LockKey key, Flavour<L> flavour) throws SQLException {
        PinnedConnection pinned = PinnedConnection.borrow(dataSource, networkTimeout);
        L lock;
        try {
            lock = flavour.tryOn(pinned, key);
        } catch (Throwable failure) {
            pinned.discard();
            throw failure;
        }
        if (lock == null) {
            pinned.giveBack();
        }
        return lock;
    }

    private <L> L tryUntil(LockKey key, Duration maxWait, Flavour<L> flavour)
            throws SQLException, InterruptedException {
        BoundedWait.requireReasonable(maxWait);
        if (Thread.interrupted()) {
            throw new InterruptedException("Interrupted before the wait for lock " + PinnedConnection.describe(key));
        }
        long startNanos = System.nanoTime();
        PinnedConnection pinned = PinnedConnection.borrow(dataSource, networkTimeout);
        LockTimeoutException timedOut;
        try {
            L lock = BoundedWait.poll(maxWait.minus(since(startNanos)), () -> flavour.tryOn(pinned, key));
            if (lock != null) {
                return lock;
            }
            timedOut = pinned.timedOut(key, since(startNanos));
        } catch (InterruptedException e) {
            // Between two tries nothing is in doubt.
            pinned.giveBack();
            throw e;
        } catch (Throwable failure) {
            pinned.discard();
            throw failure;
        }
        pinned.giveBack();
        throw timedOut;
    }

    private static Duration since(long startNanos) {
        return Duration.ofNanos(System.nanoTime() - startNanos);
    }

    /** What is taken on a pinned connection; null, with the connection idle, if another session has the key. */
    @FunctionalInterface
    private interface Flavour<L> {
        @Nullable
        L tryOn(PinnedConnection pinned, LockKey key) throws SQLException;
    }
}
