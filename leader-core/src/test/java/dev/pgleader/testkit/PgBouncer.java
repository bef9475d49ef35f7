package dev.pgleader.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A PgBouncer of the test's own before a {@link PostgresServer}, on a free loopback port, for all databases. It trusts
 * clients and knows the superuser and the users that it was told. Needs an installed {@code pgbouncer}: see
 * {@link #available}.
 */
public final class PgBouncer extends Pooler {

    /** Why tests are skipped where it isn't {@link #available}. */
    public static final String MISSING = "no pgbouncer (apt-get install pgbouncer)";

    private static final String NAME = "pgbouncer";

    /** When a server connection goes back to the pool. */
    public enum PoolMode {
        /** When the client leaves. */
        SESSION,
        /** At the end of each transaction. */
        TRANSACTION,
        /** After each statement. */
        STATEMENT
    }

    private PgBouncer(PostgresServer server, Map<String, String> settings, Map<String, String> users)
            throws IOException {
        super(NAME, Signal.TERM, (directory, port) -> {
            Path userFile = write(
                    directory.resolve("users.txt"),
                    lines(users, user -> "\"" + user.getKey() + "\" \"" + user.getValue() + "\""));
            String databases = "[databases]\n* = host=" + LoopbackPorts.HOST + " port=" + server.port() + "\n";
            String ownSettings = "listen_port = " + port + "\nauth_file = " + userFile + "\n";
            String otherSettings = lines(settings, setting -> setting.getKey() + " = " + setting.getValue());
            Path configuration = write(
                    directory.resolve("pgbouncer.ini"), databases + "[pgbouncer]\n" + ownSettings + otherSettings);
            return List.of(configuration.toString());
        });
    }

    /** Tells whether PgBouncer is installed, in the search path or where Debian puts it. */
    public static boolean available() {
        return program(NAME).isPresent();
    }

    /** Tells whether it can keep the named statements of clients ({@code max_prepared_statements}), as from 1.21 on. */
    public static boolean keepsNamedStatements() {
        try {
            Process process = new ProcessBuilder(program(NAME).orElseThrow().toString(), "--version").start();
            String version = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            Matcher numbers = Pattern.compile("PgBouncer 1\\.(\\d+)").matcher(version);
            return numbers.find() && Integer.parseInt(numbers.group(1)) >= 21;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Begins to describe a PgBouncer before a server. */
    public static Builder before(PostgresServer server) {
        return new Builder(server);
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
                return started(new PgBouncer(server, settings, users));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
