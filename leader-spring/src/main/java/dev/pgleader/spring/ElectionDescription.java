package dev.pgleader.spring;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderInfo;
import dev.pgleader.LeaderStatus;
import dev.pgleader.RevocationReason;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/**
 * An election as this instance sees it, in the form that the endpoint shows; what isn't known is left out.
 *
 * @param role what this instance is
 * @param key what it competes for, as it was named
 * @param lockKey the same as PostgreSQL knows it, in the form of {@link dev.pgleader.lock.LockKey#toString()}: {@code bigint:42}
 * @param instanceId who it is
 * @param paused whether it sits the election out
 * @param terms how many terms it has led
 * @param since when its current term began
 * @param lastRevocation why its last term ended
 * @param leader who leads, as far as this instance has heard
 * @param session its database session
 * @param lastCheck when its last good check began
 * @param lastAttempt when it last tried for the lock
 * @param problem what keeps it from its work
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
public record ElectionDescription(
        LeaderStatus.Role role,
        String key,
        String lockKey,
        String instanceId,
        boolean paused,
        long terms,
        @Nullable Instant since,
        @Nullable RevocationReason lastRevocation,
        @Nullable Leader leader,
        LeaderStatus.@Nullable Session session,
        @Nullable Instant lastCheck,
        @Nullable Instant lastAttempt,
        @Nullable Problem problem) {

    /**
     * Who leads.
     *
     * @param instanceId the leader
     * @param backendPid the server process that holds the lock for it
     * @param since when its term began, if it has told
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record Leader(
            String instanceId, int backendPid, @Nullable Instant since) {

        static Leader of(LeaderInfo info) {
            return new Leader(info.instanceId(), info.backendPid(), info.since().orElse(null));
        }
    }

    /**
     * What keeps an instance from its work.
     *
     * @param kind what doesn't work
     * @param fault what the session or the server did, if the problem is there
     * @param message what is wrong and what to do
     * @param since when it began
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record Problem(
            LeaderStatus.Problem.Kind kind, @Nullable Fault fault, String message, Instant since) {}

    static ElectionDescription of(LeaderElector elector) {
        LeaderStatus status = elector.status();
        Instant now = Instant.now();
        return new ElectionDescription(
                status.role(),
                status.key().name().orElseGet(() -> status.key().toString()),
                status.key().toString(),
                status.instanceId(),
                status.paused(),
                status.terms(),
                status.leaderSince().orElse(null),
                status.lastRevocation().orElse(null),
                status.knownLeader().map(Leader::of).orElse(null),
                status.session().orElse(null),
                before(now, status.sinceLastCheck().orElse(null)),
                before(now, status.sinceLastAttempt().orElse(null)),
                status.problem()
                        .map(problem -> new Problem(
                                problem.kind(),
                                problem.fault().orElse(null),
                                problem.message(),
                                now.minus(problem.since())))
                        .orElse(null));
    }

    private static @Nullable Instant before(Instant now, @Nullable Duration age) {
        return age == null ? null : now.minus(age);
    }
}
