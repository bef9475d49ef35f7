package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/** A role that may only connect, and does the worst that it can; all in the background, since the server may hang. */
final class Stranger implements AutoCloseable {

    private static final String ROLE = "stranger";
    private static final int NOTICES = 50;

    private final PostgresServer server;
    private final long bits;
    private final List<String> words;
    private final ExecutorService thread = Executors.newSingleThreadExecutor();
    private final AtomicInteger forged = new AtomicInteger();
    private @Nullable Connection holding; // of the thread

    Stranger(PostgresServer server, long bits) throws SQLException {
        this.server = server;
        this.bits = bits;
        LockKey key = LockKey.of(bits);
        words = List.of(
                "released " + key, "resign " + key, "elected " + key + " stranger", "resign " + key + " ", "released");
        server.createRole(ROLE, "");
    }

    private Connection connect() throws SQLException {
        Connection connection = server.connect(PostgresServer.DEFAULT_DATABASE, ROLE, "");
        Sql.execute(connection, "SET statement_timeout = '500ms'");
        return connection;
    }

    private interface Deed {
        void run() throws SQLException;
    }

    private void attempt(Deed deed) {
        thread.execute(() -> {
            try {
                deed.run();
            } catch (SQLException e) {
                // The server is down, its queue is full or held up: that is so for a stranger, too.
            }
        });
    }

    /** Says that the lock is free, that its leader is to go, and what was never a notice. */
    void forge() {
        attempt(() -> {
            try (Connection connection = connect()) {
                for (int i = 0; i < NOTICES; i++) {
                    Sql.execute(connection, "NOTIFY pgleader, '" + words.get(i % words.size()) + "'");
                    forged.incrementAndGet();
                }
            }
        });
    }

    /** Tries to take the lock, and keeps it. */
    void grab() {
        attempt(() -> {
            if (holding == null) {
                holding = connect();
            }
            Sql.tryLock(holding, bits);
        });
    }

    /** Gives the lock back. */
    void letGo() {
        attempt(() -> {
            if (holding != null) {
                Connection connection = holding;
                holding = null;
                connection.close();
            }
        });
    }

    int forged() {
        return forged.get();
    }

    @Override
    public void close() {
        letGo();
        thread.shutdown();
    }
}
