package dev.pgleader;

import java.time.Instant;
import java.util.Optional;

/**
 * Who leads.
 *
 * @param instanceId the leader's {@linkplain LeaderElector.Builder#instanceId instance id}; what its session calls itself if
 *     it isn't one of this library
 * @param backendPid the server process that holds the lock for it
 * @param since when its term began, by its own wall clock; empty if it hasn't told
 */
public record LeaderInfo(String instanceId, int backendPid, Optional<Instant> since) {}
