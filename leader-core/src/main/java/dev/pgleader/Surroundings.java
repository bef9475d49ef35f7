package dev.pgleader;

import dev.pgleader.lock.LockSession;
import java.util.random.RandomGenerator;

/** What is outside of an election: the database, time and chance. */
record Surroundings(LockSession.Opener sessions, Ticker ticker, RandomGenerator random, Backoff backoff) {}
