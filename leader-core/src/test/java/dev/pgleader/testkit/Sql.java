package dev.pgleader.testkit;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.postgresql.PGConnection;

/** One-line statements for tests. */
public final class Sql {

    private Sql() {}

    /** Executes a statement without parameters, whatever it returns. */
    public static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    /** Returns the first column of all rows as text, in a list that may be changed. */
    public static List<String> column(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            List<String> values = new ArrayList<>();
            while (rows.next()) {
                values.add(rows.getString(1));
            }
            return values;
        }
    }

    /**
     * Returns the first column of the only row as text.
     *
     * @throws AssertionError if there isn't exactly one row
     */
    public static @Nullable String text(Connection connection, String sql, Object... parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i++) {
                statement.setObject(i + 1, parameters[i]);
            }
            try (ResultSet rows = statement.executeQuery()) {
                if (!rows.next()) {
                    throw new AssertionError("no row: " + sql);
                }
                String text = rows.getString(1);
                if (rows.next()) {
                    throw new AssertionError("more than one row: " + sql);
                }
                return text;
            }
        }
    }

    /**
     * Returns the first column of the only row, a boolean.
     *
     * @throws AssertionError if there isn't exactly one row, or it has no boolean
     */
    public static boolean truth(Connection connection, String sql, Object... parameters) throws SQLException {
        String text = text(connection, sql, parameters);
        if (text == null || !(text.equals("t") || text.equals("f"))) {
            throw new AssertionError("not a boolean: " + text + " from " + sql);
        }
        return text.equals("t");
    }

    /** Tries to take a session-level lock. */
    public static boolean tryLock(Connection connection, long key) throws SQLException {
        return truth(connection, "SELECT pg_try_advisory_lock(?)", key);
    }

    /** Releases a session-level lock once; false if the session didn't hold it. */
    public static boolean unlock(Connection connection, long key) throws SQLException {
        return truth(connection, "SELECT pg_advisory_unlock(?)", key);
    }

    /** Returns the process id of a connection's session, without asking the server. */
    public static int backendPid(Connection connection) throws SQLException {
        return connection.unwrap(PGConnection.class).getBackendPID();
    }
}
