package dev.pgleader.lock;

import java.sql.ResultSet;
import java.sql.SQLException;

/**
 * What a session says of itself and one key.
 *
 * @param backendPid the server process that answered
 * @param held whether this session holds the key; when, is said at the statement in {@link OneShotSql}
 * @param done whether the statement did what it is there for
 * @param shown whether {@code pg_locks} shows after the statement that this session holds the key
 * @param belongings how many locks and subscriptions the session has, apart from the key
 * @param defaultIsolation the isolation of the session's next transaction
 */
record SessionAnswer(
        int backendPid, boolean held, boolean done, boolean shown, int belongings, String defaultIsolation) {

    /** Reads the only row. A missing row or value is no "false": it means that something else answered. */
    static SessionAnswer read(ResultSet row) throws SQLException {
        if (!row.next()) {
            throw new SQLException("The server's answer about an advisory lock has no row");
        }
        return new SessionAnswer(
                present(row, row.getInt("backend_pid")),
                present(row, row.getBoolean("held")),
                present(row, row.getBoolean("done")),
                present(row, row.getBoolean("shown")),
                present(row, row.getInt("belongings")),
                present(row, row.getString("default_isolation")));
    }

    private static <V> V present(ResultSet row, V value) throws SQLException {
        if (row.wasNull()) {
            throw new SQLException("The server's answer about an advisory lock has no value where one must be");
        }
        return value;
    }
}
