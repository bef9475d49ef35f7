package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Collects what every elector needs, whether it has a connection of its own ({@link LeaderElector#builder()}) or shares one ({@link
 * LeaderElectorGroup#elector}). Not thread-safe.
 *
 * @param <B> the builder itself
 */
public abstract sealed class ElectorBuilder<B extends ElectorBuilder<B>>
        permits LeaderElector.Builder, LeaderElectorGroup.MemberBuilder {

    private @Nullable LockKey key;
    private @Nullable String name;
    private boolean paused;
    private @Nullable BooleanSupplier campaignCondition;
    private final List<LeadershipListener> listeners = new ArrayList<>();
    private final List<ElectionObserver> observers = new ArrayList<>();

    ElectorBuilder() {}

    abstract B self();

    /** The group that the elector belongs to. */
    abstract LeaderElectorGroup group(String electorName);

    /** What to compete for, by {@linkplain LockKey#named(String) name}. Required, or {@link #key(LockKey)}. */
    public B key(String lockName) {
        return key(LockKey.named(lockName));
    }

    /** What to compete for. */
    public B key(LockKey value) {
        key = value;
        return self();
    }

    /**
     * What the elector is called in logs and metrics; by default the name of the key.
     *
     * @throws IllegalArgumentException if the name is blank
     */
    public B name(String value) {
        if (value.isBlank()) {
            throw new IllegalArgumentException("The name of an elector must not be blank, but is \"" + value + "\"");
        }
        name = value;
        return self();
    }

    /** Adds a listener. */
    public B listener(LeadershipListener value) {
        listeners.add(Objects.requireNonNull(value, "listener"));
        return self();
    }

    /** Adds an observer. */
    public B observer(ElectionObserver value) {
        observers.add(Objects.requireNonNull(value, "observer"));
        return self();
    }

    /**
     * Has this instance compete only while the condition holds, such as that its caches are warm. It's asked anew for each
     * campaign, on the callback executor, about once a {@link ElectorOptions#retryInterval()} until the lock is taken; if it throws,
     * it doesn't hold. A leader isn't asked: to give leadership up, {@link LeaderElector#resign()}.
     */
    public B campaignCondition(BooleanSupplier condition) {
        campaignCondition = condition;
        return self();
    }

    /** Whether the elector doesn't compete before {@link LeaderElector#resume()}. */
    public B paused(boolean value) {
        paused = value;
        return self();
    }

    /**
     * The elector; it does nothing before {@link LeaderElector#start()}.
     *
     * @throws IllegalStateException if connection source or key is missing, or the group is closed
     * @throws IllegalArgumentException if the group has an elector with this key or name already
     */
    public LeaderElector build() {
        if (key == null) {
            throw new IllegalStateException(
                    "key(...) is missing: name what the instances compete for, such as \"billing/nightly-run\"");
        }
        String electorName = name == null ? key.name().orElseGet(key::toString) : name;
        LeaderElectorGroup group = group(electorName);
        LeaderElector elector = new LeaderElector(this, group, electorName, key);
        group.add(elector);
        return elector;
    }

    List<LeadershipListener> listeners() {
        return listeners;
    }

    List<ElectionObserver> observers() {
        return observers;
    }

    @Nullable
    BooleanSupplier campaignCondition() {
        return campaignCondition;
    }

    boolean isPaused() {
        return paused;
    }
}
