package dev.pgleader.lock;

import dev.pgleader.lock.LockSessionException.Fault;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.sql.SQLException;
import java.util.function.Predicate;

/** What an exception of the driver means for a lock session, and how it is told. */
final class SqlFaults {

    private static final String LOCK_TABLE_FULL = "53200";
    private static final String QUEUE_FULL = "54000";
    private static final String CANCELLED = "57014";
    private static final String READ_ONLY = "25006";
    private static final String LOGIN_REFUSED_CLASS = "28";
    private static final String TOO_MANY_CONNECTIONS = "53300";

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
            case LOCK_TABLE_FULL -> Fault.LOCK_TABLE_FULL;
            case READ_ONLY -> Fault.READ_ONLY;
            default -> Fault.STATEMENT_FAILED;
        };
    }

    /** Why there is no connection. A pool hides the reason under an exception of its own. */
    static Fault ofLogin(Throwable e) {
        if (isCausedBy(e, cause -> state(cause).startsWith(LOGIN_REFUSED_CLASS))) {
            return Fault.LOGIN_REFUSED;
        }
        return isCausedBy(e, cause -> state(cause).equals(LOCK_TABLE_FULL)) ? Fault.LOCK_TABLE_FULL : Fault.UNREACHABLE;
    }

    static boolean isConnectionLost(SQLException e) {
        return SqlStates.isEndOfSession(e) || isCausedBy(e, IOException.class::isInstance);
    }

    static boolean isLockTableFull(SQLException e) {
        return state(e).equals(LOCK_TABLE_FULL);
    }

    /** Whether the server's queue of notifications is full, which is no fault of the session's. */
    static boolean isQueueFull(SQLException e) {
        return state(e).equals(QUEUE_FULL);
    }

    /** Whether somebody cancelled the statement, as {@code pg_cancel_backend} does, which the session survives. */
    static boolean isCancelled(SQLException e) {
        return state(e).equals(CANCELLED);
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
                + (isCausedBy(e, cause -> state(cause).equals(TOO_MANY_CONNECTIONS))
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
