package dev.pgleader.lock;

/**
 * The <a href="https://www.postgresql.org/docs/current/errcodes-appendix.html">SQLSTATEs</a> that are read or told; what they mean for a
 * session says {@link SqlFaults}.
 */
final class SqlStates {

    static final String CONNECTION_CLASS = "08";
    static final String CONNECTION_GONE = "08003";
    static final String CONNECTION_FAILURE = "08006";
    static final String OUTCOME_UNKNOWN = "08007";
    static final String READ_ONLY = "25006";
    static final String TRANSACTION_ABORTED = "25P02";
    static final String LOGIN_REFUSED_CLASS = "28";
    static final String LOCK_TABLE_FULL = "53200";
    static final String TOO_MANY_CONNECTIONS = "53300";
    static final String NOTIFICATIONS_FULL = "54000";
    static final String OBJECT_IN_USE = "55006";
    static final String LOCK_NOT_AVAILABLE = "55P03";
    static final String CANCELLED = "57014";
    static final String SHUTDOWN_CLASS = "57P";

    private SqlStates() {}
}
