package dev.pgleader;

import dev.pgleader.lock.LockSession;
import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Makes a {@link LeaderStatus} of what an election shows of itself. */
final class StatusReport {

    private StatusReport() {}

    static LeaderStatus of(Candidate candidate, String instanceId, boolean isStarted, ElectionLoop loop) {
        long now = loop.now();
        Candidate.Standing standing = candidate.standing();
        SessionKeeper.View view = loop.view();
        LeaderStatus.Role role = role(standing, isStarted);
        boolean trusted = standing.lease().isValid();
        return new LeaderStatus(
                candidate.name,
                candidate.key,
                instanceId,
                role,
                standing.paused(),
                standing.terms(),
                Optional.ofNullable(standing.leadership())
                        .filter(term -> trusted)
                        .map(Leadership::since),
                Optional.ofNullable(standing.lastRevocation()),
                Optional.ofNullable(standing.knownLeader()),
                Optional.ofNullable(view.facts()).map(StatusReport::session),
                since(view.lastCheckAt(), now),
                since(loop.acquisition().lastAttemptAt(), now),
                Optional.ofNullable(
                                problem(standing, role, view, loop.acquisition().problem()))
                        .map(problem -> new LeaderStatus.Problem(
                                problem.kind(),
                                Optional.ofNullable(problem.fault()),
                                problem.message(),
                                Duration.ofNanos(now - problem.since()))));
    }

    private static LeaderStatus.Role role(Candidate.Standing standing, boolean isStarted) {
        if (standing.role() == LeaderStatus.Role.LEADER && !standing.lease().isValid()) {
            return LeaderStatus.Role.REVOKING;
        }
        // Between its start and the next turn of the election thread.
        return standing.role() == LeaderStatus.Role.STOPPED && isStarted ? LeaderStatus.Role.FOLLOWER : standing.role();
    }

    private static @Nullable Problem problem(
            Candidate.Standing standing,
            LeaderStatus.Role role,
            SessionKeeper.View view,
            @Nullable Problem capacityProblem) {
        if (view.problem() != null) {
            return view.problem();
        }
        if (capacityProblem != null && role == LeaderStatus.Role.FOLLOWER) {
            return capacityProblem;
        }
        return standing.problem();
    }

    private static LeaderStatus.Session session(LockSession.Facts facts) {
        return new LeaderStatus.Session(
                facts.backendPid(),
                facts.database(),
                facts.serverAddress(),
                facts.serverVersion(),
                facts.leaseEnforced());
    }

    private static Optional<Duration> since(@Nullable Long at, long now) {
        return Optional.ofNullable(at).map(begun -> Duration.ofNanos(now - begun));
    }
}
