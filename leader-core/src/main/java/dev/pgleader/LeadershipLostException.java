package dev.pgleader;

/** Something was asked for that only a leader may do, by an instance that isn't the leader, or no longer. */
public final class LeadershipLostException extends IllegalStateException {

    private static final long serialVersionUID = 1L;

    LeadershipLostException(String message) {
        super(message);
    }
}
