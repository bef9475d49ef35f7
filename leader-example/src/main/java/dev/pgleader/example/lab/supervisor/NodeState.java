package dev.pgleader.example.lab.supervisor;

/** What a node's lane shows. */
public enum NodeState {
    /** Its JVM starts. */
    STARTING,
    /** It has no session on the server. */
    CONNECTING,
    /** It's a candidate that doesn't hold the lock. */
    FOLLOWER,
    /** It holds the lock and doesn't lead yet. */
    TAKING_OVER,
    /** It leads. */
    LEADER,
    /** Its process is stopped. */
    PAUSED,
    /** Its process is stopped, and its packets are swallowed, as those of a machine that is suspended. */
    SUSPENDED,
    /** Its packets are swallowed in both directions. */
    CUT_OFF,
    /** It has no process. */
    DEAD
}
