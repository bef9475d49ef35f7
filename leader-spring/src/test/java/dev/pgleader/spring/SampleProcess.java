package dev.pgleader.spring;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.spring.sample.SampleApplication;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.awaitility.Awaitility;

/** The sample application in a JVM of its own, which ends with this object. */
final class SampleProcess implements AutoCloseable {

    record Line(long arrivalNanos, String text) {}

    private static final Duration PATIENCE = Duration.ofMinutes(3);
    static final String CLASS_PATH =
            System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
    private static final Pattern OPTIONAL = Pattern.compile(
            "spring-boot-[a-z-]*(actuator|health|micrometer)|micrometer-(core|registry|jakarta9)|jackson");
    private static final Pattern PORT = Pattern.compile("started on port (\\d+)");

    private final HttpClient client = HttpClient.newHttpClient();
    private final List<Line> lines = new CopyOnWriteArrayList<>();
    private final Process process;

    SampleProcess(List<String> arguments) {
        this(arguments, CLASS_PATH);
    }

    /** With nothing but the data source: neither actuator nor Micrometer nor Jackson. */
    static SampleProcess withoutOptionalLibraries(List<String> arguments) {
        String classPath = Arrays.stream(CLASS_PATH.split(File.pathSeparator))
                .filter(entry -> !OPTIONAL.matcher(entry).find())
                .collect(Collectors.joining(File.pathSeparator));
        assertThat(classPath).isNotEqualTo(CLASS_PATH);
        return new SampleProcess(arguments, classPath);
    }

    /** Started from what Spring's ahead-of-time processing made of it. */
    static SampleProcess builtAheadOfTime(Path classes, List<String> arguments) {
        return new SampleProcess(arguments, classes + File.pathSeparator + CLASS_PATH, "-Dspring.aot.enabled=true");
    }

    private SampleProcess(List<String> arguments, String classPath, String... options) {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC"));
        command.addAll(List.of(options));
        command.addAll(List.of(
                "-cp",
                classPath,
                SampleApplication.class.getName(),
                "--logging.level.org.springframework.boot=INFO",
                "--server.port=0"));
        command.addAll(arguments);
        try {
            process = new ProcessBuilder(command).redirectErrorStream(true).start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        Thread reader = new Thread(this::read, "output of " + process.pid());
        reader.setDaemon(true);
        reader.start();
    }

    private void read() {
        try (BufferedReader output = process.inputReader(UTF_8)) {
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                lines.add(new Line(System.nanoTime(), line));
            }
        } catch (IOException e) {
            lines.add(new Line(System.nanoTime(), e.toString()));
        }
    }

    List<Line> lines() {
        return lines;
    }

    /** Waits for the first line that begins so. */
    Line await(String beginning) {
        return Awaitility.await(beginning + " in " + this)
                .atMost(PATIENCE)
                .until(
                        () -> lines.stream()
                                .filter(line -> line.text().startsWith(beginning))
                                .findFirst(),
                        Optional::isPresent)
                .orElseThrow();
    }

    int port() {
        return Awaitility.await("port in " + this)
                .atMost(PATIENCE)
                .failFast("The process has ended", () -> !process.isAlive())
                .until(
                        () -> lines.stream()
                                .map(line -> PORT.matcher(line.text()))
                                .filter(Matcher::find)
                                .map(found -> Integer.valueOf(found.group(1)))
                                .findFirst(),
                        Optional::isPresent)
                .orElseThrow();
    }

    HttpResponse<String> get(String path) {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create("http://localhost:" + port() + path))
                    .build();
            return client.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    HttpResponse<String> post(String path, String json) {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create("http://localhost:" + port() + path))
                    .header("Content-Type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofString(json))
                    .build();
            return client.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Asks for a page and doesn't wait for it. */
    void request(String path) {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://localhost:" + port() + path))
                .build();
        var unused = client.sendAsync(request, HttpResponse.BodyHandlers.discarding());
    }

    /** Sends SIGTERM, and doesn't wait. */
    void terminate() {
        // Process.destroy() would close its output too.
        process.toHandle().destroy();
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /** Waits until the process has ended by itself. */
    int exitCode() {
        Awaitility.await("end of " + this).atMost(PATIENCE).until(() -> !process.isAlive());
        return process.exitValue();
    }

    @Override
    public void close() {
        process.destroyForcibly();
        try {
            process.waitFor(10, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public String toString() {
        return "process " + process.pid() + ":\n"
                + String.join("\n", lines.stream().map(Line::text).toList());
    }
}
