package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/**
 * For how many locks the server seems to have room; unlimited until the server has refused some. From then on the election
 * approaches the limit from below, and stays about a tenth short of it, so that others have room, too. The problem may be read by
 * any thread; the rest is of the election thread.
 */
final class LockCapacity {

    private static final Log LOG = Log.of(LockCapacity.class);
    private static final int UNLIMITED = Integer.MAX_VALUE;

    private final String name;
    private final RandomGenerator random;
    private int limit = UNLIMITED;
    private volatile @Nullable Problem problem;

    LockCapacity(String name, RandomGenerator random) {
        this.name = name;
        this.random = random;
    }

    /** Why candidates get no lock though the session is good; null if there is room. */
    @Nullable
    Problem problem() {
        return problem;
    }

    /** As many of the keys as there may be room for, beginning anywhere, so that none is left out for ever. */
    List<LockKey> fitting(Collection<LockKey> keys, int held) {
        List<LockKey> fitting = new ArrayList<>(keys);
        int room = Math.max(0, limit - held);
        if (fitting.size() <= room) {
            return fitting;
        }
        Collections.rotate(fitting, random.nextInt(fitting.size()));
        return fitting.subList(0, room);
    }

    /** The server had no room for that many; returns whether half as many are worth a try at once. */
    boolean refused(int tried, int held, String message, long now) {
        if (problem == null) {
            LOG.warn("[{}] No room for more locks beside the {} held: {}", name, held, message);
            problem = new Problem(
                    LeaderStatus.Problem.Kind.LOCK_TABLE_FULL,
                    Fault.LOCK_TABLE_FULL,
                    "The server has no room for more locks beside the " + held
                            + " of this group: raise max_locks_per_transaction (" + message + ")",
                    now);
        }
        boolean farAbove = tried > growth(held);
        limit = farAbove ? held + tried / 2 : held + growth(held);
        return farAbove;
    }

    /** Whether the election holds as many as there seems to be room for; if so, some more may be tried later. */
    boolean isUsedUp(int held) {
        if (held < limit) {
            return false;
        }
        limit = held + growth(held);
        return true;
    }

    /** All locks that were tried had room. */
    void sufficed() {
        if (problem != null) {
            LOG.info("[{}] The server has room for all locks again", name);
        }
        reset();
    }

    /** Another session, perhaps on another server: nothing is known. */
    void reset() {
        problem = null;
        limit = UNLIMITED;
    }

    private static int growth(int held) {
        return Math.max(1, held / 10);
    }
}
