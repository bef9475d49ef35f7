package dev.pgleader.lock;

import dev.pgleader.lock.LockSession.Notification;
import dev.pgleader.lock.socket.ChannelSocket;
import java.io.IOException;
import java.sql.SQLException;
import java.util.List;
import org.postgresql.PGNotification;
import org.postgresql.util.PSQLState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A connection on a socket of ours: it waits in a selector, so that whatever happens is noticed at once. */
final class SelectedConnection extends SessionConnection {

    private static final Logger LOG = LoggerFactory.getLogger(SelectedConnection.class);

    /** The shortest wait for a message that the driver knows; the first byte is there already. */
    private static final int READ_WHAT_CAME_MILLIS = 1;

    /** What is taken at a time of what came unasked: whoever waits has other things to do as well. */
    private static final int BITE_BYTES = 256 * 1024;

    private final ChannelSocket socket;

    SelectedConnection(LentConnection own, ChannelSocket socket) {
        super(own);
        this.socket = socket;
    }

    @Override
    List<Notification> await(long maxNanos) throws SQLException {
        socket.offer(BITE_BYTES);
        // First what the driver, or TLS below it, has read already: the selector can't see that.
        PGNotification[] received = physical().getNotifications();
        if (received.length > 0) {
            return ofOurChannel(received);
        }
        try {
            if (!socket.awaitReadable(maxNanos)) {
                return List.of();
            }
        } catch (IOException e) {
            throw new SQLException(
                    "The connection was closed while it waited", PSQLState.CONNECTION_FAILURE.getState(), e);
        }
        return ofOurChannel(physical().getNotifications(READ_WHAT_CAME_MILLIS));
    }

    @Override
    void wake() {
        socket.wake();
    }

    @Override
    void abort() {
        try {
            // The socket first: ending a TLS connection in order may wait for its peer.
            socket.close();
        } catch (IOException e) {
            LOG.debug("Closing a socket failed; the connection is given up anyway", e);
        }
        lent().discard();
    }
}
