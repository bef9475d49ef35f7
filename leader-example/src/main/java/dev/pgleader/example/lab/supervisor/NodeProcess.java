package dev.pgleader.example.lab.supervisor;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.pgleader.example.lab.node.LabNode;
import dev.pgleader.example.lab.node.NodeCommand;
import dev.pgleader.example.lab.node.NodeConfiguration;
import dev.pgleader.example.lab.node.NodeReport;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;

/** The JVM of a node, for as long as it lives. Thread-safe. */
final class NodeProcess {

    /** Hears of a process, on threads of that process. */
    interface Listener {
        void reported(NodeProcess process, NodeReport report);

        void ended(NodeProcess process);
    }

    private static final int ERROR_LINES = 20;

    private final NodeConfiguration configuration;
    private final Process process;
    private final Listener listener;
    private final Deque<String> errors = new ArrayDeque<>(); // guarded by itself

    private NodeProcess(NodeConfiguration configuration, Process process, Listener listener) {
        this.configuration = configuration;
        this.process = process;
        this.listener = listener;
    }

    /** Starts a node, which isn't listened to yet. */
    static NodeProcess start(NodeConfiguration configuration, int heapMebibytes, Listener listener) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        // Small and fast to start.
        command.addAll(List.of("-Xmx" + heapMebibytes + "m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), LabNode.class.getName()));
        command.addAll(configuration.toArguments());
        return new NodeProcess(configuration, new ProcessBuilder(command).start(), listener);
    }

    /** From now on the listener hears of it, also of what it has said before. */
    void listen() {
        Thread errorReader = start("errors", () -> readErrors(process.getErrorStream()));
        var unused = start("reports", () -> {
            readReports(process.getInputStream());
            join(errorReader);
            listener.ended(this);
        });
    }

    String name() {
        return configuration.name();
    }

    /** How long its elector takes at most to end in order. */
    Duration closeTimeout() {
        return configuration.settings().electorOptions().closeTimeout();
    }

    long pid() {
        return process.pid();
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /** SIGKILL. */
    void kill() {
        process.destroyForcibly();
    }

    void pause() {
        Signal.STOP.send(pid());
    }

    void resume() {
        Signal.CONT.send(pid());
    }

    void command(NodeCommand command) {
        try {
            OutputStream commands = process.getOutputStream();
            commands.write((command.name().toLowerCase(Locale.ROOT) + "\n").getBytes(UTF_8));
            commands.flush();
        } catch (IOException e) {
            throw new LabRefusal(name() + " doesn't listen: its process has ended");
        }
    }

    /** Has the node end in order, and kills it if that takes too long. */
    void stop(Duration patience) throws InterruptedException {
        try {
            command(NodeCommand.STOP);
        } catch (LabRefusal e) {
            // It ends already.
        }
        if (!process.waitFor(patience.toMillis(), TimeUnit.MILLISECONDS)) {
            kill();
            process.waitFor();
        }
    }

    /** Waits for the end of the process. */
    void awaitEnd() throws InterruptedException {
        process.waitFor();
    }

    /** What it wrote on its standard error, as far as that is kept. */
    String lastErrors() {
        synchronized (errors) {
            return String.join("\n", errors);
        }
    }

    private Thread start(String what, Runnable work) {
        Thread thread = new Thread(work, name() + "-" + what);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void readReports(InputStream stream) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(stream, UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                listener.reported(this, NodeReport.parse(line));
            }
        } catch (IOException | IllegalArgumentException e) {
            // The last line of a process that is killed may be half of one.
            addError("reading its reports ended: " + e.getMessage());
        }
    }

    private void readErrors(InputStream stream) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(stream, UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                addError(line);
            }
        } catch (IOException e) {
            addError("reading its errors ended: " + e.getMessage());
        }
    }

    private void addError(String line) {
        synchronized (errors) {
            errors.add(line);
            if (errors.size() > ERROR_LINES) {
                errors.remove();
            }
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public String toString() {
        return name() + " (process " + pid() + ")";
    }
}
