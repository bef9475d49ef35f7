package dev.pgleader;

import dev.pgleader.lock.LockSessionException.Fault;

/**
 * What keeps an election from its work: there is no session, or none that can be trusted, or none that can hold more locks.
 *
 * @param since a reading of the election's {@link Ticker}
 */
record Outage(Fault fault, String message, long since) {}
