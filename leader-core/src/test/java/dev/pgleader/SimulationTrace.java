package dev.pgleader;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Locale;
import java.util.stream.Collectors;

/** What happened last in a simulation, for people, and a hash of all that happened. */
final class SimulationTrace {

    private static final int KEPT = 200;

    private record Entry(long time, String who, String what) {
        @Override
        public String toString() {
            return String.format(Locale.ROOT, "%14.6f s  %-5s %s", time / 1e9, who, what);
        }
    }

    private final SimulatedWorld world;
    private final Deque<Entry> last = new ArrayDeque<>();
    private long hash;

    SimulationTrace(SimulatedWorld world) {
        this.world = world;
    }

    void add(SimulatedHost who, String what) {
        add(who.name, what);
    }

    void add(String who, String what) {
        hash = ((hash * 31 + world.now()) * 31 + who.hashCode()) * 31 + what.hashCode();
        if (last.size() == KEPT) {
            last.remove();
        }
        last.add(new Entry(world.now(), who, what));
    }

    long hash() {
        return hash;
    }

    @Override
    public String toString() {
        return last.stream().map(Entry::toString).collect(Collectors.joining("\n"));
    }
}
