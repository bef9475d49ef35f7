package dev.pgleader;

import dev.pgleader.lock.LockKey;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** The candidates that take part in an election, in the order in which they came. Of the election thread. */
final class Candidates {

    private final Map<LockKey, Candidate> byKey = new LinkedHashMap<>();
    /** Those that take no part any more, but whose last callbacks may still wait for a thread. */
    private final List<Candidate> departed = new ArrayList<>();

    void add(Candidate candidate) {
        byKey.put(candidate.key, candidate);
    }

    void remove(Candidate candidate) {
        departed.add(candidate);
        byKey.remove(candidate.key, candidate);
    }

    /** Whether nobody takes part. */
    boolean isEmpty() {
        return byKey.isEmpty();
    }

    /** Whether nobody takes part, and all callbacks of those who did have found a thread. */
    boolean isDeserted() {
        return byKey.isEmpty() && departed.isEmpty();
    }

    int size() {
        return byKey.size();
    }

    Collection<LockKey> keys() {
        return byKey.keySet();
    }

    Candidate require(LockKey key) {
        Candidate candidate = byKey.get(key);
        if (candidate == null) {
            throw new IllegalStateException("The server speaks of " + key + ", which nobody wants");
        }
        return candidate;
    }

    /** All of them; a copy. */
    List<Candidate> all() {
        return List.copyOf(byKey.values());
    }

    List<Candidate> that(Predicate<Candidate> condition) {
        return byKey.values().stream().filter(condition).toList();
    }

    List<LockKey> keysOf(Predicate<Candidate> condition) {
        List<LockKey> keys = new ArrayList<>();
        byKey.forEach((key, candidate) -> {
            if (condition.test(candidate)) {
                keys.add(key);
            }
        });
        return keys;
    }

    /** How many hold their lock. */
    int countHeld() {
        return keysOf(candidate -> candidate.state().holdsLock()).size();
    }

    void tellObservers(Consumer<ElectionObserver> event) {
        byKey.values().forEach(candidate -> candidate.observers.tell(event));
    }

    /** For how long nothing is due for any of them by time alone; {@code longest} at the most. */
    long untilDueNanos(long now, long longest) {
        long wait = longest;
        for (Candidate candidate : byKey.values()) {
            Long dueAt = candidate.state().dueAt();
            if (dueAt != null && dueAt - now > 0) {
                wait = Math.min(wait, dueAt - now);
            }
            if (candidate.state().leads()) {
                wait = Math.min(wait, candidate.standing().lease().remainingNanos());
            }
        }
        return wait;
    }

    /**
     * Tries callbacks again that no thread could be had for, and shows which callbacks are overdue.
     *
     * @param patienceNanos how long callbacks may take before that counts as a problem
     * @return for how long nothing of that kind is due
     */
    long attendToCallbacks(long now, long patienceNanos, long retryNanos) {
        long wait = Long.MAX_VALUE;
        for (Candidate candidate : byKey.values()) {
            boolean noThread = !candidate.retryCallbacks();
            candidate.showProblem(now, patienceNanos, noThread);
            wait = noThread ? Math.min(wait, retryNanos) : wait;
            wait = candidate.state().isEndingTerm() ? Math.min(wait, patienceNanos) : wait;
        }
        departed.removeIf(Candidate::retryCallbacks);
        return departed.isEmpty() ? wait : Math.min(wait, retryNanos);
    }
}
