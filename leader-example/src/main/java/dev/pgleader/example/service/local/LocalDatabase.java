package dev.pgleader.example.service.local;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.nio.file.StandardOpenOption.CREATE;
import static java.nio.file.StandardOpenOption.WRITE;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * The PostgreSQL of all instances that were given none. The first of them starts it, as a process of its own that outlives each
 * of them; {@link DatabaseProcess} is what runs there.
 *
 * @param port where it listens on the loopback interface
 * @param pid the process that ends it when it is told to end
 * @param isNew whether nobody can have used it before
 * @param use an open connection, by which the database knows that it's used; it ends with this process
 */
record LocalDatabase(int port, long pid, boolean isNew, Connection use) {

    static final String USER = "postgres";

    /** After this time without an instance it ends by itself. */
    static final Duration PATIENCE = Duration.ofMinutes(1);

    /**
     * Starts a command in a session of its own, which no Ctrl-C of a terminal reaches. When that has ended, however it did, PostgreSQL
     * ends, too, and its data is removed.
     */
    private static final String DETACHED = """
            case $1 in
                apart) ;;
                *) if command -v setsid >/dev/null; then exec setsid sh -c "$0" "$0" apart "$@"; fi
                   exec perl -e 'use POSIX; POSIX::setsid(); exec @ARGV' sh -c "$0" "$0" apart "$@" ;;
            esac
            data=$2
            shift 2
            "$@"
            if read -r server < "$data/postmaster.pid"; then kill -s QUIT "$server"; fi
            rm -rf "$data"
            """;

    /**
     * Joins the database, which is started if it doesn't run.
     *
     * @param home the directory of the database: all instances that are told the same one share it
     * @throws IOException if it can't be started, with what it said
     */
    static LocalDatabase join(Path home, Duration patience) throws IOException, SQLException {
        Files.createDirectories(home);
        try (FileChannel file = lockFile(home)) {
            var unused = file.lock();
            Path address = address(home);
            if (Files.exists(address)) {
                try {
                    return connect(Files.readString(address), false);
                } catch (SQLException e) {
                    // It was killed, and left its address behind.
                }
            }
            String line = launch(home, patience);
            Files.writeString(address, line);
            return connect(line, true);
        }
    }

    /** Where the running database leaves its port and its process. */
    static Path address(Path home) {
        return home.resolve("address");
    }

    static Path data(Path home) {
        return home.resolve("data");
    }

    static String url(int port) {
        return "jdbc:postgresql://localhost:" + port + "/postgres";
    }

    private static LocalDatabase connect(String address, boolean isNew) throws SQLException {
        String[] words = address.strip().split(" ", -1);
        int port = Integer.parseInt(words[0]);
        return new LocalDatabase(
                port, Long.parseLong(words[1]), isNew, DriverManager.getConnection(url(port), USER, ""));
    }

    /** Returns what the new process says when PostgreSQL serves. */
    private static String launch(Path home, Duration patience) throws IOException {
        Path log = home.resolve("log");
        List<String> command = new ArrayList<>(
                List.of("sh", "-c", DETACHED, DETACHED, data(home).toString()));
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), DatabaseProcess.class.getName()));
        command.addAll(List.of(home.toString(), patience.toString()));
        Process process = new ProcessBuilder(command)
                .redirectInput(Redirect.from(Path.of("/dev/null").toFile()))
                .redirectError(log.toFile())
                .start();
        try (BufferedReader output = process.inputReader(UTF_8)) {
            String line = output.readLine();
            if (line == null) {
                throw new IOException("PostgreSQL doesn't start: " + Files.readString(log));
            }
            return line;
        }
    }

    /** Locked by who looks for the database, and by a database that is about to end. */
    static FileChannel lockFile(Path home) throws IOException {
        return FileChannel.open(home.resolve("lock"), CREATE, WRITE);
    }
}
