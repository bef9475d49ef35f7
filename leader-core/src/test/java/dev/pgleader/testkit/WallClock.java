package dev.pgleader.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * A wall clock that can be set, for processes that are started with its {@link #environment}: these read it through libfaketime.
 * Their monotonic clock stays as it is.
 *
 * <p>Keep it ahead of the right time: in the handler of a signal that comes while the process waits, libfaketime gives the right
 * time, so that timeouts of PostgreSQL come too early by a clock that is behind, and not at all by one that is ahead.
 */
public final class WallClock implements AutoCloseable {

    /** Why tests are skipped where it isn't {@link #available}. */
    public static final String MISSING = "no libfaketime (apt-get install libfaketime)";

    private final Path directory;
    private final Path offset;

    /** A clock that is right. */
    public WallClock() {
        try {
            directory = Directories.createTemporary("pgleader-clock-");
            offset = directory.resolve("offset");
            set(Duration.ZERO);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Tells whether libfaketime is installed where Debian puts it. */
    public static boolean available() {
        return library().isPresent();
    }

    private static Optional<Path> library() {
        try (Stream<Path> architectures = Files.list(Path.of("/usr/lib"))) {
            return architectures
                    .map(architecture -> architecture.resolve("faketime/libfaketime.so.1"))
                    .filter(Files::exists)
                    .findFirst();
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    Map<String, String> environment() {
        return Map.of(
                "LD_PRELOAD",
                library().orElseThrow().toString(),
                "FAKETIME_TIMESTAMP_FILE",
                offset.toString(),
                "FAKETIME_NO_CACHE",
                "1",
                "FAKETIME_DONT_FAKE_MONOTONIC",
                "1");
    }

    /** From now on it is so far ahead of the right time, or behind if it's negative. */
    public void set(Duration ahead) {
        try {
            Path next = Files.writeString(
                    directory.resolve("next"), (ahead.isNegative() ? "" : "+") + ahead.toSeconds() + "s\n");
            UnprivilegedUser.own(next);
            Files.move(next, offset, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        try {
            Directories.delete(directory);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
