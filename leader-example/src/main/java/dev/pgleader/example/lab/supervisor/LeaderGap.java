package dev.pgleader.example.lab.supervisor;

import dev.pgleader.example.lab.supervisor.LabEvent.FailedOver;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Measures for how long nobody led. A leader acts from its election until it says that it lost, or its process is killed or
 * stopped: what is stopped does no work, whatever it believes.
 *
 * <p>Not thread-safe.
 */
final class LeaderGap {

    private record Loss(long atMillis, String node, long term) {}

    private final Map<String, Long> termsByActingNode = new HashMap<>();
    private final Map<String, String> lastFaults = new HashMap<>();
    private @Nullable Loss loss;

    /** Something was done to a node, which may be why it ceases to lead. */
    void faulted(String node, String cause) {
        lastFaults.put(node, cause);
    }

    void ceased(long atMillis, String node) {
        Long term = termsByActingNode.remove(node);
        if (term != null && termsByActingNode.isEmpty()) {
            loss = new Loss(atMillis, node, term);
        }
    }

    /** The failover that this completes; empty for the first leader, and for one that goes on with its term. */
    Optional<FailedOver> acts(long atMillis, String node, long term) {
        termsByActingNode.put(node, term);
        Loss before = loss;
        loss = null;
        if (before == null || before.equals(new Loss(before.atMillis(), node, term))) {
            return Optional.empty();
        }
        String cause = Optional.ofNullable(lastFaults.remove(before.node())).orElse("no fault of the lab");
        return Optional.of(new FailedOver(
                before.node(), node, cause, before.atMillis(), Math.max(0, atMillis - before.atMillis())));
    }

    Set<String> actingNodes() {
        return new HashSet<>(termsByActingNode.keySet());
    }
}
