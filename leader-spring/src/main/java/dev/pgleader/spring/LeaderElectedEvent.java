package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import org.springframework.context.ApplicationEvent;

/**
 * This instance has become the leader of an election. Published after all {@link dev.pgleader.LeadershipListener} beans were
 * told. What an event listener throws is logged, and keeps the event from the event listeners after it, but not this instance
 * from leading.
 */
public final class LeaderElectedEvent extends ApplicationEvent {

    private static final long serialVersionUID = 1L;

    private final transient Leadership leadership;
    private final String election;

    /** The event of a term that began. */
    public LeaderElectedEvent(LeaderElector elector, Leadership leadership) {
        super(elector);
        this.election = elector.name();
        this.leadership = leadership;
    }

    /** The name of the election. */
    public String election() {
        return election;
    }

    /** The number of the term among those of this instance. */
    public long term() {
        return leadership.term();
    }

    /** The term. */
    public Leadership leadership() {
        return leadership;
    }

    @Override
    public String toString() {
        return "LeaderElectedEvent[" + election + ", term " + term() + "]";
    }
}
