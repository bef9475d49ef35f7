package dev.pgleader.example.lab.node;

import dev.pgleader.AcquisitionMode;
import dev.pgleader.ElectorOptions;
import java.time.Duration;

/**
 * How the nodes of a lab compete, and how long their work takes.
 *
 * @param lease after how long the server ends the session of a silent leader
 * @param retry the time between two tries of a candidate
 * @param job how long one piece of the leader's work takes
 * @param mode how a candidate gets the lock
 */
public record LabSettings(Duration lease, Duration retry, Duration job, AcquisitionMode mode) {

    static final Duration SHORTEST_LEASE = Duration.ofSeconds(1);
    static final Duration LONGEST_LEASE = Duration.ofMinutes(1);
    static final Duration SHORTEST_RETRY = Duration.ofMillis(50);
    static final Duration SHORTEST_JOB = Duration.ofMillis(100);
    static final Duration LONGEST_JOB = Duration.ofSeconds(10);

    /** Short enough for people who watch. */
    public static final LabSettings DEFAULT =
            new LabSettings(Duration.ofSeconds(5), Duration.ofMillis(500), Duration.ofSeconds(1), AcquisitionMode.POLL);

    /** @throws IllegalArgumentException if a value is out of range, with the value and the range */
    public LabSettings {
        requireBetween("lease", lease, SHORTEST_LEASE, LONGEST_LEASE);
        requireBetween("retry", retry, SHORTEST_RETRY, lease);
        requireBetween("job", job, SHORTEST_JOB, LONGEST_JOB);
    }

    /**
     * The options of a node's elector. Checks are so frequent that a lease survives a lost one, and who gives up in order has the time
     * to end whatever it does.
     */
    public ElectorOptions electorOptions() {
        return ElectorOptions.builder()
                .leaseDuration(lease)
                .healthCheckInterval(lease.dividedBy(5))
                .healthCheckTimeout(lease.dividedBy(4))
                .retryInterval(retry)
                .acquisitionMode(mode)
                .revokeTimeout(LongRun.duration(step()).plus(job))
                .maxReconnectDelay(retry.multipliedBy(2))
                .build();
    }

    /** How long a step of the job of several steps takes. */
    Duration step() {
        return job.dividedBy(2);
    }

    private static void requireBetween(String name, Duration value, Duration least, Duration most) {
        if (value.compareTo(least) < 0 || value.compareTo(most) > 0) {
            throw new IllegalArgumentException("The " + name + " must be between " + least.toMillis() + " and "
                    + most.toMillis() + " ms, but is " + value.toMillis() + " ms");
        }
    }
}
