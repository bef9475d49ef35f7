package dev.pgleader.example.lab.supervisor;

import java.util.HashSet;
import java.util.Set;

/** Which nodes are in the middle of a job of several steps: one, or none, unless it is doubled. Not thread-safe. */
final class Runs {

    private final Set<String> running = new HashSet<>();

    /** Returns whether no other node is in the middle of it. */
    boolean stepped(String node, int step, int steps) {
        running.add(node);
        boolean alone = running.size() == 1;
        if (step == steps) {
            running.remove(node);
        }
        return alone;
    }

    void ended(String node) {
        running.remove(node);
    }
}
