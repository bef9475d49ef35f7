package dev.pgleader;

import dev.pgleader.testkit.JavaProcess;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;

/**
 * Does to a process what suspending its machine does: it stands still, and the time in between is missing from its monotonic
 * clock, but not from its wall clock. A file that both processes map says how much is missing; the process must take its time from
 * {@link #ticker()}.
 */
final class Suspension implements AutoCloseable {

    private static final String PROPERTY = "suspension.file";

    private final Path file;
    private final MappedByteBuffer missingNanos;
    private long suspendedAt;

    Suspension() {
        try {
            file = Files.createTempFile("pgleader-suspension-", "");
            Files.write(file, new byte[Long.BYTES]);
            missingNanos = map(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static MappedByteBuffer map(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            return channel.map(FileChannel.MapMode.READ_WRITE, 0, Long.BYTES);
        }
    }

    /** Has a process that isn't started yet follow this suspension. */
    JavaProcess.Builder of(JavaProcess.Builder process) {
        return process.systemProperty(PROPERTY, file.toString());
    }

    void suspend(JavaProcess process) {
        process.pause();
        suspendedAt = System.nanoTime();
    }

    /** For how long the process has been standing still. */
    Duration lasted() {
        return Duration.ofNanos(System.nanoTime() - suspendedAt);
    }

    void resume(JavaProcess process) {
        missingNanos.putLong(0, missingNanos.getLong(0) + System.nanoTime() - suspendedAt);
        process.resume();
    }

    /** The clocks of this process, which somebody may suspend. */
    static Ticker ticker() {
        String path = System.getProperty(PROPERTY);
        if (path == null) {
            return Ticker.SYSTEM;
        }
        try {
            ByteBuffer missing = map(Path.of(path));
            return new Ticker() {
                @Override
                public long nanos() {
                    return System.nanoTime() - missing.getLong(0);
                }

                @Override
                public long wallMillis() {
                    return System.currentTimeMillis();
                }
            };
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        try {
            Files.delete(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
