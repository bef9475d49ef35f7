package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderInfo;
import dev.pgleader.LeaderStatus;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.time.Instant;
import java.util.EnumSet;
import java.util.Set;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;

/**
 * The health of this instance's part in an election. To lead and to follow are both UP. An election that has gone longer than
 * the threshold without a database is DOWN if none can be reached, and OUT_OF_SERVICE if the one that is reached can't be
 * trusted with the lock, such as a standby.
 *
 * <p>Never asks the database: it tells what the elector knows.
 */
public final class LeaderHealthIndicator implements HealthIndicator {

    private static final Set<Fault> NO_DATABASE =
            EnumSet.of(Fault.UNREACHABLE, Fault.LOGIN_REFUSED, Fault.CONNECTION_LOST, Fault.TIMEOUT);

    private final LeaderElector elector;
    private final Duration threshold;

    /** The health of one elector, for which problems count when they last longer than {@code threshold}. */
    public LeaderHealthIndicator(LeaderElector elector, Duration threshold) {
        this.elector = elector;
        this.threshold = threshold;
    }

    @Override
    public Health health() {
        LeaderStatus status = elector.status();
        Health.Builder health = Health.status(judge(status));
        health.withDetail("election", status.name());
        health.withDetail("role", status.role());
        if (status.paused()) {
            health.withDetail("paused", true);
        }
        status.lastRevocation().ifPresent(reason -> health.withDetail("lastRevocation", reason));
        status.leaderSince().ifPresent(since -> health.withDetail("since", since));
        status.knownLeader().map(LeaderInfo::instanceId).ifPresent(leader -> health.withDetail("leader", leader));
        status.sinceLastCheck()
                .ifPresent(age -> health.withDetail("lastCheck", Instant.now().minus(age)));
        status.problem().ifPresent(problem -> {
            health.withDetail("problem", problem.kind());
            problem.fault().ifPresent(fault -> health.withDetail("fault", fault));
            health.withDetail("problemSince", Instant.now().minus(problem.since()));
            health.withDetail("message", problem.message());
        });
        return health.build();
    }

    private Status judge(LeaderStatus status) {
        return status.problem()
                .filter(problem -> problem.since().compareTo(threshold) > 0)
                .map(problem ->
                        problem.fault().filter(NO_DATABASE::contains).isPresent() ? Status.DOWN : Status.OUT_OF_SERVICE)
                .orElse(Status.UP);
    }
}
