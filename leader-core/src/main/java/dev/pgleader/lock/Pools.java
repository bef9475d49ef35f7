package dev.pgleader.lock;

import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tells a pool that a connection of its is gone, so that it opens another one in its place and lends nobody the dead one.
 *
 * <p>The way that each understands is an error of class 08 on the handle, which a statement on a dead connection gives, and
 * the close of a handle whose connection is closed. Two have to be told more: HikariCP may be set to keep connections after
 * an error, and Agroal keeps them unless it has an exception sorter.
 */
final class Pools {

    private static final Logger LOG = LoggerFactory.getLogger(Pools.class);
    private static final boolean HIKARI_PRESENT = isPresent("com.zaxxer.hikari.HikariDataSource");
    private static final String AGROAL = "io.agroal.";

    private Pools() {}

    /** Never throws. The driver's connection under the handle must be closed already. */
    static void tellThatItIsGone(DataSource dataSource, Connection handle) {
        if (HIKARI_PRESENT) {
            LentConnection.attempt("evict", () -> Hikari.evict(dataSource, handle));
        }
        if (handle.getClass().getName().startsWith(AGROAL)) {
            LentConnection.attempt("flush", () -> flush(handle));
        }
        LentConnection.attempt("use", () -> fail(handle));
    }

    private static void fail(Connection handle) {
        try {
            handle.createStatement().close();
        } catch (SQLException e) {
            LOG.trace("As it should", e);
        }
    }

    /** Agroal's own view of a connection, which it gives no interface to. */
    private static void flush(Connection handle) throws ReflectiveOperationException {
        Object handler = handle.getClass().getMethod("getHandler").invoke(handle);
        handler.getClass().getMethod("setFlushOnly").invoke(handler);
    }

    static boolean isPresent(String className) {
        try {
            Class.forName(className, false, Pools.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException | LinkageError e) {
            return false;
        }
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
