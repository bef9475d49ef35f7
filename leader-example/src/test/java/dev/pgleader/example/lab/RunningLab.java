package dev.pgleader.example.lab;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.AcquisitionMode;
import dev.pgleader.example.lab.node.LabDatabase;
import dev.pgleader.example.lab.node.LabSettings;
import dev.pgleader.example.lab.supervisor.EventLog;
import dev.pgleader.example.lab.supervisor.LabEvent;
import dev.pgleader.example.lab.supervisor.LabEvent.FailedOver;
import dev.pgleader.example.lab.supervisor.LabEvent.NodeChanged;
import dev.pgleader.example.lab.supervisor.LabEvent.RunProgressed;
import dev.pgleader.example.lab.supervisor.LabEvent.WorkDone;
import dev.pgleader.example.lab.supervisor.LabSnapshot;
import dev.pgleader.example.lab.supervisor.NodeState;
import dev.pgleader.example.lab.supervisor.Supervisor;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.awaitility.Awaitility;
import org.awaitility.core.ConditionFactory;
import org.springframework.context.ConfigurableApplicationContext;

/**
 * A lab with short times, in this JVM, and what is needed to see what became of it. On a busy machine, too, a leader keeps its lease,
 * a fault strikes in the second half of a job, and another takes over before one that resigned is a candidate again.
 */
final class RunningLab {

    static final LabSettings SHORT = new LabSettings(
            Duration.ofMillis(5_000), Duration.ofMillis(1_000), Duration.ofMillis(1_500), AcquisitionMode.POLL);

    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final ConfigurableApplicationContext context;
    private final Supervisor supervisor;
    private final HttpClient http = HttpClient.newHttpClient();

    private RunningLab() {
        context = LabApplication.start(new LabArguments(0, 3, 48), SHORT);
        supervisor = context.getBean(Supervisor.class);
    }

    /** One for all tests of this JVM, since its start takes seconds. It ends with the JVM. */
    static RunningLab shared() {
        return Shared.LAB;
    }

    private static final class Shared {
        // The context has a shutdown hook of its own.
        static final RunningLab LAB = new RunningLab();
    }

    String address() {
        return LabApplication.address(context);
    }

    LabSnapshot snapshot() {
        return supervisor.snapshot();
    }

    NodeChanged node(String name) {
        return snapshot().nodes().stream()
                .filter(node -> node.node().equals(name))
                .findFirst()
                .orElseThrow();
    }

    /** Presses a button: without the page, but in the page's name. */
    void press(String path) {
        HttpResponse<String> response = post(path, "");
        assertThat(response.statusCode()).as("%s: %s", path, response.body()).isEqualTo(200);
    }

    HttpResponse<String> post(String path, String body) {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address() + path))
                .header("Origin", address())
                .header("Content-Type", "application/json")
                .POST(BodyPublishers.ofString(body, UTF_8))
                .build();
        try {
            return http.send(request, BodyHandlers.ofString(UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    /** The nodes whose session holds the lock, as {@code pg_locks} shows it. */
    List<String> holders() {
        return query("SELECT substr(application_name, 11) FROM pg_locks JOIN pg_stat_activity USING (pid)"
                + " WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid = 0 AND objid = "
                + LabDatabase.LEADER_KEY);
    }

    /** The first column of what a query on the lab's server returns. */
    List<String> query(String sql) {
        try (Connection connection =
                        DriverManager.getConnection(LabDatabase.url(snapshot().databasePort()), LabDatabase.NAME, "");
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            List<String> column = new ArrayList<>();
            while (rows.next()) {
                column.add(rows.getString(1));
            }
            return column;
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    List<FailedOver> failovers() {
        return events(FailedOver.class);
    }

    List<WorkDone> work() {
        return events(WorkDone.class);
    }

    List<RunProgressed> runs() {
        return events(RunProgressed.class);
    }

    /** What a page that is opened now would be told. */
    <E extends LabEvent> List<E> events(Class<E> type) {
        List<E> events = new ArrayList<>();
        try (EventLog.Subscription subscription = supervisor.log().subscribe(0)) {
            for (EventLog.Entry entry = subscription.next(0); entry != null; entry = subscription.next(0)) {
                if (type.isInstance(entry.event())) {
                    events.add(type.cast(entry.event()));
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
        return events;
    }

    /** Waits until one node leads, the others follow, and the server agrees; returns who it is. */
    String awaitLeader() {
        until("one node leads, and the server agrees")
                .until(() -> snapshot().leaders().size() == 1
                        && holders().equals(snapshot().leaders())
                        && snapshot().nodes().stream().allMatch(RunningLab::isWell));
        return snapshot().leaders().get(0);
    }

    private static boolean isWell(NodeChanged node) {
        return node.state() == NodeState.LEADER || node.state() == NodeState.FOLLOWER;
    }

    /** Heals and restarts whatever isn't well, and waits for a leader. */
    String recover() {
        for (NodeChanged node : snapshot().nodes()) {
            if (node.cutOff()) {
                press("/api/nodes/" + node.node() + "/heal");
            }
            if (node.paused()) {
                press("/api/nodes/" + node.node() + "/continue");
            }
            if (node.pid() == 0) {
                press("/api/nodes/" + node.node() + "/restart");
            }
        }
        return awaitLeader();
    }

    /** Waits for so long that what happens from now on is after what happened before, also to the lab's ledger. */
    static void outlastTolerance() {
        long begin = System.nanoTime();
        until("later by more than the ledger's tolerance of 100 ms")
                .until(() -> System.nanoTime() - begin > Duration.ofMillis(500).toNanos());
    }

    static ConditionFactory until(String condition) {
        return Awaitility.await(condition)
                .atMost(PATIENCE)
                .pollDelay(Duration.ZERO)
                .pollInterval(Duration.ofMillis(20))
                .ignoreExceptions();
    }
}
