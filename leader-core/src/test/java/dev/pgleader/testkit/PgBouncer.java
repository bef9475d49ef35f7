package dev.pgleader.testkit;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.awaitility.core.ConditionTimeoutException;

/**
 * A PgBouncer of the test's own before a {@link PostgresServer}, on a free loopback port, for all databases. It trusts
 * clients and knows the superuser and the users that it was told. Needs an installed {@code pgbouncer}: see
 * {@link #available}.
 *
 * <p>Immutable and safe for use by several threads until it is closed.
 */
public final class PgBouncer implements AutoCloseable {

    /** Why tests are skipped where it isn't {@link #available}. */
    public static final String MISSING = "no pgbouncer (apt-get install pgbouncer)";

    /** When a server connection goes back to the pool. */
    public enum PoolMode {
        /** When the client leaves. */
        SESSION,
        /** At the end of each transaction. */
        TRANSACTION,
        /** After each statement. */
        STATEMENT
    }

    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private final Path directory;
    private final int port;
    private final OrphanGuard guard;
    private final Process process;

    private PgBouncer(PostgresServer server, Map<String, String> settings, Map<String, String> users)
            throws IOException {
        Path program = program().orElseThrow(() -> new IllegalStateException("pgbouncer isn't installed"));
        directory = Directories.createTemporary("pgleader-pgbouncer-");
        port = LoopbackPorts.free();
        Path userFile =
                write("users.txt", lines(users, user -> "\"" + user.getKey() + "\" \"" + user.getValue() + "\""));
        String databases = "[databases]\n* = host=" + LoopbackPorts.HOST + " port=" + server.port() + "\n";
        String ownSettings = "listen_port = " + port + "\nauth_file = " + userFile + "\n";
        String otherSettings = lines(settings, setting -> setting.getKey() + " = " + setting.getValue());
        Path configurationFile = write("pgbouncer.ini", databases + "[pgbouncer]\n" + ownSettings + otherSettings);
        guard = new OrphanGuard("TERM", directory);
        process = new ProcessBuilder(
                        UnprivilegedUser.command(List.of(program.toString(), configurationFile.toString())))
                .redirectErrorStream(true)
                .redirectOutput(Redirect.to(log().toFile()))
                .start();
        guard.watch(process);
    }

    /** Tells whether PgBouncer is installed, in the search path or where Debian puts it. */
    public static boolean available() {
        return program().isPresent();
    }

    /** Begins to describe a PgBouncer before a server. */
    public static Builder before(PostgresServer server) {
        return new Builder(server);
    }

    public int port() {
        return port;
    }

    /** Returns the JDBC URL of a database through this PgBouncer, without credentials. */
    public String url(String database, Map<String, String> parameters) {
        return PostgresServer.url(port, database, parameters);
    }

    /** Returns the JDBC URL of a database through this PgBouncer, without credentials. */
    public String url(String database) {
        return url(database, Map.of());
    }

    /** Ends PgBouncer and all connections through it. */
    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
                process.destroyForcibly();
            }
            guard.close();
            Directories.delete(directory);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public String toString() {
        return "PgBouncer on port " + port;
    }

    private static Optional<Path> program() {
        Stream<String> searchPath =
                Stream.of(Optional.ofNullable(System.getenv("PATH")).orElse("").split(":", -1));
        return Stream.concat(searchPath, Stream.of("/usr/sbin"))
                .map(directory -> Path.of(directory).resolve("pgbouncer"))
                .filter(Files::isExecutable)
                .findFirst();
    }

    private static String lines(Map<String, String> entries, Function<Map.Entry<String, String>, String> line) {
        return entries.entrySet().stream().map(line).collect(Collectors.joining("\n", "", "\n"));
    }

    private Path write(String name, String content) throws IOException {
        Path file = Files.writeString(directory.resolve(name), content);
        UnprivilegedUser.own(file);
        return file;
    }

    private Path log() {
        return directory.resolve("pgbouncer.log");
    }

    private void awaitStart() throws IOException {
        try {
            await().atMost(PATIENCE)
                    .pollDelay(Duration.ZERO)
                    .pollInterval(Duration.ofMillis(10))
                    .until(() -> !process.isAlive() || isListening());
        } catch (ConditionTimeoutException e) {
            throw new IllegalStateException("PgBouncer doesn't listen: " + Files.readString(log()), e);
        }
        if (!process.isAlive()) {
            throw new IllegalStateException("PgBouncer didn't start: " + Files.readString(log()));
        }
    }

    private boolean isListening() {
        InetSocketAddress address = LoopbackPorts.address(port);
        try (Socket socket = new Socket(address.getAddress(), port)) {
            return socket.isConnected();
        } catch (IOException e) {
            return false;
        }
    }

    /** What a new PgBouncer is to be like. */
    public static final class Builder {

        private final PostgresServer server;
        private final Map<String, String> settings = new LinkedHashMap<>();
        private final Map<String, String> users = new LinkedHashMap<>();

        private Builder(PostgresServer server) {
            this.server = server;
            users.put(server.superuser(), server.superuserPassword());
            settings.put("listen_addr", LoopbackPorts.HOST);
            settings.put("unix_socket_dir", "");
            settings.put("auth_type", "trust");
            // pgjdbc sends it with each start of a session, and PgBouncer would refuse it.
            settings.put("ignore_startup_parameters", "extra_float_digits");
        }

        public Builder poolMode(PoolMode mode) {
            return setting("pool_mode", mode.name().toLowerCase(Locale.ROOT));
        }

        /** Limits the server connections for each pair of user and database. */
        public Builder poolSize(int connections) {
            return setting("default_pool_size", Integer.toString(connections));
        }

        /** Takes server connections in turn, where by default the one used last is taken first. */
        public Builder serverRoundRobin(boolean inTurn) {
            return setting("server_round_robin", inTurn ? "1" : "0");
        }

        /** Adds a line to the {@code pgbouncer} section of its configuration. */
        public Builder setting(String name, String value) {
            settings.put(name, value);
            return this;
        }

        /** Lets a user of the server log in, too. */
        public Builder user(String name, String password) {
            users.put(name, password);
            return this;
        }

        /** Starts PgBouncer and returns when it accepts connections. */
        public PgBouncer launch() {
            try {
                PgBouncer started = new PgBouncer(server, settings, users);
                try {
                    started.awaitStart();
                    return started;
                } catch (IOException | RuntimeException e) {
                    started.close();
                    throw e;
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
