package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.node.LabSettings;
import dev.pgleader.example.lab.node.NodeCommand;
import dev.pgleader.example.lab.node.NodeConfiguration;
import dev.pgleader.example.lab.supervisor.LabEvent.JobProgressed;
import dev.pgleader.example.lab.supervisor.LabEvent.Progress;
import dev.pgleader.example.lab.supervisor.LabEvent.RunProgressed;
import java.io.IOException;
import java.nio.file.Files;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * Runs a lab: a server, nodes with a proxy each, and the faults that people ask for. One thing at a time is done to the lab,
 * by whichever thread asks for it; what is known is kept on a thread of its own, which never waits.
 *
 * <p>Thread-safe. Methods throw {@link LabRefusal} for what can't be done now.
 */
public final class Supervisor implements AutoCloseable {

    /** The most nodes of a lab: each is a JVM. */
    public static final int MOST_NODES = 9;

    private final int initialNodes;
    private final EventLog log = new EventLog();
    private final LabThread labThread = new LabThread(new Lab(log));
    private final DatabaseServer server;
    private final OrphanGuard guard;
    private final LockWatcher watcher;
    private final Stranger stranger;
    private final NodeLauncher launcher;

    /** Held while something is done to the lab. */
    private final Object operation = new Object();

    private final Map<String, Machine> machines = new LinkedHashMap<>(); // guarded by operation
    private LabSettings settings; // guarded by operation

    /**
     * A supervisor of a lab that is still to be {@linkplain #start() started}.
     *
     * @param initialNodes with how many nodes it begins
     * @param heapMebibytes the most memory that a node's JVM may take for its heap
     * @throws LabFailure if there is no room for files or processes
     */
    public Supervisor(LabSettings settings, int initialNodes, int heapMebibytes) {
        this.settings = settings;
        this.initialNodes = initialNodes;
        try {
            this.server = new DatabaseServer(Files.createTempDirectory("pg-leader-lab-"));
            this.guard = new OrphanGuard(server.data());
        } catch (IOException e) {
            throw new LabFailure(
                    "The lab needs a directory for temporary files and a POSIX shell: " + e.getMessage(), e);
        }
        this.watcher = new LockWatcher(
                server,
                seen -> labThread.tell((lab, atMillis) -> lab.holderSeen(atMillis, seen)),
                seen -> labThread.tell((lab, atMillis) -> lab.entriesSeen(atMillis, seen)));
        this.stranger = new Stranger(server);
        this.launcher = new NodeLauncher(heapMebibytes, guard, labThread);
    }

    /** What happened, and happens. */
    public EventLog log() {
        return log;
    }

    /** Milliseconds since this supervisor was made: the time of the log. */
    public long millis() {
        return labThread.millis();
    }

    /** What is known now. */
    public LabSnapshot snapshot() {
        return labThread.ask(Lab::snapshot);
    }

    /**
     * Starts the server and the nodes, and returns when they run.
     *
     * @throws LabFailure if one of them doesn't; what runs by then is ended by {@link #close()}
     */
    public void start() {
        synchronized (operation) {
            launcher.requireMemory(initialNodes);
            try {
                server.start();
            } catch (IOException | SQLException | RuntimeException e) {
                throw new LabFailure("PostgreSQL doesn't start: " + e.getMessage(), e);
            }
            watcher.start();
            begin();
        }
    }

    /** Starts all anew but the server: with new settings, and without a past. */
    public void restart(LabSettings changed) {
        synchronized (operation) {
            settings = changed;
            labThread.tell(Lab::allEnded);
            launcher.endAll();
            try {
                server.clearEntries();
                for (Machine machine : machines.values()) {
                    machine.proxy().close();
                }
            } catch (IOException | SQLException e) {
                throw new LabFailure("The lab can't begin anew: " + e.getMessage(), e);
            }
            machines.clear();
            begin();
        }
    }

    private void begin() {
        LabSettings current = settings;
        labThread.tell((lab, atMillis) -> lab.begin(atMillis, current, server.port(), MOST_NODES));
        List<NodeProcess> started = new ArrayList<>();
        for (int i = 0; i < initialNodes; i++) {
            started.add(launch(newMachine()));
        }
        started.forEach(launcher::awaitReady);
    }

    /**
     * Adds a node, and returns its name when it runs.
     *
     * @throws LabRefusal if there are too many, or there is no memory for another
     */
    public String addNode() {
        synchronized (operation) {
            if (machines.size() == MOST_NODES) {
                throw new LabRefusal("A lab has at most " + MOST_NODES + " nodes, since each is a JVM of its own");
            }
            Machine machine = newMachine();
            try {
                launcher.awaitReady(launch(machine));
            } catch (LabFailure e) {
                machines.remove(machine.name());
                closeQuietly(machine.proxy());
                throw new LabRefusal(String.valueOf(e.getMessage()));
            }
            return machine.name();
        }
    }

    /** Ends the node's process with SIGKILL. */
    public void kill(String node) {
        onMachine(node, machine -> {
            NodeProcess process = machine.process();
            faulted(node, Fault.KILL, (lab, atMillis) -> lab.ended(atMillis, node, "killed"));
            launcher.end(process);
        });
    }

    /** Ends the node in order, if it runs and hears, and starts it again. */
    public void restart(String node) {
        onMachine(node, machine -> {
            faulted(node, Fault.RESTART, (lab, atMillis) -> lab.stopping(atMillis, node));
            if (machine.isRunning()) {
                NodeProcess process = machine.process();
                if (machine.isPaused() || machine.proxy().isCut()) {
                    launcher.end(process);
                } else {
                    launcher.stop(process);
                }
                labThread.tell((lab, atMillis) -> lab.ended(atMillis, node, "stopped"));
            }
            launcher.awaitReady(launch(machine));
        });
    }

    /** Stops the node's process where it is (SIGSTOP). */
    public void pause(String node) {
        onMachine(node, machine -> {
            NodeProcess process = machine.process();
            if (machine.isPaused()) {
                throw new LabRefusal(node + " is paused already; continue it first");
            }
            faulted(node, Fault.PAUSE, (lab, atMillis) -> lab.paused(atMillis, node));
            process.pause();
            machine.paused(true);
        });
    }

    /**
     * Pauses the leader in the middle of its next piece of work, and returns when that is done.
     *
     * @throws LabRefusal if the node doesn't lead, or loses the leadership before
     */
    public void pauseInJob(String node) {
        Duration patience;
        synchronized (operation) {
            requireLeader(machine(node));
            patience = settings.job().multipliedBy(3).plus(settings.lease());
        }
        boolean halfDone = awaitWork(
                event -> event instanceof JobProgressed job
                        && job.node().equals(node)
                        && job.progress() == Progress.HALF_DONE,
                patience);
        if (!halfDone) {
            throw new LabRefusal(node + " did no work within " + patience.toMillis() + " ms");
        }
        pause(node);
    }

    private boolean awaitWork(Predicate<LabEvent> expected, Duration patience) {
        CompletableFuture<Void> seen = new CompletableFuture<>();
        Consumer<LabEvent> listener = event -> {
            if (expected.test(event)) {
                seen.complete(null);
            }
        };
        labThread.tell((lab, atMillis) -> lab.addWorkListener(listener));
        try {
            return isDoneWithin(seen, patience);
        } finally {
            labThread.tell((lab, atMillis) -> lab.removeWorkListener(listener));
        }
    }

    private static boolean isDoneWithin(CompletableFuture<Void> event, Duration patience) {
        try {
            event.get(patience.toNanos(), TimeUnit.NANOSECONDS);
            return true;
        } catch (TimeoutException e) {
            return false;
        } catch (ExecutionException e) {
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LabRefusal("Interrupted while waiting");
        }
    }

    /** Lets the node's process go on (SIGCONT). */
    public void resume(String node) {
        onMachine(node, machine -> {
            NodeProcess process = machine.process();
            if (!machine.isPaused()) {
                throw new LabRefusal(node + " isn't paused");
            }
            faulted(node, Fault.CONTINUE, (lab, atMillis) -> lab.continued(atMillis, node));
            process.resume();
            machine.paused(false);
            process.command(NodeCommand.REPORT_TRUST);
        });
    }

    /** Does to the node what a suspended machine does: nothing runs, and nothing that is sent is answered. */
    public void suspend(String node) {
        onMachine(node, machine -> {
            NodeProcess process = machine.process();
            if (machine.isPaused()) {
                throw new LabRefusal(node + " is paused already; continue it first");
            }
            faulted(node, Fault.SUSPEND, (lab, atMillis) -> lab.suspended(atMillis, node));
            process.pause();
            machine.paused(true);
            machine.proxy().cut();
        });
    }

    /** The machine of the node runs again, and its network is back. */
    public void wakeUp(String node) {
        onMachine(node, machine -> {
            NodeProcess process = machine.process();
            if (!machine.isPaused() || !machine.proxy().isCut()) {
                throw new LabRefusal(node + " isn't suspended");
            }
            faulted(node, Fault.WAKE, (lab, atMillis) -> lab.wokenUp(atMillis, node));
            machine.proxy().heal();
            process.resume();
            machine.paused(false);
            process.command(NodeCommand.REPORT_TRUST);
        });
    }

    /** From now on, whatever the node and the server send to each other is swallowed. */
    public void cut(String node) {
        onMachine(node, machine -> {
            if (machine.proxy().isCut()) {
                throw new LabRefusal(node + " is cut off already; heal it first");
            }
            faulted(node, Fault.CUT, (lab, atMillis) -> lab.cutOff(atMillis, node, true));
            machine.proxy().cut();
        });
    }

    /** The node reaches the server again. */
    public void heal(String node) {
        onMachine(node, machine -> {
            if (!machine.proxy().isCut()) {
                throw new LabRefusal(node + " isn't cut off");
            }
            faulted(node, Fault.HEAL, (lab, atMillis) -> lab.cutOff(atMillis, node, false));
            machine.proxy().heal();
        });
    }

    /** Has the server end the session of the node's elector. */
    public void terminateSession(String node) {
        onMachine(node, machine -> {
            long atMillis = labThread.millis();
            try {
                if (server.terminateSessions(node) == 0) {
                    throw new LabRefusal("PostgreSQL has no session of " + node);
                }
            } catch (SQLException e) {
                throw new LabRefusal("PostgreSQL doesn't answer: " + e.getMessage());
            }
            labThread.tell(atMillis, (lab, at) -> lab.faulted(at, node, Fault.TERMINATE_SESSION));
        });
    }

    /** Has the leader give up its leadership. */
    public void resign(String node) {
        onMachine(node, machine -> {
            requireLeader(machine);
            faulted(node, Fault.RESIGN, (lab, atMillis) -> {});
            machine.process().command(NodeCommand.RESIGN);
        });
    }

    /**
     * Has a stranger tell the electors lies, waits until they could have believed them, and returns who leads then.
     *
     * @throws LabRefusal if the server doesn't answer
     */
    public String forgeNotices() {
        synchronized (operation) {
            labThread.tell((lab, atMillis) -> lab.done(atMillis, "PostgreSQL", Fault.FORGE_NOTICES));
            LabSnapshot before = snapshot();
            int count;
            try {
                count = stranger.forgeNotices();
            } catch (SQLException e) {
                throw new LabRefusal("PostgreSQL doesn't answer: " + e.getMessage());
            }
            boolean unused =
                    isDoneWithin(new CompletableFuture<>(), settings.retry().multipliedBy(3));
            LabSnapshot after = snapshot();
            String leaders = String.join(", ", after.leaders());
            String outcome = "A stranger sent " + count + " forged notices. "
                    + (after.holder().equals(before.holder()) && after.leaders().equals(before.leaders())
                            ? "Nothing happened: " + leaders + " leads, in the same session"
                            : "Something else happened meanwhile: now there leads " + leaders);
            labThread.tell((lab, atMillis) -> lab.noted(atMillis, outcome));
            return outcome;
        }
    }

    /**
     * Restarts one node after the other, each in order. Whoever leads when its turn comes is in the middle of a job of several steps
     * then, and the next leader begins with such a job.
     *
     * @return what was done
     */
    public String rollOut() {
        List<String> nodes;
        Duration patience;
        synchronized (operation) {
            nodes = new ArrayList<>(machines.keySet());
            patience = settings.job().multipliedBy(10).plus(settings.lease());
            nodes.sort(Comparator.comparing(snapshot().leaders()::contains).reversed());
            labThread.tell((lab, atMillis) -> lab.done(atMillis, "all nodes", Fault.ROLL_OUT));
            machines.values().stream()
                    .filter(machine -> machine.isRunning() && !machine.isPaused())
                    .forEach(machine -> machine.process().command(NodeCommand.RUN));
        }
        for (String node : nodes) {
            if (snapshot().leaders().contains(node)) {
                onMachine(node, machine -> machine.process().command(NodeCommand.RUN));
                // Who loses the leadership meanwhile is restarted all the same.
                boolean unused = awaitWork(
                        event -> event instanceof RunProgressed run
                                && run.node().equals(node)
                                && run.step() == run.steps() / 2,
                        patience);
            }
            restart(node);
        }
        String outcome = "The deployment is done: " + nodes.size() + " nodes were restarted";
        labThread.tell((lab, atMillis) -> lab.noted(atMillis, outcome));
        return outcome;
    }

    /** Restarts the server. Its sessions end, and with them the lock. */
    public void restartServer() {
        synchronized (operation) {
            labThread.tell((lab, atMillis) -> lab.serverFaulted(atMillis, Fault.RESTART_SERVER));
            try {
                server.restart();
            } catch (IOException e) {
                throw new LabFailure("PostgreSQL doesn't start again: " + e.getMessage(), e);
            }
        }
    }

    /** Ends the nodes and the server, and returns when they have ended. */
    @Override
    public void close() {
        launcher.close();
        synchronized (operation) {
            watcher.close();
            stranger.close();
            machines.values().forEach(machine -> closeQuietly(machine.proxy()));
            server.close();
            guard.close();
            labThread.close();
        }
    }

    private Machine newMachine() {
        String name = "node-" + (machines.size() + 1);
        try {
            Machine machine = new Machine(name, new NodeProxy(name, server.port()));
            machines.put(name, machine);
            return machine;
        } catch (IOException e) {
            throw new LabFailure("There is no port for " + name + ": " + e.getMessage(), e);
        }
    }

    private NodeProcess launch(Machine machine) {
        NodeProxy network = machine.proxy();
        NodeProcess process =
                launcher.launch(new NodeConfiguration(machine.name(), network.port(), settings), network.isCut());
        machine.runs(process);
        return process;
    }

    private interface Action {
        void on(Machine machine);
    }

    private void onMachine(String node, Action action) {
        synchronized (operation) {
            action.on(machine(node));
        }
    }

    private Machine machine(String node) {
        Machine machine = machines.get(node);
        if (machine == null) {
            throw new LabRefusal("There is no " + node + "; there are " + String.join(", ", machines.keySet()));
        }
        return machine;
    }

    private void requireLeader(Machine machine) {
        if (!snapshot().leaders().contains(machine.name())) {
            throw new LabRefusal(machine.name() + " doesn't lead now");
        }
    }

    private static void closeQuietly(NodeProxy proxy) {
        try {
            proxy.close();
        } catch (IOException e) {
            // A port that can't be closed ends with this process.
        }
    }

    private void faulted(String node, Fault fault, LabThread.News consequence) {
        labThread.tell((lab, atMillis) -> {
            lab.faulted(atMillis, node, fault);
            consequence.tell(lab, atMillis);
        });
    }
}
