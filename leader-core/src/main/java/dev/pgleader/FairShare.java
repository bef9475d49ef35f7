package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import dev.pgleader.lock.LockSessionException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/**
 * One instance's part in a {@link Spread}: which of the free keys it may try now, and which key it resigns. Instances that compete
 * for the same keys count each other by a shared lock on a key made of those keys. Of the election thread; all times are readings
 * of the election's {@link Ticker}.
 */
final class FairShare {

    private static final int MOST_DOUBLINGS = 10;

    private final long timeNanos;
    private final @Nullable Duration rebalanceInterval;
    private final RandomGenerator random;

    private final Map<LockKey, Long> freeSince = new HashMap<>();
    private long nextRebalanceAt;
    private @Nullable LockKey joined;
    private Set<LockKey> lastSurplus = Set.of();
    private int doublings;

    FairShare(Spread spread, ElectorOptions options, RandomGenerator random, long now) {
        this.timeNanos = spread.time(options).toNanos();
        this.rebalanceInterval = spread.rebalanceInterval();
        this.random = random;
        this.nextRebalanceAt = rebalanceInterval == null ? now : now + rebalanceInterval.toNanos();
    }

    /** Takes note of the keys that are free now; returns those that weren't known to be. */
    List<LockKey> foundFree(Set<LockKey> free, long now) {
        freeSince.keySet().retainAll(free);
        List<LockKey> news = new ArrayList<>();
        for (LockKey key : free) {
            if (freeSince.putIfAbsent(key, now) == null) {
                news.add(key);
            }
        }
        return news;
    }

    /**
     * The key that tells the instances that compete for exactly these keys: another service in the same database, or an instance
     * with another set of keys, isn't counted.
     */
    static LockKey membersKey(Collection<LockKey> keys) {
        return LockKey.named("pgleader/members/"
                + keys.stream().map(LockKey::toString).sorted().toList());
    }

    /** Joins and leaves the count of members, so that this instance is in it exactly while it competes for {@code keys}. */
    void updateMembership(LockSession session, Collection<LockKey> keys, boolean competes) throws LockSessionException {
        LockKey wanted = rebalanceInterval == null || !competes ? null : membersKey(keys);
        if (Objects.equals(wanted, joined)) {
            return;
        }
        if (joined != null) {
            session.leave(joined);
            joined = null;
        }
        if (wanted != null) {
            session.join(wanted);
            joined = wanted;
        }
    }

    /** The session is a new one, which is counted nowhere yet. */
    void forget() {
        joined = null;
        freeSince.clear();
    }

    /** How many instances compete for the keys, this one among them. */
    int countMembers(LockSession session) throws LockSessionException {
        return joined == null ? 1 : session.countMembers(joined);
    }

    /**
     * The free keys that have been left to others for long enough.
     *
     * @param held how many keys this instance holds
     * @param total how many keys it competes for
     */
    List<LockKey> due(int held, int total, long now) {
        List<LockKey> free = shuffled(freeSince.keySet());
        List<LockKey> due = new ArrayList<>();
        for (LockKey key : free) {
            if (now - freeSince.getOrDefault(key, now) >= delay(held + due.size(), total)) {
                due.add(key);
            }
        }
        return due;
    }

    /** When the next of the free keys is due; null if there are none. */
    @Nullable
    Long nextDueAt(int held, int total) {
        long delay = delay(held, total);
        return freeSince.values().stream()
                .map(since -> since + delay)
                .reduce((a, b) -> a - b < 0 ? a : b)
                .orElse(null);
    }

    private long delay(int held, int total) {
        return (long) ((double) timeNanos * held / total);
    }

    /** Whether instances are to be counted, to find out whether this one leads more than its share. */
    boolean isRebalanceDue(long now) {
        return rebalanceInterval != null && now - nextRebalanceAt >= 0;
    }

    /**
     * The keys to give up now: half of those that this instance leads beyond its share among {@code members}. So a few intervals
     * settle all, and a count that is wrong for a moment costs few terms. If one comes back, the next look is later.
     */
    Set<LockKey> surplus(Set<LockKey> led, int total, int members, long now) {
        boolean cameBack = !Collections.disjoint(lastSurplus, led);
        doublings = cameBack ? Math.min(doublings + 1, MOST_DOUBLINGS) : 0;
        long interval = rebalanceInterval == null ? 0 : rebalanceInterval.toNanos();
        nextRebalanceAt = now + (interval << doublings);
        int instances = Math.max(1, members);
        int share = (total + instances - 1) / instances;
        int surplus = Math.max(0, led.size() - share);
        lastSurplus = Set.copyOf(shuffled(led).subList(0, (surplus + 1) / 2));
        return lastSurplus;
    }

    private List<LockKey> shuffled(Set<LockKey> keys) {
        List<LockKey> shuffled = new ArrayList<>(keys);
        for (int i = shuffled.size() - 1; i > 0; i--) {
            int j = random.nextInt(i + 1);
            LockKey swapped = shuffled.get(i);
            shuffled.set(i, shuffled.get(j));
            shuffled.set(j, swapped);
        }
        return shuffled;
    }
}
