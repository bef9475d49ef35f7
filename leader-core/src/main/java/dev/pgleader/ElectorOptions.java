package dev.pgleader;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * How an elector behaves. Immutable; {@link Builder#build()} refuses values that contradict each other and says why.
 *
 * <p>All instances that compete for a key should use the same {@link #leaseDuration()}: a candidate's {@linkplain
 * TakeoverDelay takeover delay} is measured by its own.
 */
public final class ElectorOptions {

    /** 15 s. */
    public static final Duration DEFAULT_LEASE_DURATION = Duration.ofSeconds(15);

    /** 3 s. */
    public static final Duration DEFAULT_HEALTH_CHECK_INTERVAL = Duration.ofSeconds(3);

    /** 3 s. */
    public static final Duration DEFAULT_HEALTH_CHECK_TIMEOUT = Duration.ofSeconds(3);

    /** 1 s. */
    public static final Duration DEFAULT_RETRY_INTERVAL = Duration.ofSeconds(1);

    /** 0.2, that is 20 % in either direction. */
    public static final double DEFAULT_RETRY_JITTER = 0.2;

    /** 5 s, or the retry interval if that is more. */
    public static final Duration DEFAULT_MAX_RECONNECT_DELAY = Duration.ofSeconds(5);

    /** 2 s, or a quarter of the lease if that is less. */
    public static final Duration DEFAULT_QUEUE_SLICE = Duration.ofSeconds(2);

    /** 15 s: with what else {@link LeaderElector#close()} may take, less than the 30 s that Kubernetes waits. */
    public static final Duration DEFAULT_REVOKE_TIMEOUT = Duration.ofSeconds(15);

    /** The least that a {@linkplain #safetyMargin() safety margin} is by default: 500 ms. */
    public static final Duration DEFAULT_MIN_SAFETY_MARGIN = Duration.ofMillis(500);

    static final Duration LONGEST = Duration.ofDays(1);

    private static final Duration SHORTEST = Duration.ofMillis(1);

    private final Duration leaseDuration;
    private final @Nullable Duration safetyMargin;
    private final Duration healthCheckInterval;
    private final Duration healthCheckTimeout;
    private final Duration retryInterval;
    private final double retryJitter;
    private final AcquisitionMode acquisitionMode;
    private final @Nullable Duration queueSlice;
    private final @Nullable Duration maxReconnectDelay;
    private final Duration revokeTimeout;
    private final @Nullable Duration coolDown;
    private final TakeoverDelay takeoverDelay;
    private final boolean unenforcedLeaseAccepted;
    private final boolean remoteResignation;

    private ElectorOptions(Builder builder) {
        leaseDuration = positive("leaseDuration", builder.leaseDuration);
        healthCheckInterval = positive("healthCheckInterval", builder.healthCheckInterval);
        healthCheckTimeout = positive("healthCheckTimeout", builder.healthCheckTimeout);
        retryInterval = positive("retryInterval", builder.retryInterval);
        maxReconnectDelay = positiveIfSet("maxReconnectDelay", builder.maxReconnectDelay);
        revokeTimeout = positive("revokeTimeout", builder.revokeTimeout);
        coolDown = positiveIfSet("coolDown", builder.coolDown);
        safetyMargin = positiveIfSet("safetyMargin", builder.safetyMargin);
        retryJitter = builder.retryJitter;
        acquisitionMode = builder.acquisitionMode;
        queueSlice = positiveIfSet("queueSlice", builder.queueSlice);
        takeoverDelay = builder.takeoverDelay;
        unenforcedLeaseAccepted = builder.unenforcedLeaseAccepted;
        remoteResignation = builder.remoteResignation;
        if (!(retryJitter >= 0 && retryJitter < 1)) {
            throw new IllegalArgumentException("retryJitter must be at least 0 and less than 1, but is " + retryJitter);
        }
        if (maxReconnectDelay().compareTo(retryInterval) < 0) {
            throw new IllegalArgumentException("maxReconnectDelay (" + millis(maxReconnectDelay())
                    + ") must not be less than retryInterval (" + millis(retryInterval) + ")");
        }
        if (queueSlice().compareTo(leaseDuration.dividedBy(2)) > 0) {
            throw new IllegalArgumentException("queueSlice (" + millis(queueSlice())
                    + ") must not be more than half the leaseDuration (" + millis(leaseDuration)
                    + "): the server ends a statement that takes as long as the lease");
        }
        Duration slowestCheck = healthCheckInterval.plus(healthCheckTimeout);
        if (slowestCheck.compareTo(trustWindow()) >= 0) {
            throw new IllegalArgumentException(
                    "The lease is too short for its checks, so a leader would lose it while the server answers in time: healthCheckInterval ("
                            + millis(healthCheckInterval) + ") + healthCheckTimeout (" + millis(healthCheckTimeout)
                            + ") must be less than the trust window, which is leaseDuration (" + millis(leaseDuration)
                            + ") - safetyMargin (" + millis(safetyMargin()) + ") = " + millis(trustWindow()));
        }
    }

    /** The defaults. */
    public static ElectorOptions defaults() {
        return builder().build();
    }

    /** A builder that starts from the defaults. */
    public static Builder builder() {
        return new Builder();
    }

    /** A builder that starts from these options; what was left to its default stays so. */
    public Builder toBuilder() {
        Builder builder = new Builder();
        builder.leaseDuration = leaseDuration;
        builder.safetyMargin = safetyMargin;
        builder.healthCheckInterval = healthCheckInterval;
        builder.healthCheckTimeout = healthCheckTimeout;
        builder.retryInterval = retryInterval;
        builder.retryJitter = retryJitter;
        builder.acquisitionMode = acquisitionMode;
        builder.queueSlice = queueSlice;
        builder.maxReconnectDelay = maxReconnectDelay;
        builder.revokeTimeout = revokeTimeout;
        builder.coolDown = coolDown;
        builder.takeoverDelay = takeoverDelay;
        builder.unenforcedLeaseAccepted = unenforcedLeaseAccepted;
        builder.remoteResignation = remoteResignation;
        return builder;
    }

    /** After this time without a check the server ends the leader's session, which frees the lock. */
    public Duration leaseDuration() {
        return leaseDuration;
    }

    /**
     * By how much a leader stops trusting itself before the server can give the lock away. It absorbs the difference in rate
     * between the two machines' clocks. By default a tenth of the lease, at least {@link #DEFAULT_MIN_SAFETY_MARGIN}.
     */
    public Duration safetyMargin() {
        return safetyMargin == null ? max(leaseDuration.dividedBy(10), DEFAULT_MIN_SAFETY_MARGIN) : safetyMargin;
    }

    /** {@code leaseDuration - safetyMargin}: how long a leader trusts itself from the start of its last good check. */
    public Duration trustWindow() {
        return leaseDuration.minus(safetyMargin());
    }

    /** The time between two checks of the session that holds the lock. */
    public Duration healthCheckInterval() {
        return healthCheckInterval;
    }

    /** The bound of each round trip to the server, and of the connect. */
    public Duration healthCheckTimeout() {
        return healthCheckTimeout;
    }

    /** The time between two tries of a candidate, give or take {@link #retryJitter()}. */
    public Duration retryInterval() {
        return retryInterval;
    }

    /** The fraction by which the retry interval varies at random, in either direction. */
    public double retryJitter() {
        return retryJitter;
    }

    /** How a candidate comes by the lock. */
    public AcquisitionMode acquisitionMode() {
        return acquisitionMode;
    }

    /**
     * The longest time for which a candidate waits inside the server in {@link AcquisitionMode#QUEUE}. By default 2 s, or a
     * quarter of the lease if that is less.
     */
    public Duration queueSlice() {
        return queueSlice == null ? min(leaseDuration.dividedBy(4), DEFAULT_QUEUE_SLICE) : queueSlice;
    }

    /**
     * The longest time between two attempts to connect. While the server can't be reached, there's one in each retry interval; the
     * delay grows up to this one while the server answers with something that a person has to mend, such as a wrong password. By
     * default 5 s, or the retry interval if that is more.
     */
    public Duration maxReconnectDelay() {
        return maxReconnectDelay == null ? max(retryInterval, DEFAULT_MAX_RECONNECT_DELAY) : maxReconnectDelay;
    }

    /** The longest time that a voluntary exit waits for {@code onRevoked} before the lock is released anyway. */
    public Duration revokeTimeout() {
        return revokeTimeout;
    }

    /** How long an instance that resigned lets others go first. By default twice the retry interval. */
    public Duration coolDown() {
        return coolDown == null ? retryInterval.multipliedBy(2) : coolDown;
    }

    /** How long a new leader waits after the server restarted or failed over. */
    public TakeoverDelay takeoverDelay() {
        return takeoverDelay;
    }

    /**
     * Whether to lead on a server that refuses {@code idle_session_timeout}. There a leader that vanishes without a word
     * keeps the lock until TCP gives up, about two hours by default.
     */
    public boolean unenforcedLeaseAccepted() {
        return unenforcedLeaseAccepted;
    }

    /**
     * Whether an instance that leads resigns when another session asks for it, by {@link LeaderElector#requestResignation()} or in SQL.
     * A request counts only if it comes from a session of the same database role, or of a superuser. By default true.
     */
    public boolean remoteResignation() {
        return remoteResignation;
    }

    /**
     * How long {@link LeaderElector#close()} and {@link LeaderElector#stop()} wait at the most: {@link #revokeTimeout()} and three
     * times {@link #healthCheckTimeout()}, by default 24 s.
     */
    public Duration closeTimeout() {
        return revokeTimeout.plus(healthCheckTimeout.multipliedBy(3));
    }

    /** All options in one line, with the values in effect. */
    @Override
    public String toString() {
        return "leaseDuration=" + millis(leaseDuration) + " safetyMargin=" + millis(safetyMargin()) + " trustWindow="
                + millis(trustWindow()) + " healthCheckInterval=" + millis(healthCheckInterval) + " healthCheckTimeout="
                + millis(healthCheckTimeout) + " retryInterval=" + millis(retryInterval) + " retryJitter=" + retryJitter
                + " acquisitionMode=" + acquisitionMode + " queueSlice=" + millis(queueSlice()) + " maxReconnectDelay="
                + millis(maxReconnectDelay()) + " revokeTimeout=" + millis(revokeTimeout)
                + " coolDown=" + millis(coolDown()) + " takeoverDelay=" + takeoverDelay + " unenforcedLeaseAccepted="
                + unenforcedLeaseAccepted + " remoteResignation=" + remoteResignation;
    }

    static Duration positive(String name, Duration value) {
        if (value.compareTo(SHORTEST) < 0 || value.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(name + " must be at least 1 ms and at most 1 day, but is " + value);
        }
        return value;
    }

    private static @Nullable Duration positiveIfSet(String name, @Nullable Duration value) {
        return value == null ? null : positive(name, value);
    }

    private static Duration max(Duration a, Duration b) {
        return a.compareTo(b) >= 0 ? a : b;
    }

    private static Duration min(Duration a, Duration b) {
        return a.compareTo(b) <= 0 ? a : b;
    }

    private static String millis(Duration duration) {
        return duration.toMillis() + "ms";
    }

    /** Collects options. Not thread-safe. */
    public static final class Builder {

        private Duration leaseDuration = DEFAULT_LEASE_DURATION;
        private @Nullable Duration safetyMargin;
        private Duration healthCheckInterval = DEFAULT_HEALTH_CHECK_INTERVAL;
        private Duration healthCheckTimeout = DEFAULT_HEALTH_CHECK_TIMEOUT;
        private Duration retryInterval = DEFAULT_RETRY_INTERVAL;
        private double retryJitter = DEFAULT_RETRY_JITTER;
        private AcquisitionMode acquisitionMode = AcquisitionMode.POLL;
        private @Nullable Duration queueSlice;
        private @Nullable Duration maxReconnectDelay;
        private Duration revokeTimeout = DEFAULT_REVOKE_TIMEOUT;
        private @Nullable Duration coolDown;
        private TakeoverDelay takeoverDelay = TakeoverDelay.AUTO;
        private boolean unenforcedLeaseAccepted;
        private boolean remoteResignation = true;

        private Builder() {}

        /** Sets {@link ElectorOptions#leaseDuration()}. */
        public Builder leaseDuration(Duration value) {
            leaseDuration = value;
            return this;
        }

        /** Sets {@link ElectorOptions#safetyMargin()}. */
        public Builder safetyMargin(Duration value) {
            safetyMargin = value;
            return this;
        }

        /** Sets {@link ElectorOptions#healthCheckInterval()}. */
        public Builder healthCheckInterval(Duration value) {
            healthCheckInterval = value;
            return this;
        }

        /** Sets {@link ElectorOptions#healthCheckTimeout()}. */
        public Builder healthCheckTimeout(Duration value) {
            healthCheckTimeout = value;
            return this;
        }

        /** Sets {@link ElectorOptions#retryInterval()}. */
        public Builder retryInterval(Duration value) {
            retryInterval = value;
            return this;
        }

        /** Sets {@link ElectorOptions#retryJitter()}. */
        public Builder retryJitter(double value) {
            retryJitter = value;
            return this;
        }

        /** Sets {@link ElectorOptions#acquisitionMode()}. */
        public Builder acquisitionMode(AcquisitionMode value) {
            acquisitionMode = value;
            return this;
        }

        /** Sets {@link ElectorOptions#queueSlice()}. */
        public Builder queueSlice(Duration value) {
            queueSlice = value;
            return this;
        }

        /** Sets {@link ElectorOptions#maxReconnectDelay()}. */
        public Builder maxReconnectDelay(Duration value) {
            maxReconnectDelay = value;
            return this;
        }

        /** Sets {@link ElectorOptions#revokeTimeout()}. */
        public Builder revokeTimeout(Duration value) {
            revokeTimeout = value;
            return this;
        }

        /** Sets {@link ElectorOptions#coolDown()}. */
        public Builder coolDown(Duration value) {
            coolDown = value;
            return this;
        }

        /** Sets {@link ElectorOptions#takeoverDelay()}. */
        public Builder takeoverDelay(TakeoverDelay value) {
            takeoverDelay = value;
            return this;
        }

        /** Sets {@link ElectorOptions#unenforcedLeaseAccepted()}. */
        public Builder unenforcedLeaseAccepted(boolean value) {
            unenforcedLeaseAccepted = value;
            return this;
        }

        /** Sets {@link ElectorOptions#remoteResignation()}. */
        public Builder remoteResignation(boolean value) {
            remoteResignation = value;
            return this;
        }

        /**
         * The options.
         *
         * @throws IllegalArgumentException if a value is out of range or contradicts another; the message has the numbers
         */
        public ElectorOptions build() {
            return new ElectorOptions(this);
        }
    }
}
