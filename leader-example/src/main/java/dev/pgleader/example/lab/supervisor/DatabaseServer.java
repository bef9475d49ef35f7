package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.node.LabDatabase;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The PostgreSQL of the lab. It keeps its port and its data over a restart. Thread-safe. */
final class DatabaseServer implements AutoCloseable {

    private final Path data;
    private @Nullable EmbeddedPostgres running;
    private volatile int port;
    private boolean closed;

    /** @param data an empty directory, removed when the server is closed */
    DatabaseServer(Path data) {
        this.data = data;
    }

    Path data() {
        return data;
    }

    int port() {
        return port;
    }

    /** Starts it, with an empty table for the database job. */
    synchronized void start() throws IOException, SQLException {
        startOn(0);
        execute("CREATE TABLE " + LabDatabase.ENTRIES + " (id bigserial, node text NOT NULL,"
                + " began timestamptz NOT NULL, ended timestamptz)");
    }

    /** Ends all sessions, and starts it again. */
    synchronized void restart() throws IOException {
        stop();
        startOn(port);
    }

    private void startOn(int wantedPort) throws IOException {
        if (closed) {
            throw new LabRefusal("The lab is closed");
        }
        EmbeddedPostgres.Builder builder = EmbeddedPostgres.builder()
                .setDataDirectory(data)
                .setCleanDataDirectory(false)
                .setRegisterShutdownHook(false)
                .setErrorRedirector(ProcessBuilder.Redirect.DISCARD)
                .setOutputRedirector(ProcessBuilder.Redirect.DISCARD)
                .setServerConfig("listen_addresses", "127.0.0.1")
                .setServerConfig("max_connections", "60");
        if (wantedPort != 0) {
            builder.setPort(wantedPort);
        }
        running = builder.start();
        port = running.getPort();
    }

    private void stop() throws IOException {
        EmbeddedPostgres ending = running;
        running = null;
        if (ending != null) {
            ending.close();
        }
    }

    Connection connect() throws SQLException {
        return DriverManager.getConnection(LabDatabase.url(port), LabDatabase.NAME, "");
    }

    /** Ends all sessions of the node's elector, and returns how many there were. */
    int terminateSessions(String node) throws SQLException {
        try (Connection connection = connect();
                PreparedStatement terminate = connection.prepareStatement(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ?")) {
            terminate.setString(1, LabDatabase.ELECTOR_SESSION + node);
            int count = 0;
            try (ResultSet rows = terminate.executeQuery()) {
                while (rows.next()) {
                    count++;
                }
            }
            return count;
        }
    }

    /** Forgets what the database job has written. */
    void clearEntries() throws SQLException {
        execute("TRUNCATE " + LabDatabase.ENTRIES);
    }

    private void execute(String sql) throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    /** Stops it for good and removes its data. */
    @Override
    public synchronized void close() {
        if (closed) {
            return;
        }
        closed = true;
        try {
            stop();
            delete(data);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void delete(Path directory) throws IOException {
        List<Path> children;
        try (Stream<Path> tree = Files.walk(directory)) {
            children = tree.sorted(Comparator.reverseOrder()).toList();
        }
        children.stream().map(Path::toFile).forEach(File::delete);
    }
}
