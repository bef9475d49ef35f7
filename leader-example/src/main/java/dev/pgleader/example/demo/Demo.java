package dev.pgleader.example.demo;

import dev.pgleader.example.demo.Node.Line;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Shows an election: three instances of a service in JVMs of their own, the death of the leader, and a hand-over. Takes a
 * PostgreSQL of its own unless it is given one.
 */
public final class Demo {

    private static final int NODES = 3;
    private static final long PATIENCE_SECONDS = 60;

    private final PrintStream out;
    private final BlockingQueue<Line> lines = new LinkedBlockingQueue<>();

    Demo(PrintStream out) {
        this.out = out;
    }

    /**
     * Runs the demo; its exit code is 0 if all went as it should.
     *
     * @param args see {@code --help}
     * @throws Exception if it didn't
     */
    public static void main(String[] args) throws Exception {
        DemoArguments arguments;
        try {
            arguments = DemoArguments.parse(args);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.exit(2);
            return;
        }
        new Demo(System.out).run(arguments);
    }

    void run(DemoArguments arguments) throws IOException, InterruptedException {
        Map<String, String> environment = new HashMap<>();
        environment.put("DATABASE_USER", arguments.user());
        environment.put("DATABASE_PASSWORD", arguments.password());
        if (arguments.url().isPresent()) {
            environment.put("DATABASE_URL", arguments.url().get());
            show(environment);
            return;
        }
        try (EmbeddedPostgres postgres = EmbeddedPostgres.start()) {
            out.println("PostgreSQL runs on port " + postgres.getPort());
            environment.put("DATABASE_URL", postgres.getJdbcUrl("postgres", "postgres"));
            // No leader can be left from before a database that is this young.
            environment.put("FRESH_DATABASE", "yes");
            show(environment);
        }
    }

    private void show(Map<String, String> environment) throws IOException, InterruptedException {
        List<Node> nodes = new ArrayList<>();
        try {
            for (int i = 1; i <= NODES; i++) {
                nodes.add(new Node("node-" + i, environment, lines));
            }
            out.println(NODES + " instances start, each in a JVM of its own");
            Node first = awaitElected().node();
            out.println(first.name() + " leads");

            out.println("kill -9 " + first.name());
            long killedAtNanos = System.nanoTime();
            first.kill();
            Node second = reportNewLeader(killedAtNanos);

            out.println(second.name() + " resigns");
            long resignedAtNanos = System.nanoTime();
            second.resign();
            reportNewLeader(resignedAtNanos);
        } finally {
            for (Node node : nodes) {
                node.end();
            }
        }
        out.println("All instances have ended");
    }

    private Node reportNewLeader(long sinceNanos) throws InterruptedException {
        Line elected = awaitElected();
        long gapMillis = TimeUnit.NANOSECONDS.toMillis(elected.arrivedAtNanos() - sinceNanos);
        out.println(elected.node().name() + " leads, after " + gapMillis + " ms without a leader");
        return elected.node();
    }

    private Line awaitElected() throws InterruptedException {
        while (true) {
            Line line = lines.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
            if (line == null) {
                throw new IllegalStateException("Nobody was elected within " + PATIENCE_SECONDS + " s");
            }
            if (line.text().startsWith("elected")) {
                return line;
            }
        }
    }
}
