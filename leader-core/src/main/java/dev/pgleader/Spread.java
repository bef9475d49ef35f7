package dev.pgleader;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How the leaderships of a {@link LeaderElectorGroup} settle evenly over its instances: the more keys an instance leads, the
 * longer it lets others go first.
 *
 * <p>An instance that holds {@code n} of the group's {@code k} keys tries a key that it found free when it has been free for
 * {@code n / k * time}. So a key goes to the instance that leads least, and an instance that is alone leads all keys after
 * {@code time}. That's also the price: a failover takes up to {@code time} longer than without. All instances of a group
 * should use the same spread and the same keys. Immutable.
 */
public final class Spread {

    private final @Nullable Duration time;
    private final @Nullable Duration rebalanceInterval;

    private Spread(@Nullable Duration time, @Nullable Duration rebalanceInterval) {
        this.time = time;
        this.rebalanceInterval = rebalanceInterval;
    }

    /** An instance that is alone leads all keys after twice the {@link ElectorOptions#retryInterval()}. */
    public static Spread evenly() {
        return new Spread(null, null);
    }

    /**
     * An instance that is alone leads all keys after {@code time}.
     *
     * @throws IllegalArgumentException if the time is not between 1 ms and 1 day
     */
    public static Spread over(Duration time) {
        return new Spread(ElectorOptions.positive("time of the spread", time), null);
    }

    /**
     * Has an instance that leads more than its share resign half of the surplus in each interval, so that instances that joined
     * later get theirs; by default keys move only when their leader ends. The share is the number of keys by the number of
     * instances that compete for exactly the same keys as the same database role. An instance to which a key comes back, since
     * nobody else wants it, doubles its interval.
     *
     * @throws IllegalArgumentException if the interval is not between 1 ms and 1 day
     */
    public Spread rebalanceEvery(Duration interval) {
        return new Spread(time, ElectorOptions.positive("rebalance interval", interval));
    }

    /** How long an instance that is alone takes until it leads all keys. */
    Duration time(ElectorOptions options) {
        return time == null ? options.retryInterval().multipliedBy(2) : time;
    }

    /** The time between two looks for surplus keys; null if there are none. */
    @Nullable
    Duration rebalanceInterval() {
        return rebalanceInterval;
    }

    @Override
    public String toString() {
        return "spread over " + (time == null ? "2 retry intervals" : time)
                + (rebalanceInterval == null ? "" : ", rebalanced every " + rebalanceInterval);
    }
}
