package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;

/**
 * This instance has become the leader of an election. Published after all {@link dev.pgleader.LeadershipListener} beans were
 * told. What an event listener throws is logged, and keeps the event from the event listeners after it, but not this instance
 * from leading.
 */
public final class LeaderElectedEvent extends LeaderEvent {

    private static final long serialVersionUID = 1L;

    /** The event of a term that began. */
    public LeaderElectedEvent(LeaderElector elector, Leadership leadership) {
        super(elector, leadership);
    }

    @Override
    public String toString() {
        return "LeaderElectedEvent[" + election() + ", term " + term() + "]";
    }
}
