package dev.pgleader.example.lab.supervisor;

import java.util.LinkedHashMap;
import java.util.Map;

/** Numbers for the whole lab of what each process counts by itself. Not thread-safe. */
final class ClusterNumbers {

    private static final int REMEMBERED = 1_000;

    private final Map<String, Long> numbers = new LinkedHashMap<>();
    private long last;

    /** The number for a process' own number: the next one, or the one that it was given before. */
    long of(long pid, long own) {
        long number = numbers.computeIfAbsent(pid + "/" + own, unknown -> ++last);
        if (numbers.size() > REMEMBERED) {
            numbers.remove(numbers.keySet().iterator().next());
        }
        return number;
    }
}
