package dev.pgleader.lock;

import java.sql.SQLException;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import javax.sql.DataSource;
import org.postgresql.jdbc.PgConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.datasource.ConnectionHolder;
import org.springframework.jdbc.datasource.SimpleConnectionHandle;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.datasource.TransactionAwareDataSourceProxy;
import org.springframework.jdbc.datasource.lookup.AbstractRoutingDataSource;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Refuses what would let somebody else use the session of a lock, which such a DataSource does by design: one that has a
 * single connection, or that hands out the connection of the caller's transaction. Tells of one that may lead to another
 * database each time.
 */
final class Sharing {

    static final String ADVICE = "Use the plain DataSource of a pool, or one that opens a connection each time";

    private static final Logger LOG = LoggerFactory.getLogger(Sharing.class);
    private static final boolean SPRING_PRESENT =
            Pools.isPresent("org.springframework.jdbc.datasource.TransactionAwareDataSourceProxy");

    private Sharing() {}

    /** Asked before a connection is borrowed. */
    static void refuse(DataSource dataSource) throws SQLException {
        if (SPRING_PRESENT) {
            Spring.refuse(dataSource);
        }
    }

    /** Asked of a connection that was borrowed. */
    static void refuse(DataSource dataSource, PgConnection physical) throws SQLException {
        if (SPRING_PRESENT) {
            Spring.refuse(dataSource, physical);
        }
    }

    private static SQLException ofTransaction(DataSource dataSource) {
        return new SQLException("The DataSource " + dataSource.getClass().getName() + " hands out the connection of the"
                + " Spring transaction that runs on this thread, and whoever runs in it would share the lock's session. "
                + ADVICE
                + ", not a transaction-aware one; for a lock that ends with your transaction, call this outside of"
                + " it and write in the work of runInTransaction");
    }

    /** Loaded only where Spring's JDBC support is. */
    private static final class Spring {

        private static final Set<DataSource> ROUTING_TOLD =
                Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

        static void refuse(DataSource dataSource) throws SQLException {
            if (leadsTo(dataSource, SingleConnectionDataSource.class)) {
                throw new SQLException("The DataSource " + dataSource.getClass().getName()
                        + " lends all who ask one and the same connection, so that they would share the lock's session. "
                        + ADVICE);
            }
            if (leadsTo(dataSource, TransactionAwareDataSourceProxy.class)
                    && TransactionSynchronizationManager.isSynchronizationActive()) {
                throw ofTransaction(dataSource);
            }
            if (leadsTo(dataSource, AbstractRoutingDataSource.class) && ROUTING_TOLD.add(dataSource)) {
                LOG.warn(
                        "The DataSource {} chooses a database for each connection, and a lock in one says nothing in another:"
                                + " give the DataSource of one database, unless all that it leads to are the same database",
                        dataSource.getClass().getName());
            }
        }

        static void refuse(DataSource dataSource, PgConnection physical) throws SQLException {
            if (!TransactionSynchronizationManager.isSynchronizationActive()) {
                return;
            }
            for (Object resource :
                    TransactionSynchronizationManager.getResourceMap().values()) {
                // Other kinds of handles might open a connection only now.
                if (resource instanceof ConnectionHolder holder
                        && holder.getConnectionHandle() instanceof SimpleConnectionHandle bound
                        && bound.getConnection().isWrapperFor(PgConnection.class)
                        && bound.getConnection().unwrap(PgConnection.class) == physical) {
                    throw ofTransaction(dataSource);
                }
            }
        }

        private static boolean leadsTo(DataSource dataSource, Class<?> type) {
            try {
                return type.isInstance(dataSource) || dataSource.isWrapperFor(type);
            } catch (SQLException | RuntimeException e) {
                LOG.debug("The DataSource doesn't tell whether it is a {}", type.getName(), e);
                return false;
            }
        }
    }
}
