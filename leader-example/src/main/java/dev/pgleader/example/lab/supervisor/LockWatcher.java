package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.node.LabDatabase;
import dev.pgleader.example.lab.supervisor.LabEvent.EntriesCounted;
import dev.pgleader.example.lab.supervisor.LabEvent.HolderChanged;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Looks again and again at what the server itself knows: who holds the lock, and what the database job has written. Its
 * session doesn't go through any proxy.
 */
final class LockWatcher implements AutoCloseable {

    private static final Duration BETWEEN_LOOKS = Duration.ofMillis(20);
    private static final int LOOKS_PER_COUNT = 25;

    private static final String HOLDER =
            "SELECT s.application_name, s.pid FROM pg_locks l JOIN pg_stat_activity s USING (pid)"
                    + " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
                    + " AND (l.classid::bigint << 32 | l.objid::bigint) = " + LabDatabase.LEADER_KEY;

    /** Two entries overlap if one began before the one before it had ended. */
    private static final String COUNT = "SELECT count(*), count(*) FILTER (WHERE began < previous_end)"
            + " FROM (SELECT began, lag(ended) OVER (ORDER BY began) AS previous_end FROM " + LabDatabase.ENTRIES
            + ") entries";

    private final DatabaseServer server;
    private final Consumer<HolderChanged> onHolder;
    private final Consumer<EntriesCounted> onCount;
    private final ScheduledExecutorService thread = Executors.newSingleThreadScheduledExecutor(work -> {
        Thread created = new Thread(work, "lock-watcher");
        created.setDaemon(true);
        return created;
    });

    // For its own thread only.
    private @Nullable Connection connection;
    private int looks;

    LockWatcher(DatabaseServer server, Consumer<HolderChanged> onHolder, Consumer<EntriesCounted> onCount) {
        this.server = server;
        this.onHolder = onHolder;
        this.onCount = onCount;
    }

    void start() {
        var unused = thread.scheduleWithFixedDelay(this::look, 0, BETWEEN_LOOKS.toMillis(), TimeUnit.MILLISECONDS);
    }

    private void look() {
        try {
            Connection open = connection;
            if (open == null) {
                open = server.connect();
                connection = open;
            }
            onHolder.accept(holder(open));
            if (looks++ % LOOKS_PER_COUNT == 0) {
                onCount.accept(count(open));
            }
        } catch (SQLException e) {
            onHolder.accept(new HolderChanged(false, Optional.empty(), 0));
            disconnect();
        }
    }

    private static HolderChanged holder(Connection open) throws SQLException {
        try (PreparedStatement query = open.prepareStatement(HOLDER);
                ResultSet rows = query.executeQuery()) {
            if (!rows.next()) {
                return new HolderChanged(true, Optional.empty(), 0);
            }
            String session = rows.getString(1);
            String node = session.startsWith(LabDatabase.ELECTOR_SESSION)
                    ? session.substring(LabDatabase.ELECTOR_SESSION.length())
                    : session;
            return new HolderChanged(true, Optional.of(node), rows.getInt(2));
        }
    }

    private static EntriesCounted count(Connection open) throws SQLException {
        try (PreparedStatement query = open.prepareStatement(COUNT);
                ResultSet rows = query.executeQuery()) {
            rows.next();
            return new EntriesCounted(rows.getLong(1), rows.getLong(2));
        }
    }

    private void disconnect() {
        Connection broken = connection;
        connection = null;
        if (broken != null) {
            try {
                broken.close();
            } catch (SQLException e) {
                // It was broken before.
            }
        }
    }

    @Override
    public void close() {
        thread.execute(this::disconnect);
        thread.shutdown();
    }
}
