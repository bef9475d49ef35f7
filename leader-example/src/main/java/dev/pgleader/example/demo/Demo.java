package dev.pgleader.example.demo;

import dev.pgleader.lock.LockPlaceholder;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** Placeholder of the demo. */
public final class Demo {

    private Demo() {}

    /**
     * Starts a server and prints a backend's process id.
     *
     * @param args printed
     * @throws IOException if the server doesn't start
     * @throws SQLException if the server can't be reached
     */
    public static void main(String[] args) throws IOException, SQLException {
        System.out.println("arguments: " + Arrays.toString(args));
        try (EmbeddedPostgres postgres = EmbeddedPostgres.start();
                Connection connection = postgres.getPostgresDatabase().getConnection()) {
            System.out.println("backend " + LockPlaceholder.backendPid(connection));
        }
        System.exit(exitCode(args.length == 0 ? null : args[0]));
    }

    static int exitCode(@Nullable String argument) {
        return "--fail".equals(argument) ? 3 : 0;
    }
}
