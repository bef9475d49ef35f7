package dev.pgleader.example.demo;

import dev.pgleader.example.plain.PlainService;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.BlockingQueue;

/** A {@link PlainService} in a JVM of its own. It ends with the demo, since its standard input ends then. */
final class Node {

    /** A line that a node wrote, and when it arrived, in {@link System#nanoTime()}. */
    record Line(Node node, String text, long arrivedAtNanos) {}

    private final String name;
    private final Process process;

    Node(String name, Map<String, String> environment, BlockingQueue<Line> lines) throws IOException {
        this.name = name;
        ProcessBuilder builder = new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                PlainService.class.getName());
        builder.environment().putAll(environment);
        builder.environment().put("INSTANCE_ID", name);
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        process = builder.start();
        Thread reader = new Thread(() -> read(lines), name + "-output");
        reader.setDaemon(true);
        reader.start();
    }

    private void read(BlockingQueue<Line> lines) {
        try (BufferedReader output =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String text = output.readLine(); text != null; text = output.readLine()) {
                lines.add(new Line(this, text, System.nanoTime()));
            }
        } catch (IOException e) {
            // The output of a process that is killed may end so; whoever waits for its lines runs out of time.
            lines.add(new Line(this, "output ended: " + e.getMessage(), System.nanoTime()));
        }
    }

    String name() {
        return name;
    }

    /** SIGKILL, where the platform has it. */
    void kill() {
        process.destroyForcibly();
    }

    void resign() throws IOException {
        OutputStream commands = process.getOutputStream();
        commands.write("resign\n".getBytes(StandardCharsets.UTF_8));
        commands.flush();
    }

    /** Has the node end by itself and waits for it. */
    void end() throws IOException, InterruptedException {
        process.getOutputStream().close();
        process.waitFor();
    }
}
