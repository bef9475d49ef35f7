package dev.pgleader.lock;

import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
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

    /** Gives back a handle whose connection was closed under it. Never throws. */
    static void giveBackDead(DataSource dataSource, Connection handle) {
        if (HIKARI_PRESENT) {
            LentConnection.attempt("evict", () -> Hikari.evict(dataSource, handle));
        }
        Object agroals = Agroal.ownHandle(handle);
        if (agroals != null) {
            LentConnection.attempt("flush", () -> Agroal.flush(agroals));
        }
        LentConnection.attempt("use", () -> fail(handle));
        LentConnection.attempt("close", handle::close);
        if (agroals == null) {
            LentConnection.attempt("flush", () -> Agroal.flushAll(dataSource));
        }
    }

    private static void fail(Connection handle) {
        try {
            handle.createStatement().close();
        } catch (SQLException e) {
            LOG.trace("As it should", e);
        }
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

    /** By reflection, since its jars have no names for modules. */
    private static final class Agroal {

        private static final String DATA_SOURCE = AGROAL + "api.AgroalDataSource";
        private static final boolean PRESENT = isPresent(DATA_SOURCE);

        /** The pool's own handle, also out of a wrapper that tells of it; null if there is none or it can't be seen. */
        static @Nullable Object ownHandle(Connection handle) {
            try {
                Class<?> type =
                        Class.forName(AGROAL + "pool.wrapper.ConnectionWrapper", false, Pools.class.getClassLoader());
                if (type.isInstance(handle)) {
                    return handle;
                }
                return handle.isWrapperFor(type) ? handle.unwrap(type) : null;
            } catch (Exception | LinkageError e) {
                return null;
            }
        }

        /** Marks a connection, so that it ends when it is given back. */
        static void flush(Object handle) throws ReflectiveOperationException {
            Object handler = handle.getClass().getMethod("getHandler").invoke(handle);
            handler.getClass().getMethod("setFlushOnly").invoke(handler);
        }

        /**
         * A handle that another wrapper hides can't be marked. So all of the pool's connections are renewed soon after this: those
         * that nobody uses at once, the others when they come back, since the dead one may have been lent meanwhile.
         */
        static void flushAll(DataSource dataSource) throws ReflectiveOperationException, SQLException {
            if (!PRESENT) {
                return;
            }
            Class<?> type = Class.forName(DATA_SOURCE, false, Pools.class.getClassLoader());
            if (dataSource.isWrapperFor(type)) {
                for (Class<?> mode : type.getDeclaredClasses()) {
                    if (mode.getSimpleName().equals("FlushMode")) {
                        type.getMethod("flush", mode)
                                .invoke(
                                        dataSource.unwrap(type),
                                        mode.getField("GRACEFUL").get(null));
                    }
                }
            }
        }
    }
}
