package dev.pgleader.example.lab.supervisor;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.stream.Stream;

/** How much memory this machine can still give. */
final class AvailableMemory {

    private static final Path MEMORY_INFORMATION = Path.of("/proc/meminfo");

    private AvailableMemory() {}

    /** Mebibytes; empty where the system doesn't say. */
    static OptionalLong mebibytes() {
        try (Stream<String> lines = Files.lines(MEMORY_INFORMATION)) {
            return lines.filter(line -> line.startsWith("MemAvailable:"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")) / 1024)
                    .findFirst();
        } catch (IOException e) {
            return OptionalLong.empty();
        }
    }
}
