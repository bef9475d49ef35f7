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
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.awaitility.core.ConditionTimeoutException;

/**
 * A program that stands between clients and a {@link PostgresServer}, on a free loopback port, in a process and a directory
 * of its own.
 *
 * <p>Safe for use by several threads until it is closed.
 */
public abstract sealed class Pooler implements AutoCloseable permits PgBouncer, Pgpool {

    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private final String name;
    private final Signal end;
    private final Path directory;
    private final int port;
    private final OrphanGuard guard;
    private final Process process;

    /** The files of a program, before it is started: returns what to start it with. */
    interface Preparation {
        List<String> arguments(Path directory, int port) throws IOException;
    }

    /** @param end what ends it whether clients are there or not */
    Pooler(String name, Signal end, Preparation preparation) throws IOException {
        Path program = program(name).orElseThrow(() -> new IllegalStateException(name + " isn't installed"));
        this.name = name;
        this.end = end;
        directory = Directories.createTemporary("pgleader-" + name + "-");
        port = LoopbackPorts.free();
        List<String> command = new ArrayList<>(List.of(program.toString()));
        command.addAll(preparation.arguments(directory, port));
        guard = new OrphanGuard(end.name(), directory);
        process = new ProcessBuilder(UnprivilegedUser.command(command))
                .redirectErrorStream(true)
                .redirectOutput(Redirect.to(log().toFile()))
                .start();
        guard.watch(process);
    }

    /** Where a program is: in the search path, or where Debian puts it. */
    static Optional<Path> program(String name) {
        Stream<String> searchPath =
                Stream.of(Optional.ofNullable(System.getenv("PATH")).orElse("").split(":", -1));
        return Stream.concat(searchPath, Stream.of("/usr/sbin"))
                .map(directory -> Path.of(directory).resolve(name))
                .filter(Files::isExecutable)
                .findFirst();
    }

    /** Writes a file that the program may read. */
    static Path write(Path file, String content) throws IOException {
        Files.writeString(file, content);
        UnprivilegedUser.own(file);
        return file;
    }

    static String lines(Map<String, String> entries, Function<Map.Entry<String, String>, String> line) {
        return entries.entrySet().stream().map(line).collect(Collectors.joining("\n", "", "\n"));
    }

    public int port() {
        return port;
    }

    /** Returns the JDBC URL of a database through this pooler, without credentials. */
    public String url(String database, Map<String, String> parameters) {
        return PostgresServer.url(port, database, parameters);
    }

    /** Returns the JDBC URL of a database through this pooler, without credentials. */
    public String url(String database) {
        return url(database, Map.of());
    }

    /** What it printed so far. */
    public String printed() {
        try {
            return Files.readString(log());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Ends the pooler and all connections through it. */
    @Override
    public void close() {
        try {
            if (process.isAlive()) {
                end.send(process.pid());
            }
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
        return name + " on port " + port;
    }

    private Path log() {
        return directory.resolve(name + ".log");
    }

    /** Returns it when it accepts connections; closes it if it doesn't. */
    static <T extends Pooler> T started(T pooler) {
        try {
            pooler.awaitStart();
            return pooler;
        } catch (RuntimeException e) {
            pooler.close();
            throw e;
        }
    }

    void awaitStart() {
        try {
            await().atMost(PATIENCE)
                    .pollDelay(Duration.ZERO)
                    .pollInterval(Duration.ofMillis(10))
                    .until(() -> !process.isAlive() || isListening());
        } catch (ConditionTimeoutException e) {
            throw new IllegalStateException(name + " doesn't listen: " + printed(), e);
        }
        if (!process.isAlive()) {
            throw new IllegalStateException(name + " didn't start: " + printed());
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
}
