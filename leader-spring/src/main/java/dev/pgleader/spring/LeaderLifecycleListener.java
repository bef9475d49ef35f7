package dev.pgleader.spring;

import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.Lifecycle;
import org.springframework.context.Phased;

/**
 * Starts what has a {@link Lifecycle} when this instance is elected, and stops it when leadership is revoked. What doesn't
 * start has the instance step down.
 */
public final class LeaderLifecycleListener implements LeadershipListener {

    private static final Logger LOG = LoggerFactory.getLogger(LeaderLifecycleListener.class);

    private final List<Lifecycle> startOrder;

    /** A listener for these, which start in the order of their phases. */
    public LeaderLifecycleListener(List<? extends Lifecycle> lifecycles) {
        List<Lifecycle> sorted = new ArrayList<>(lifecycles);
        sorted.sort(Comparator.comparingInt(LeaderLifecycleListener::phaseOf));
        this.startOrder = List.copyOf(sorted);
    }

    private static int phaseOf(Lifecycle lifecycle) {
        return lifecycle instanceof Phased phased ? phased.getPhase() : 0;
    }

    @Override
    public void onElected(Leadership leadership) {
        for (Lifecycle lifecycle : startOrder) {
            if (!lifecycle.isRunning()) {
                lifecycle.start();
            }
        }
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {
        stop();
    }

    /** Stops whatever runs. */
    void stop() {
        List<Lifecycle> stopOrder = new ArrayList<>(startOrder);
        Collections.reverse(stopOrder);
        for (Lifecycle lifecycle : stopOrder) {
            try {
                if (lifecycle.isRunning()) {
                    lifecycle.stop();
                }
            } catch (RuntimeException e) {
                // The others must not go on because of it.
                LOG.error("{} didn't stop, though this instance no longer leads", lifecycle, e);
            }
        }
    }

    @Override
    public String toString() {
        return "leader-only " + startOrder;
    }
}
