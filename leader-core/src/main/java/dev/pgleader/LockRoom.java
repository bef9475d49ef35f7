package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.random.RandomGenerator;

/**
 * For how many locks the server seems to have room; it is unlimited until the server has refused some. Then the election
 * approaches from below what the server can hold, and stays about a tenth short of it, so that others have room, too. Of the
 * election thread.
 */
final class LockRoom {

    private static final int UNLIMITED = Integer.MAX_VALUE;

    private final RandomGenerator random;
    private int most = UNLIMITED;

    LockRoom(RandomGenerator random) {
        this.random = random;
    }

    /** As many of the keys as there may be room for, beginning anywhere, so that none is left out for ever. */
    List<LockKey> fitting(Collection<LockKey> keys, int held) {
        List<LockKey> fitting = new ArrayList<>(keys);
        int room = Math.max(0, most - held);
        if (fitting.size() <= room) {
            return fitting;
        }
        Collections.rotate(fitting, random.nextInt(fitting.size()));
        return fitting.subList(0, room);
    }

    /** There was no room for that many; returns whether it's worth to try half as many at once. */
    boolean refused(int tried, int held) {
        boolean far = tried > growth(held);
        most = far ? held + tried / 2 : held + growth(held);
        return far;
    }

    /** Whether it holds as many as there seems to be room for; if so, some more may be tried later. */
    boolean isUsedUp(int held) {
        if (held < most) {
            return false;
        }
        most = held + growth(held);
        return true;
    }

    void unlimited() {
        most = UNLIMITED;
    }

    private static int growth(int held) {
        return Math.max(1, held / 10);
    }
}
