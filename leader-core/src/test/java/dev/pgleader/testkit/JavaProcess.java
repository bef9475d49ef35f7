package dev.pgleader.testkit;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Another JVM with the class path of this one, to be stopped, killed and paused. It ends with this JVM at the latest,
 * however that ends.
 *
 * <p>Safe for use by several threads.
 */
public final class JavaProcess implements AutoCloseable {

    /**
     * A line of the process's standard output.
     *
     * @param arrivalNanos {@link System#nanoTime} of this JVM when the line had arrived
     */
    public record Line(long arrivalNanos, String text) {}

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final String name;
    private final Process process;
    private final List<String> launcher;
    private final Writer input;
    private final OrphanGuard guard;
    private final Lines output;
    private final Lines errors;

    private JavaProcess(String name, Process process, List<String> launcher) {
        this.launcher = launcher;
        this.name = name + " (process " + process.pid() + ")";
        this.process = process;
        input = process.outputWriter(UTF_8);
        guard = new OrphanGuard("KILL", null);
        guard.watch(process);
        output = new Lines(this.name + " stdout", process.getInputStream());
        errors = new Lines(this.name + " stderr", process.getErrorStream());
    }

    /** Starts a JVM that runs a class's main method. */
    public static JavaProcess start(Class<?> main, String... arguments) {
        return builder(main).arguments(arguments).start();
    }

    public static Builder builder(Class<?> main) {
        return new Builder(main);
    }

    /**
     * For the started JVM's main method: has a daemon thread read the lines that the parent sends, and halts this JVM
     * when the parent is gone. An exception of {@code commands} halts it too.
     */
    public static void exitWithParent(Consumer<String> commands) {
        Thread thread = new Thread(() -> readCommands(commands), "commands of the parent process");
        thread.setDaemon(true);
        thread.start();
    }

    /** For the started JVM's main method: halts this JVM when the parent is gone. */
    public static void exitWithParent() {
        exitWithParent(ignored -> {});
    }

    /** Tells whether {@link Builder#asOrdinaryUser()} and {@link #limit} work on this machine. */
    public static boolean canBeLimited() {
        List<String> command = new ArrayList<>(UnprivilegedUser.launcherThatReadsAll());
        command.addAll(List.of("prlimit", "--nofile=64:", "true"));
        try {
            Command.run(command);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    public long pid() {
        return process.pid();
    }

    public boolean isAlive() {
        return process.isAlive();
    }

    /** Returns the lines of standard output until now. */
    public List<Line> lines() {
        return output.snapshot();
    }

    /** Returns standard error until now. */
    public String errorOutput() {
        return errors.text();
    }

    /**
     * Returns the first line of standard output in which a regular expression is found, waiting for it if need be.
     *
     * @throws AssertionError if it doesn't come in time or the process ends before; the message has both outputs
     */
    public Line awaitLine(String regex, Duration timeout) {
        return awaitLine(Pattern.compile(regex).asPredicate(), timeout);
    }

    /**
     * Returns the first line of standard output that satisfies a predicate, as {@link #awaitLine(String, Duration)}
     * does.
     */
    public Line awaitLine(Predicate<String> wanted, Duration timeout) {
        return found(output.await(0, wanted, timeout), timeout);
    }

    /** Returns the first such line that comes after another one. */
    public Line awaitLineAfter(Line earlier, Predicate<String> wanted, Duration timeout) {
        return found(output.await(output.snapshot().indexOf(earlier) + 1, wanted, timeout), timeout);
    }

    /** Sends a line to the process's standard input. */
    public synchronized void sendLine(String line) {
        try {
            input.write(line + "\n");
            input.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(name + " doesn't read its input: " + errorOutput(), e);
        }
    }

    /** Asks the process to end (SIGTERM), and doesn't wait. */
    public void stop() {
        Signal.TERM.send(pid());
    }

    /** Kills the process (SIGKILL), and waits until it is gone. */
    public void kill() {
        process.destroyForcibly();
        exitCode(PATIENCE);
    }

    /** Stops the process where it is (SIGSTOP), with all its threads, until {@link #resume}. */
    public void pause() {
        Signal.STOP.send(pid());
    }

    /** Lets the paused process go on (SIGCONT). */
    public void resume() {
        Signal.CONT.send(pid());
    }

    /**
     * Limits what the running process may have of a resource, as {@code prlimit} calls it: {@code nproc} threads (root has no
     * limit, and all processes of a user are counted), {@code nofile} open files.
     */
    public void limit(String resource, String softLimit) {
        // Only a process of the same user may do that.
        List<String> command = new ArrayList<>(launcher);
        command.addAll(List.of("prlimit", "--pid=" + pid(), "--" + resource + "=" + softLimit + ":"));
        try {
            Command.run(command);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Waits for the end of the process and returns its exit code, 128 + n when signal n ended it.
     *
     * @throws AssertionError if it doesn't end in time; the message has both outputs
     */
    public int exitCode(Duration timeout) {
        try {
            if (process.waitFor(timeout.toNanos(), TimeUnit.NANOSECONDS)) {
                return process.exitValue();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        throw failure("didn't end within " + timeout);
    }

    /** Kills the process if it still runs. */
    @Override
    public void close() {
        kill();
        guard.close();
        try {
            input.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Waits until the process has ended by itself without a failure, and returns all that it wrote to standard output.
     *
     * @throws AssertionError if it fails, or doesn't end in time; the message has both outputs
     */
    public List<String> awaitOutput(Duration timeout) {
        int exitCode = exitCode(timeout);
        output.await(0, line -> false, timeout);
        if (exitCode != 0) {
            throw failure("failed");
        }
        return lines().stream().map(Line::text).toList();
    }

    @Override
    public String toString() {
        return name;
    }

    private Line found(Optional<Line> line, Duration timeout) {
        return line.orElseThrow(() -> failure("printed no such line within " + timeout));
    }

    private AssertionError failure(String what) {
        return new AssertionError(name + " " + what + (isAlive() ? "" : ", and has ended with " + process.exitValue())
                + "\nstandard output:\n" + output.text() + "\nstandard error:\n" + errors.text());
    }

    private static void readCommands(Consumer<String> commands) {
        try {
            BufferedReader reader = new BufferedReader(new InputStreamReader(System.in, UTF_8));
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                commands.accept(line);
            }
        } catch (IOException | RuntimeException e) {
            System.err.println("no more commands: " + e);
        } finally {
            Runtime.getRuntime().halt(1);
        }
    }

    /** What a new process is to be like. */
    public static final class Builder {

        private final Class<?> main;
        private final List<String> arguments = new ArrayList<>();
        private final List<String> jvmOptions = new ArrayList<>();
        private final Map<String, String> environment = new LinkedHashMap<>();
        private List<String> launcher = List.of();
        private String classPath = System.getProperty("java.class.path");
        // Faster to start; most of these processes live for seconds.
        private List<String> startOptions = List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC");

        private Builder(Class<?> main) {
            this.main = main;
        }

        public Builder arguments(String... added) {
            arguments.addAll(List.of(added));
            return this;
        }

        public Builder systemProperty(String name, String value) {
            return jvmOption("-D" + name + "=" + value);
        }

        public Builder jvmOption(String option) {
            jvmOptions.add(option);
            return this;
        }

        /** Leaves out the entries of the class path whose file's path contains one of these. */
        public Builder classPathWithout(String... parts) {
            classPath = Arrays.stream(classPath.split(File.pathSeparator))
                    .filter(entry -> Arrays.stream(parts).noneMatch(entry::contains))
                    .collect(Collectors.joining(File.pathSeparator));
            return this;
        }

        /** Leaves the JIT and the garbage collector as the JVM chooses them. */
        public Builder withDefaultsOfTheJvm() {
            startOptions = List.of();
            return this;
        }

        public Builder environment(String name, String value) {
            environment.put(name, value);
            return this;
        }

        /** Starts the JVM as a user that limits hold for, and that may read the class path wherever it is. */
        public Builder asOrdinaryUser() {
            launcher = UnprivilegedUser.launcherThatReadsAll();
            return this;
        }

        /** Starts the JVM within a network of its own. */
        public Builder within(NetworkNamespace network) {
            launcher = network.launcher();
            return this;
        }

        public JavaProcess start() {
            List<String> command = new ArrayList<>(launcher);
            command.add(ProcessHandle.current().info().command().orElse("java"));
            command.addAll(startOptions);
            command.addAll(jvmOptions);
            command.addAll(List.of("-cp", classPath, main.getName()));
            command.addAll(arguments);
            ProcessBuilder builder = new ProcessBuilder(command);
            builder.environment().putAll(environment);
            try {
                return new JavaProcess(main.getSimpleName(), builder.start(), launcher);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /** The lines of one output stream, read by a thread of its own. */
    private static final class Lines {

        private final List<Line> lines = new ArrayList<>();
        private boolean ended;

        Lines(String name, InputStream stream) {
            Thread thread = new Thread(() -> readAll(stream), name);
            thread.setDaemon(true);
            thread.start();
        }

        synchronized List<Line> snapshot() {
            return List.copyOf(lines);
        }

        String text() {
            return String.join("\n", snapshot().stream().map(Line::text).toList());
        }

        /** Returns the first wanted line from an index on, or nothing when time or lines have run out. */
        synchronized Optional<Line> await(int from, Predicate<String> wanted, Duration timeout) {
            long deadline = System.nanoTime() + timeout.toNanos();
            int next = from;
            while (true) {
                for (; next < lines.size(); next++) {
                    if (wanted.test(lines.get(next).text())) {
                        return Optional.of(lines.get(next));
                    }
                }
                long remainingNanos = deadline - System.nanoTime();
                if (ended || remainingNanos <= 0) {
                    return Optional.empty();
                }
                try {
                    TimeUnit.NANOSECONDS.timedWait(this, remainingNanos);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    return Optional.empty();
                }
            }
        }

        private void readAll(InputStream stream) {
            try (BufferedReader reader = new BufferedReader(new InputStreamReader(stream, UTF_8))) {
                for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                    add(new Line(System.nanoTime(), line));
                }
            } catch (IOException e) {
                add(new Line(System.nanoTime(), "[reading ended: " + e + "]"));
            } finally {
                end();
            }
        }

        private synchronized void add(Line line) {
            lines.add(line);
            notifyAll();
        }

        private synchronized void end() {
            ended = true;
            notifyAll();
        }
    }
}
