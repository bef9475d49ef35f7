package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import org.springframework.context.ApplicationEvent;

/** Something has become of this instance's leadership in an election: for listeners of both events. */
public abstract sealed class LeaderEvent extends ApplicationEvent permits LeaderElectedEvent, LeaderRevokedEvent {

    private static final long serialVersionUID = 1L;

    private final transient Leadership leadership;
    private final String election;

    LeaderEvent(LeaderElector elector, Leadership leadership) {
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
}
