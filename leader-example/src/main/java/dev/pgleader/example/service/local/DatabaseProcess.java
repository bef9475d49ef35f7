package dev.pgleader.example.service.local;

import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** What runs in the process of the database: it ends when it's told to, or when nobody has used it for a while. */
final class DatabaseProcess {

    private static final Duration BETWEEN_LOOKS = Duration.ofMillis(500);

    private static final String USERS =
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

    private final Path home;
    private final int port;

    private DatabaseProcess(Path home, int port) {
        this.home = home;
        this.port = port;
    }

    /**
     * Runs the database until its end.
     *
     * @param args the directory of the database, and how long it stays without a user, as ISO 8601 has it
     * @throws IOException if it can't be started
     * @throws SQLException if it was ended by somebody else
     * @throws InterruptedException never, since nobody interrupts its main thread
     */
    public static void main(String[] args) throws IOException, SQLException, InterruptedException {
        Path home = Path.of(args[0]);
        EmbeddedPostgres postgres = EmbeddedPostgres.builder()
                .setDataDirectory(LocalDatabase.data(home))
                .setRegisterShutdownHook(false)
                .setErrorRedirector(ProcessBuilder.Redirect.DISCARD)
                .setOutputRedirector(ProcessBuilder.Redirect.DISCARD)
                .start();
        DatabaseProcess process = new DatabaseProcess(home, postgres.getPort());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> end(home, postgres)));
        System.out.println(postgres.getPort() + " " + ProcessHandle.current().pid());
        process.awaitDisuse(Duration.parse(args[1]));
    }

    private static void end(Path home, EmbeddedPostgres postgres) {
        try {
            Files.deleteIfExists(LocalDatabase.address(home));
            postgres.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void awaitDisuse(Duration patience) throws IOException, SQLException, InterruptedException {
        try (Connection connection = DriverManager.getConnection(LocalDatabase.url(port), LocalDatabase.USER, "")) {
            long lastUse = System.nanoTime();
            while (true) {
                TimeUnit.MILLISECONDS.sleep(BETWEEN_LOOKS.toMillis());
                if (isUsed(connection)) {
                    lastUse = System.nanoTime();
                } else if (System.nanoTime() - lastUse >= patience.toNanos() && isLeft(connection)) {
                    return;
                }
            }
        }
    }

    /** Whether nobody uses it, nor finds it from now on. */
    private boolean isLeft(Connection connection) throws IOException, SQLException {
        try (FileChannel file = LocalDatabase.lockFile(home)) {
            var unused = file.lock();
            return !isUsed(connection) && Files.deleteIfExists(LocalDatabase.address(home));
        }
    }

    private static boolean isUsed(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet users = statement.executeQuery(USERS)) {
            return users.next() && users.getInt(1) > 0;
        }
    }
}
