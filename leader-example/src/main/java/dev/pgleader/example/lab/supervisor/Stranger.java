package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.node.LabDatabase;
import dev.pgleader.lock.LockKey;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A role that may connect, and nothing else: that of any other application on the server. */
final class Stranger implements AutoCloseable {

    static final String ROLE = "stranger";

    /** What electors tell each other, and what means nothing. */
    private static final List<String> LIES = List.of("resign ", "released ", "freed ", "elected ", "");

    private static final int ROUNDS = 40;

    private final DatabaseServer server;
    private @Nullable Connection connection;

    Stranger(DatabaseServer server) {
        this.server = server;
    }

    /**
     * Sends forged notices on the electors' channel, and stays connected: who asks for a resignation is looked up.
     *
     * @return how many
     */
    synchronized int forgeNotices() throws SQLException {
        close();
        try (Connection superuser = server.connect();
                Statement statement = superuser.createStatement()) {
            statement.execute(
                    "DO $$ BEGIN CREATE ROLE " + ROLE + " LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
        }
        Connection own = DriverManager.getConnection(LabDatabase.url(server.port()), ROLE, "");
        connection = own;
        try (PreparedStatement notify = own.prepareStatement("SELECT pg_notify('pgleader', ?)")) {
            for (int round = 0; round < ROUNDS; round++) {
                for (String lie : LIES) {
                    notify.setString(1, lie + LockKey.of(LabDatabase.LEADER_KEY));
                    notify.execute();
                }
            }
        }
        return ROUNDS * LIES.size();
    }

    @Override
    public synchronized void close() {
        Connection open = connection;
        connection = null;
        if (open != null) {
            try {
                open.close();
            } catch (SQLException e) {
                // The server has ended it.
            }
        }
    }
}
