package dev.pgleader;

import dev.pgleader.lock.LockSessionException.Fault;
import org.jspecify.annotations.Nullable;

/**
 * What keeps an election from its work.
 *
 * @param fault what the session or the server did; null if it's neither
 * @param since a reading of the election's {@link Ticker}
 */
record Problem(LeaderStatus.Problem.Kind kind, @Nullable Fault fault, String message, long since) {}
