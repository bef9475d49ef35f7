package dev.pgleader.lock;

import dev.pgleader.lock.LockSessionException.Fault;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.sql.SQLException;
import java.util.function.Predicate;

/** What an exception of the driver means for a lock session, and how it is told. */
final class SqlFaults {

    private SqlFaults() {}

    /** Why a statement failed. */
    static Fault ofStatement(SQLException e) {
        if (isCausedBy(e, SocketTimeoutException.class::isInstance)) {
            return Fault.TIMEOUT;
        }
        if (isConnectionLost(e)) {
            return Fault.CONNECTION_LOST;
        }
        return switch (String.valueOf(e.getSQLState())) {
            case SqlStates.LOCK_TABLE_FULL -> Fault.LOCK_TABLE_FULL;
            case SqlStates.READ_ONLY -> Fault.READ_ONLY;
            default -> Fault.STATEMENT_FAILED;
        };
    }

    /** Why there is no connection. A pool hides the reason under an exception of its own. */
    static Fault ofLogin(Throwable e) {
        if (isCausedBy(e, cause -> state(cause).startsWith(SqlStates.LOGIN_REFUSED_CLASS))) {
            return Fault.LOGIN_REFUSED;
        }
        return isCausedBy(e, cause -> state(cause).equals(SqlStates.LOCK_TABLE_FULL))
                ? Fault.LOCK_TABLE_FULL
                : Fault.UNREACHABLE;
    }

    /** Whether the connection broke, or the server ended it. */
    static boolean isEndOfSession(SQLException e) {
        return state(e).startsWith(SqlStates.CONNECTION_CLASS) || state(e).startsWith(SqlStates.SHUTDOWN_CLASS);
    }

    /** Whether the session is over, or nothing can be known of it any more. */
    static boolean isConnectionLost(SQLException e) {
        return isEndOfSession(e) || isCausedBy(e, IOException.class::isInstance);
    }

    static boolean isLockTableFull(SQLException e) {
        return state(e).equals(SqlStates.LOCK_TABLE_FULL);
    }

    /** Whether the server's queue of notifications is full, which is no fault of the session's. */
    static boolean isQueueFull(SQLException e) {
        return state(e).equals(SqlStates.NOTIFICATIONS_FULL);
    }

    /** Whether somebody cancelled the statement, as {@code pg_cancel_backend} does, which the session survives. */
    static boolean isCancelled(SQLException e) {
        return state(e).equals(SqlStates.CANCELLED);
    }

    /** The exception in one line: what each in the chain of causes adds, and the SQLSTATEs. */
    static String describe(Throwable e) {
        StringBuilder text = new StringBuilder();
        int depth = 0;
        for (Throwable cause = e; cause != null && depth < 10; cause = cause.getCause(), depth++) {
            String message = onOneLine(cause.getMessage() == null ? "" : cause.getMessage());
            String state = state(cause);
            if (text.isEmpty() || message.isEmpty() || text.indexOf(message) < 0) {
                text.append(text.isEmpty() ? "" : "; ")
                        .append(
                                cause instanceof SQLException
                                        ? ""
                                        : cause.getClass().getSimpleName() + ": ")
                        .append(message);
            }
            if (!state.isEmpty() && text.indexOf("(" + state + ")") < 0) {
                text.append(" (").append(state).append(')');
            }
        }
        return text.toString();
    }

    /** As {@link #describe}, and what to do where no connection is left. */
    static String describeLogin(Throwable e) {
        return describe(e)
                + (isCausedBy(e, cause -> state(cause).equals(SqlStates.TOO_MANY_CONNECTIONS))
                        ? ": raise the CONNECTION LIMIT of the role or the database, or the server's max_connections"
                        : "");
    }

    static String onOneLine(String text) {
        return text.strip().replaceAll("[\\s\\p{Cntrl}]+", " ");
    }

    private static String state(Throwable e) {
        return e instanceof SQLException failure && failure.getSQLState() != null ? failure.getSQLState() : "";
    }

    private static boolean isCausedBy(Throwable e, Predicate<Throwable> condition) {
        int depth = 0;
        for (Throwable cause = e; cause != null && depth < 10; cause = cause.getCause(), depth++) {
            if (condition.test(cause)) {
                return true;
            }
        }
        return false;
    }
}
