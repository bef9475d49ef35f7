package dev.pgleader.lock;

import dev.pgleader.lock.LockSession.Notification;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.List;
import org.postgresql.PGNotification;
import org.postgresql.jdbc.PgConnection;
import org.postgresql.util.HostSpec;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A connection that one thread uses, waits on and at last ends for good. {@link #wake()} and {@link #abort()} may be
 * called from any thread.
 */
abstract class SessionConnection {

    private static final Logger LOG = LoggerFactory.getLogger(SessionConnection.class);

    private static final int GOODBYE_MILLIS = 100;

    private final LentConnection lent;

    SessionConnection(LentConnection lent) {
        this.lent = lent;
    }

    final LentConnection lent() {
        return lent;
    }

    /** The connection, for the next statement. */
    Connection connection() {
        return lent.handle();
    }

    final PgConnection physical() {
        return lent.physical();
    }

    /** The host and port that the driver reached, of those that it had to choose from. */
    final String address() {
        HostSpec server = physical().getQueryExecutor().getHostSpec();
        String host = server.getHost();
        return (host.contains(":") && !host.startsWith("[") ? "[" + host + "]" : host) + ":" + server.getPort();
    }

    /**
     * Waits for a notification, for the end of the time, for a {@link #wake()} or for the loss of the connection. May
     * return early with nothing.
     *
     * @throws SQLException if the connection is lost
     */
    abstract List<Notification> await(long maxNanos) throws SQLException;

    /** Ends the current or the next {@link #await}. */
    abstract void wake();

    /** Says goodbye to the server, waiting for no answer, and ends the connection. */
    final void close() {
        try {
            // Under TLS the driver would wait for the server's goodbye, for a second.
            physical().setNetworkTimeout(Runnable::run, GOODBYE_MILLIS);
            physical().close();
        } catch (SQLException e) {
            LOG.debug("Closing a connection failed; it is given up anyway", e);
        }
        abort();
    }

    /** Ends the connection at once, with nothing said to the server, whatever it's doing. Once is enough. */
    abstract void abort();

    static List<Notification> ofOurChannel(PGNotification[] notifications) {
        // A connection of a pool may have been told to listen to other channels before.
        return Arrays.stream(notifications)
                .filter(notification -> notification.getName().equals(SessionSql.CHANNEL))
                .map(notification -> new Notification(notification.getPID(), notification.getParameter()))
                .toList();
    }
}
