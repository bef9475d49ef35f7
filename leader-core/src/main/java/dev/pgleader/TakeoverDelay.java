package dev.pgleader;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How long a candidate that got the lock holds it before it acts as leader.
 *
 * <p>A server that restarts, or a standby that is promoted, gives the lock away without waiting for the lease of the former
 * leader, which may be cut off and believe in its lease a little longer. Immutable.
 */
public final class TakeoverDelay {

    /**
     * Waits until a full lease has passed since the server started, or since this process saw it to be another one than
     * before (a promotion). Doesn't wait otherwise. The default.
     */
    public static final TakeoverDelay AUTO = new TakeoverDelay("AUTO", null);

    /** Never waits. */
    public static final TakeoverDelay NONE = new TakeoverDelay("NONE", Duration.ZERO);

    private static final Duration LONGEST = Duration.ofDays(1);

    private final String name;
    private final @Nullable Duration fixed;

    private TakeoverDelay(String name, @Nullable Duration fixed) {
        this.name = name;
        this.fixed = fixed;
    }

    /**
     * Waits this long each time, and as long as {@link #AUTO} would if that is longer. A full lease also covers an operator
     * who ends the session of a leader that is cut off. The price is that a planned change of leader takes as long.
     *
     * @throws IllegalArgumentException if the delay is negative or longer than a day
     */
    public static TakeoverDelay of(Duration delay) {
        if (delay.isNegative() || delay.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException("takeoverDelay must be between 0 and 1 day, but is " + delay);
        }
        return new TakeoverDelay(delay.toString(), delay);
    }

    /** The fixed time; null for {@link #AUTO}. */
    @Nullable
    Duration fixed() {
        return fixed;
    }

    @Override
    public String toString() {
        return name;
    }
}
