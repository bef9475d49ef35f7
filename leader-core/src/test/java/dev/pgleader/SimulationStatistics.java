package dev.pgleader;

import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** How often something happened. */
final class SimulationStatistics {

    private final Map<String, Long> counts = new TreeMap<>();

    void count(String what) {
        add(what, 1);
    }

    void add(String what, long number) {
        counts.merge(what, number, Long::sum);
    }

    long get(String what) {
        return counts.getOrDefault(what, 0L);
    }

    synchronized void addAll(SimulationStatistics others) {
        others.counts.forEach(this::add);
    }

    @Override
    public String toString() {
        return counts.entrySet().stream()
                .map(each -> each.getKey() + " " + each.getValue())
                .collect(Collectors.joining(", "));
    }
}
