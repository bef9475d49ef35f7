package dev.pgleader;

/**
 * Is told when its instance becomes the leader and when it no longer is.
 *
 * <h2>Order</h2>
 *
 * The callbacks of one elector run one at a time. For each listener {@link #onElected} and {@link #onRevoked} strictly
 * alternate, beginning with {@code onElected}: for each {@code onElected} that was called, whether it returned or threw,
 * there is exactly one {@code onRevoked}, and none without. A term that ended before a listener's {@code onElected} began
 * isn't told to it at all. A listener added while the elector leads is told so.
 *
 * <p>Listeners hear of an election in the order in which they were added, and of its end in the reverse order, each after the one
 * before has returned. {@link Leadership#revoked()} tells of the end at once.
 *
 * <h2>State</h2>
 *
 * When {@code onRevoked} is called, {@link LeaderElector#isLeader()}, status, health and gauge say so already, to any thread.
 * When {@code onElected} is called they say that this instance leads, unless the term was lost in the meantime; then {@code
 * onRevoked} follows.
 *
 * <h2>Threads</h2>
 *
 * Callbacks run on the elector's callback executor, never on its election thread and never under a lock of the elector: a
 * slow callback doesn't delay a check, and every method of the elector may be called in a callback. Long work belongs in
 * {@link LeaderElector#runWhileLeader}: as long as a callback runs, the next one waits.
 *
 * <h2>Giving leadership up</h2>
 *
 * When the elector resigns, stops or closes, the lock stays taken until {@code onRevoked} of all listeners has returned, at
 * most {@link ElectorOptions#revokeTimeout()}: stop the leader's work in it. When leadership is lost, there is nothing to
 * wait for, but this process doesn't compete for the key again before {@code onRevoked} has returned.
 *
 * <h2>Failure</h2>
 *
 * Whatever a callback throws is logged and counted. If {@code onElected} throws, the elector steps down with {@link
 * RevocationReason#CALLBACK_FAILED}, so that another instance can lead, and waits longer each time before it tries again.
 */
public interface LeadershipListener {

    /** This instance is the leader. */
    void onElected(Leadership leadership) throws Exception;

    /** This instance is no longer the leader. */
    void onRevoked(Leadership leadership, RevocationReason reason) throws Exception;
}
