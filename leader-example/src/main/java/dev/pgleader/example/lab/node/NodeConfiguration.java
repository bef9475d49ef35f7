package dev.pgleader.example.lab.node;

import dev.pgleader.AcquisitionMode;
import java.time.Duration;
import java.util.List;

/**
 * What a node is told on its command line.
 *
 * @param name its name, which is also the elector's instance id
 * @param databasePort where it reaches PostgreSQL on the loopback interface
 * @param settings those of the lab
 */
public record NodeConfiguration(String name, int databasePort, LabSettings settings) {

    /** The command line that {@link #parse} reads. */
    public List<String> toArguments() {
        return List.of(
                name,
                Integer.toString(databasePort),
                Long.toString(settings.lease().toMillis()),
                Long.toString(settings.retry().toMillis()),
                Long.toString(settings.job().toMillis()),
                settings.mode().name());
    }

    static NodeConfiguration parse(String... arguments) {
        if (arguments.length != 6) {
            throw new IllegalArgumentException(
                    "A node is started by the lab, with 6 arguments, not " + arguments.length);
        }
        return new NodeConfiguration(
                arguments[0],
                Integer.parseInt(arguments[1]),
                new LabSettings(
                        millis(arguments[2]),
                        millis(arguments[3]),
                        millis(arguments[4]),
                        AcquisitionMode.valueOf(arguments[5])));
    }

    private static Duration millis(String text) {
        return Duration.ofMillis(Long.parseLong(text));
    }
}
