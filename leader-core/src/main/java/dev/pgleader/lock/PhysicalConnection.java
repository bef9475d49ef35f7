package dev.pgleader.lock;

import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.postgresql.jdbc.PgConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The connection to the server under the handle that a pool gives out. Closing the handle keeps the session, and with
 * it the session's advisory locks; only the end of the physical connection surely frees them.
 */
final class PhysicalConnection {

    private static final Logger LOG = LoggerFactory.getLogger(PhysicalConnection.class);
    private static final boolean HIKARI_PRESENT = isHikariPresent();

    private PhysicalConnection() {}

    /**
     * The driver's own connection.
     *
     * @throws SQLException if the handle is closed, or leads to no connection of the PostgreSQL JDBC driver
     */
    static PgConnection of(Connection handle) throws SQLException {
        return handle.unwrap(PgConnection.class);
    }

    /**
     * Ends the physical connection and gives the dead handle back. Never throws, and never waits for the server: the
     * socket is closed first, whatever a pool does afterwards.
     *
     * <p>HikariCP is told to forget the connection. Another pool finds out by itself that it is dead; until then it
     * can at worst hand out a connection on which every statement fails, but never one that holds a lock.
     *
     * @param dataSource where the handle came from; null if it was opened directly
     */
    static void discard(@Nullable DataSource dataSource, Connection handle) {
        attempt("abort", () -> ofOrSelf(handle).abort(Runnable::run));
        if (dataSource != null && HIKARI_PRESENT) {
            attempt("evict", () -> Hikari.evict(dataSource, handle));
        }
        attempt("close", handle::close);
    }

    /** A pool that has already taken its connection away from the handle is ending it itself. */
    private static Connection ofOrSelf(Connection handle) {
        try {
            return of(handle);
        } catch (SQLException e) {
            LOG.debug("No physical connection under {}", handle, e);
            return handle;
        }
    }

    private static void attempt(String step, Step action) {
        try {
            action.run();
        } catch (SQLException | RuntimeException e) {
            LOG.debug("Discarding a connection: the step \"{}\" failed, which leaves it to the others", step, e);
        }
    }

    private static boolean isHikariPresent() {
        try {
            Class.forName("com.zaxxer.hikari.HikariDataSource", false, PhysicalConnection.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException | LinkageError e) {
            return false;
        }
    }

    @FunctionalInterface
    private interface Step {
        void run() throws SQLException;
    }

    /** Loaded only where HikariCP is. */
    private static final class Hikari {

        static void evict(DataSource dataSource, Connection handle) throws SQLException {
            if (dataSource.isWrapperFor(HikariDataSource.class)) {
                dataSource.unwrap(HikariDataSource.class).evictConnection(handle);
            }
        }
    }
}
