package dev.pgleader.example.lab.supervisor;

import org.jspecify.annotations.Nullable;

/** Where a node runs: a network of its own, and at most one process. For the thread that does something to the lab. */
final class Machine {

    private final String name;
    private final NodeProxy proxy;
    private @Nullable NodeProcess process;
    private boolean paused;

    Machine(String name, NodeProxy proxy) {
        this.name = name;
        this.proxy = proxy;
    }

    String name() {
        return name;
    }

    NodeProxy proxy() {
        return proxy;
    }

    boolean isPaused() {
        return paused;
    }

    void paused(boolean now) {
        paused = now;
    }

    void runs(NodeProcess started) {
        process = started;
        paused = false;
    }

    boolean isRunning() {
        return process != null && process.isAlive();
    }

    /** @throws LabRefusal if there is none */
    NodeProcess process() {
        if (process == null || !process.isAlive()) {
            throw new LabRefusal(name + " is dead; restart it first");
        }
        return process;
    }
}
