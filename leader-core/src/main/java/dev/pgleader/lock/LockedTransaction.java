package dev.pgleader.lock;

import java.sql.Connection;
import java.sql.SQLException;
import org.jspecify.annotations.Nullable;

/** An open transaction that holds a lock: {@link #commit()} once the work is done, and {@link #close()} in any case. */
final class LockedTransaction implements AutoCloseable {

    private final LockKey key;
    private final PinnedConnection pinned;
    private final Connection connection;
    private final int backendPid;
    private boolean committed;

    private LockedTransaction(LockKey key, PinnedConnection pinned, int backendPid) {
        this.key = key;
        this.pinned = pinned;
        this.connection = GuardedConnection.forTransaction(pinned, key);
        this.backendPid = backendPid;
    }

    static @Nullable LockedTransaction tryBegin(PinnedConnection pinned, LockKey key) throws SQLException {
        pinned.reset(false);
        // A snapshot for the whole transaction would be taken before the lock is, and so could lack what the last
        // holder committed.
        pinned.execute(OneShotSql.READ_COMMITTED);
        SessionAnswer answer = pinned.tryLock(OneShotSql.TRY_FOR_TRANSACTION, key);
        if (answer.done()) {
            return new LockedTransaction(key, pinned, answer.backendPid());
        }
        pinned.reset(true);
        return null;
    }

    Connection connection() {
        return connection;
    }

    /** Commits, if the lock is still held. Whatever this throws, {@link #close()} follows. */
    void commit() throws SQLException {
        if (pinned.isTransactionAborted()) {
            throw new SQLException(
                    "The work returned as if all were well, but a statement failed and its transaction is aborted:"
                            + " it is rolled back",
                    SqlStates.TRANSACTION_ABORTED);
        }
        requireHeld();
        try {
            pinned.commit();
        } catch (SQLException e) {
            if (pinned.hasEnded(e)) {
                throw new SQLException(
                        "The commit of the work under lock " + PinnedConnection.describe(key)
                                + " was sent but not confirmed: it may or may not have happened",
                        SqlStates.OUTCOME_UNKNOWN,
                        e);
            }
            throw e;
        }
        committed = true;
    }

    /** Rolls back what was not committed, and gives the connection back. */
    @Override
    public void close() throws SQLException {
        if (!committed) {
            try {
                pinned.reset(true);
            } catch (Throwable failure) {
                pinned.discard();
                throw failure;
            }
        }
        pinned.giveBack();
    }

    private void requireHeld() throws LockLostException {
        SessionAnswer answer;
        try {
            answer = pinned.ask(OneShotSql.CHECK, key);
        } catch (SQLException e) {
            throw new LockLostException(key, backendPid, "before the commit it could not be confirmed", e);
        }
        if (!answer.held() || answer.backendPid() != backendPid) {
            throw new LockLostException(
                    key,
                    backendPid,
                    "before the commit it was gone, as when the work ends its transaction by SQL",
                    null);
        }
    }
}
