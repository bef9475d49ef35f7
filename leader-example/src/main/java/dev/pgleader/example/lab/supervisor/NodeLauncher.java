package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.node.NodeConfiguration;
import dev.pgleader.example.lab.node.NodeReport;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Starts and ends the nodes' processes, and sees to it that none is left. Thread-safe. */
final class NodeLauncher implements AutoCloseable {

    private static final Duration START_PATIENCE = Duration.ofSeconds(60);
    private static final Duration STOP_PATIENCE_BESIDES_CLOSING = Duration.ofSeconds(10);
    private static final int MEBIBYTES_BESIDES_HEAP = 64;

    private final int heapMebibytes;
    private final OrphanGuard guard;
    private final LabThread labThread;
    private final NodeProcess.Listener listener = new Listener();

    /** The live processes, and whether they are ready. */
    private final Map<NodeProcess, CompletableFuture<Void>> processes = new ConcurrentHashMap<>();

    private volatile boolean closing;

    NodeLauncher(int heapMebibytes, OrphanGuard guard, LabThread labThread) {
        this.heapMebibytes = heapMebibytes;
        this.guard = guard;
        this.labThread = labThread;
    }

    /** Checks that there is memory for so many nodes more, or throws a {@link LabFailure}. */
    void requireMemory(int nodes) {
        long needed = nodes * ((long) heapMebibytes + MEBIBYTES_BESIDES_HEAP);
        AvailableMemory.mebibytes().ifPresent(available -> {
            if (available < needed) {
                throw new LabFailure(
                        "There is no memory for " + (nodes == 1 ? "another node" : nodes + " nodes") + ": "
                                + needed + " MiB are needed, and " + available
                                + " MiB are available; end something else, or start the lab with a smaller --node-heap",
                        null);
            }
        });
    }

    /**
     * Starts a node, and returns without waiting for it.
     *
     * @param cutOff whether its network is cut
     */
    NodeProcess launch(NodeConfiguration configuration, boolean cutOff) {
        requireMemory(1);
        NodeProcess process;
        try {
            process = NodeProcess.start(configuration, heapMebibytes, listener);
        } catch (IOException e) {
            throw new LabFailure(configuration.name() + " doesn't start: " + e.getMessage(), e);
        }
        processes.put(process, new CompletableFuture<>());
        guard.watch(process.pid());
        labThread.tell((lab, atMillis) -> lab.started(atMillis, process.name(), process.pid(), cutOff));
        process.listen();
        if (closing) {
            process.kill(); // close() may not have seen it
        }
        return process;
    }

    /** Waits until it competes, or throws a {@link LabFailure} with what it said last. */
    void awaitReady(NodeProcess process) {
        try {
            CompletableFuture<Void> ready = processes.get(process);
            if (ready == null) {
                throw new LabFailure(process.name() + " doesn't start: " + process.lastErrors(), null);
            }
            ready.get(START_PATIENCE.toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException | TimeoutException e) {
            end(process);
            throw new LabFailure(process.name() + " doesn't start: " + process.lastErrors(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LabFailure("Interrupted while " + process.name() + " starts", e);
        }
    }

    /** Has it end in order. */
    void stop(NodeProcess process) {
        try {
            process.stop(process.closeTimeout().plus(STOP_PATIENCE_BESIDES_CLOSING));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            process.kill();
        }
    }

    /** Kills it, and waits for its end. */
    void end(NodeProcess process) {
        process.kill();
        try {
            process.awaitEnd();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    void endAll() {
        processes.keySet().forEach(NodeProcess::kill);
        processes.keySet().forEach(this::end);
    }

    /** Ends all that run, and whatever is being launched. */
    @Override
    public void close() {
        closing = true;
        endAll();
    }

    private final class Listener implements NodeProcess.Listener {

        @Override
        public void reported(NodeProcess process, NodeReport report) {
            labThread.tell((lab, atMillis) -> lab.reported(atMillis, process.pid(), process.name(), report));
            CompletableFuture<Void> ready = processes.get(process);
            if (ready != null && report instanceof NodeReport.Ready) {
                ready.complete(null);
            }
        }

        @Override
        public void ended(NodeProcess process) {
            guard.forget(process.pid());
            CompletableFuture<Void> ready = processes.remove(process);
            if (ready != null) {
                ready.completeExceptionally(new IOException("the process ended"));
            }
            labThread.tell(
                    (lab, atMillis) -> lab.vanished(atMillis, process.pid(), process.name(), process.lastErrors()));
        }
    }
}
