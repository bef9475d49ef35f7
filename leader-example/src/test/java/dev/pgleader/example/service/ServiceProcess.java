package dev.pgleader.example.service;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

/** A main class of this module in a process of its own, and what it prints. */
public final class ServiceProcess implements AutoCloseable {

    /** Plenty, for a machine that does much else. */
    public static final Duration PATIENCE = Duration.ofMinutes(2);

    private final Process process;
    private final List<String> lines = new CopyOnWriteArrayList<>();

    public ServiceProcess(Path directory, Class<?> mainClass, List<String> arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                mainClass.getName()));
        command.addAll(arguments);
        process = new ProcessBuilder(command)
                .directory(directory.toFile())
                .redirectErrorStream(true)
                .start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        Thread reader = new Thread(this::read, "output of " + process.pid());
        reader.setDaemon(true);
        reader.start();
    }

    private void read() {
        try (BufferedReader output = process.inputReader(UTF_8)) {
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                lines.add(line);
            }
        } catch (IOException e) {
            lines.add(e.toString());
        }
    }

    /** For signals: those of {@code Process} close its output, too. */
    public ProcessHandle handle() {
        return process.toHandle();
    }

    public List<String> lines() {
        return lines;
    }

    /** Returns the first line with this part. */
    public String awaitLine(String part) {
        await("'" + part + "' in the output")
                .atMost(PATIENCE)
                .failFast(() -> !process.isAlive() && !isPrinted(part))
                .until(() -> isPrinted(part));
        return lines.stream().filter(line -> line.contains(part)).findFirst().orElseThrow();
    }

    private boolean isPrinted(String part) {
        return lines.stream().anyMatch(line -> line.contains(part));
    }

    /** Returns the exit code. */
    public int awaitEnd() throws InterruptedException {
        assertThat(process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS))
                .as("ends by itself")
                .isTrue();
        return process.exitValue();
    }

    @Override
    public void close() {
        process.destroyForcibly();
        process.onExit().orTimeout(PATIENCE.toSeconds(), TimeUnit.SECONDS).join();
    }
}
