package dev.pgleader.example.lab;

import dev.pgleader.example.CommandLine;
import dev.pgleader.example.lab.supervisor.Supervisor;
import java.util.Map;
import java.util.Set;

/**
 * What the lab is told on its command line.
 *
 * @param port where it serves the page; 0 for any that is free
 * @param nodes with how many nodes it begins
 * @param heapMebibytes the most memory that a node's JVM may take for its heap
 */
record LabArguments(int port, int nodes, int heapMebibytes) {

    static final String USAGE = "usage: [--port 8080] [--nodes 3] [--node-heap 48 (MiB)]";

    private static final int LEAST_HEAP = 16;
    private static final int MOST_HEAP = 1 << 20;

    private static final Set<String> OPTIONS = Set.of("--port", "--nodes", "--node-heap");

    /** @throws IllegalArgumentException if there is something else, with what to do */
    static LabArguments parse(String... args) {
        Map<String, String> values = CommandLine.parse(OPTIONS, USAGE, args);
        return new LabArguments(
                number(values, "--port", 8080, 0, 65_535),
                number(values, "--nodes", 3, 1, Supervisor.MOST_NODES),
                number(values, "--node-heap", 48, LEAST_HEAP, MOST_HEAP));
    }

    private static int number(Map<String, String> values, String option, int otherwise, int least, int most) {
        String text = values.get(option);
        if (text == null) {
            return otherwise;
        }
        try {
            int number = Integer.parseInt(text);
            if (number >= least && number <= most) {
                return number;
            }
        } catch (NumberFormatException e) {
            // The same message as for a number that is out of range.
        }
        throw new IllegalArgumentException("The option " + option + " needs a number between " + least + " and " + most
                + ", but is " + text + "; " + USAGE);
    }
}
