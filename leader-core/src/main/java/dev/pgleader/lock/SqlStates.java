package dev.pgleader.lock;

import java.sql.SQLException;

/** The <a href="https://www.postgresql.org/docs/current/errcodes-appendix.html">SQLSTATEs</a> that decide something. */
final class SqlStates {

    static final String TRANSACTION_ABORTED = "25P02";
    static final String CONNECTION_FAILURE = "08006";
    static final String CONNECTION_GONE = "08003";
    static final String OBJECT_IN_USE = "55006";
    static final String OUTCOME_UNKNOWN = "08007";
    static final String LOCK_NOT_AVAILABLE = "55P03";

    private SqlStates() {}

    /** Whether the connection broke, or the server ended it: class 08, and the shutdown states of class 57. */
    static boolean isEndOfSession(SQLException failure) {
        String state = failure.getSQLState();
        return state != null && (state.startsWith("08") || state.startsWith("57P"));
    }
}
