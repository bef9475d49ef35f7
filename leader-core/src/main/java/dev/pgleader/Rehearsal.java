package dev.pgleader;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Plays one election through, in memory: a try in vain, a notice that the lock is free, a term, its orderly end. A JVM takes
 * several times as long for what it runs for the first time, and for the end of a term and the begin of the next one, that would
 * be while nobody leads.
 */
final class Rehearsal {

    private static final String NAME = "rehearsal";
    private static final AtomicBoolean BEGUN = new AtomicBoolean();

    private Rehearsal() {}

    /** Rehearses, the first time that it's called in this process. Nothing is logged of it, and nothing hangs on it. */
    static void once() {
        if (BEGUN.compareAndSet(false, true)) {
            try {
                Log.withoutLog(Rehearsal::play);
            } catch (Throwable e) {
                // Such as a lack of memory. Then the first hand-over takes longer.
            }
        }
    }

    /** Returns the candidate that has led. */
    static Candidate play() {
        ElectorOptions options =
                ElectorOptions.builder().takeoverDelay(TakeoverDelay.NONE).build();
        CommandQueue commands = new CommandQueue();
        Surroundings surroundings =
                new Surroundings(settings -> new Stage(), Ticker.SYSTEM, new SplittableRandom(), Backoff.of(options));
        ElectionLoop loop = new ElectionLoop(NAME, NAME, options, null, surroundings, commands);
        Candidate candidate = new Candidate(NAME, Stage.KEY, Runnable::run, null, commands::wake);
        candidate.dispatcher.add(new Extra());
        CandidateRun run = new CandidateRun();
        commands.post(() -> loop.admit(candidate, run, false));
        loop.step();
        loop.await(0);
        loop.step();
        candidate.stop(run);
        new ElectionRequests(loop, commands).signal(candidate, new CandidateState.Close(0));
        loop.step();
        closeOneThatNeverStarted();
        return candidate;
    }

    /** What the thread that calls {@link LeaderElector#close()} does, while the election thread ends the term. */
    private static void closeOneThatNeverStarted() {
        LeaderElectorGroup group = LeaderElectorGroup.builder()
                .sessions(settings -> new Stage())
                .name(NAME)
                .build();
        group.elector(Stage.KEY).build().close();
    }

    private static final class Extra implements LeadershipListener {

        @Override
        public void onElected(Leadership leadership) {}

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {}
    }

    /** A session without a server. Somebody else has the lock at the first try, and then says that it is free. */
    private static final class Stage implements LockSession {

        static final LockKey KEY = LockKey.of(0);

        private final Set<LockKey> held = new HashSet<>();
        private boolean free;

        @Override
        public Facts facts() {
            return new Facts(0, "", "", "", new ServerRun("", "", 0), Duration.ZERO, true);
        }

        @Override
        public Attempt attempt(Collection<LockKey> keys) {
            if (!free) {
                return new Attempt(Set.of(), Map.of(KEY, new Holder(1, "")));
            }
            held.addAll(keys);
            return new Attempt(Set.copyOf(keys), Map.of());
        }

        @Override
        public boolean waitInQueue(LockKey key, Duration longest) {
            return false;
        }

        @Override
        public Map<LockKey, Holder> findHolders(Collection<LockKey> keys) {
            return Map.of();
        }

        @Override
        public boolean join(LockKey group) {
            return true;
        }

        @Override
        public void leave(LockKey group) {}

        @Override
        public int countMembers(LockKey group) {
            return 1;
        }

        @Override
        public Set<LockKey> check() {
            return Set.copyOf(held);
        }

        @Override
        public void release(Collection<LockKey> keys) {
            held.removeAll(keys);
        }

        @Override
        public boolean tell(List<String> notifications) {
            return true;
        }

        @Override
        public Set<Integer> findCommanders(Collection<Integer> backendPids) {
            return Set.of();
        }

        @Override
        public List<Notification> awaitNotifications(long maxNanos) {
            free = true;
            return List.of(new Notification(1, new Notice.Released(KEY).toString()));
        }

        @Override
        public void wake() {}

        @Override
        public void close() {}

        @Override
        public void abort() {}
    }
}
