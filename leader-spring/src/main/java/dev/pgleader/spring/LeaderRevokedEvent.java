package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.RevocationReason;

/**
 * This instance is no longer the leader of an election. Published before any {@link dev.pgleader.LeadershipListener} bean is
 * told; if leadership is given up in order, the lock is still held. What an event listener throws is logged, and keeps the
 * event from the event listeners after it.
 */
public final class LeaderRevokedEvent extends LeaderEvent {

    private static final long serialVersionUID = 1L;

    private final RevocationReason reason;

    /** The event of a term that ended. */
    public LeaderRevokedEvent(LeaderElector elector, Leadership leadership, RevocationReason reason) {
        super(elector, leadership);
        this.reason = reason;
    }

    /** Why the term ended. */
    public RevocationReason reason() {
        return reason;
    }

    @Override
    public String toString() {
        return "LeaderRevokedEvent[" + election() + ", term " + term() + ", " + reason + "]";
    }
}
