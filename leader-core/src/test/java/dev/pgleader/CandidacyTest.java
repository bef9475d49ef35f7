package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.Candidacy.BeginTerm;
import dev.pgleader.Candidacy.Close;
import dev.pgleader.Candidacy.Closed;
import dev.pgleader.Candidacy.Drained;
import dev.pgleader.Candidacy.Draining;
import dev.pgleader.Candidacy.Effect;
import dev.pgleader.Candidacy.EndTerm;
import dev.pgleader.Candidacy.Follower;
import dev.pgleader.Candidacy.Leader;
import dev.pgleader.Candidacy.LockLost;
import dev.pgleader.Candidacy.LockTaken;
import dev.pgleader.Candidacy.Pause;
import dev.pgleader.Candidacy.Phase;
import dev.pgleader.Candidacy.Resigning;
import dev.pgleader.Candidacy.Resume;
import dev.pgleader.Candidacy.Signal;
import dev.pgleader.Candidacy.StartFailed;
import dev.pgleader.Candidacy.Started;
import dev.pgleader.Candidacy.StepDown;
import dev.pgleader.Candidacy.TakingOver;
import dev.pgleader.Candidacy.Tick;
import dev.pgleader.Candidacy.Times;
import dev.pgleader.Candidacy.Transition;
import dev.pgleader.Candidacy.Unlock;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CandidacyTest {

    /**
     * Every phase with every signal. A cell is what becomes of the candidacy, then what is to be done: {@code .} is nothing,
     * {@code !} is refused, {@code unlock} gives the lock back after a term, {@code free} without one, {@code fails} the failed starts in a row if they change, {@code term} the term if it changes.
     * The clock stands at 1000, the cool-down is 2, the revoke timeout 30; the candidacy has led 7 terms, the last of which
     * couldn't start.
     */
    @Nested
    class EveryPhaseWithEverySignal {

        private static final long NOW = 1000;
        private static final Times TIMES = new Times(2, 30);
        private static final long TERM = 7;
        private static final int FAILED_STARTS = 1;

        private static final Map<String, Candidacy> PHASES = phases();
        private static final Map<String, Signal> SIGNALS = signals();

        private static final String WITHOUT_A_TERM = """
                                | follower               | cooling               | taking over               | closed
                lock taken      | leader, term 8, begin  | leader, term 8, begin | !                         | !
                taken for later | taking over @1005      | taking over @1005     | !                         | !
                lock lost       | .                      | .                     | follower @1000            | .
                step down       | follower @1002         | .                     | follower @1002, free    | .
                start failed    | .                      | .                     | .                         | .
                old start failed| .                      | .                     | .                         | .
                started         | .                      | .                     | .                         | .
                old started     | .                      | .                     | .                         | .
                drained         | .                      | .                     | .                         | .
                old drained     | .                      | .                     | .                         | .
                pause           | paused follower @1000  | paused follower @1009 | paused follower @1000, free | paused closed
                resume          | .                      | .                     | .                         | .
                close           | closing closed         | closing closed        | closing closed, free    | closing closed
                tick            | .                      | .                     | .                         | .
                tick when due   | .                      | .                     | leader, term 8, begin     | .
                """;

        private static final String IN_OR_AFTER_A_TERM = """
                                | leader                        | resigning               | draining       | cooling draining
                lock taken      | !                             | !                       | !              | !
                taken for later | !                             | !                       | !              | !
                lock lost       | draining @1030, end LOCK_LOST | cooling draining @1020  | .              | .
                step down       | resigning @1030, end RESIGNED | .                       | .              | .
                start failed    | resigning @1030, fails 2, end CALLBACK_FAILED | .       | .              | .
                old start failed| .                             | .                       | .              | .
                started         | leader, fails 0               | .                       | .              | .
                old started     | .                             | .                       | .              | .
                drained         | .                             | follower @1002, unlock  | follower @1000 | follower @1002
                old drained     | .                             | .                       | .              | .
                pause           | paused resigning @1030, end RESIGNED | paused resigning @1020 | paused draining @1025 | paused cooling draining @1025
                resume          | .                             | .                       | .              | .
                close           | closing resigning @1030, end CLOSED | closing resigning @1020 | closing draining @1025 | closing cooling draining @1025
                tick            | .                             | .                       | .              | .
                tick when due   | .                             | cooling draining @1020, unlock | .       | .
                """;

        private static final String WHILE_PAUSED = """
                                | paused follower        | paused resigning               | paused draining
                lock taken      | paused leader, term 8, begin | !                        | !
                taken for later | paused taking over @1005 | !                            | !
                lock lost       | .                      | paused cooling draining @1020         | .
                step down       | paused follower @1002  | .                              | .
                start failed    | .                      | .                              | .
                old start failed| .                      | .                              | .
                started         | .                      | .                              | .
                old started     | .                      | .                              | .
                drained         | .                      | paused follower @1002, unlock  | paused follower @1000
                old drained     | .                      | .                              | .
                pause           | .                      | .                              | .
                resume          | follower @1000         | resigning @1020                | draining @1025
                close           | paused closing closed  | paused closing resigning @1020 | paused closing draining @1025
                tick            | .                      | .                              | .
                tick when due   | .                      | paused cooling draining @1020, unlock  | .
                """;

        private static final String WHILE_CLOSING = """
                                | closing resigning              | closing draining
                lock taken      | !                              | !
                taken for later | !                              | !
                lock lost       | closing cooling draining @1020         | .
                step down       | .                              | .
                start failed    | .                              | .
                old start failed| .                              | .
                started         | .                              | .
                old started     | .                              | .
                drained         | closing closed, unlock         | closing closed
                old drained     | .                              | .
                pause           | paused closing resigning @1020 | paused closing draining @1025
                resume          | .                              | .
                close           | .                              | .
                tick            | .                              | .
                tick when due   | closing closed, unlock         | closing closed
                """;

        private static Map<String, Candidacy> phases() {
            Map<String, Candidacy> phases = new LinkedHashMap<>();
            phases.put("follower", candidacy(new Follower(NOW), false, false));
            phases.put("cooling", candidacy(new Follower(1009), false, false));
            phases.put("taking over", candidacy(new TakingOver(1010), false, false));
            phases.put("leader", candidacy(new Leader(), false, false));
            phases.put("resigning", candidacy(new Resigning(1020), false, false));
            phases.put("draining", candidacy(new Draining(1025, false), false, false));
            phases.put("cooling draining", candidacy(new Draining(1025, true), false, false));
            phases.put("closed", candidacy(new Closed(), false, false));
            phases.put("paused follower", candidacy(new Follower(NOW), true, false));
            phases.put("paused resigning", candidacy(new Resigning(1020), true, false));
            phases.put("paused draining", candidacy(new Draining(1025, false), true, false));
            phases.put("closing resigning", candidacy(new Resigning(1020), false, true));
            phases.put("closing draining", candidacy(new Draining(1025, false), false, true));
            return phases;
        }

        private static Candidacy candidacy(Phase phase, boolean paused, boolean closing) {
            return new Candidacy(phase, TERM, FAILED_STARTS, paused, closing);
        }

        private static Map<String, Signal> signals() {
            Map<String, Signal> signals = new LinkedHashMap<>();
            signals.put("lock taken", new LockTaken(NOW));
            signals.put("taken for later", new LockTaken(1005));
            signals.put("lock lost", new LockLost(RevocationReason.LOCK_LOST));
            signals.put("step down", new StepDown(RevocationReason.RESIGNED));
            signals.put("start failed", new StartFailed(TERM));
            signals.put("old start failed", new StartFailed(TERM - 1));
            signals.put("started", new Started(TERM));
            signals.put("old started", new Started(TERM - 1));
            signals.put("drained", new Drained(TERM));
            signals.put("old drained", new Drained(TERM - 1));
            signals.put("pause", new Pause());
            signals.put("resume", new Resume());
            signals.put("close", new Close());
            signals.put("tick", new Tick());
            signals.put("tick when due", new Tick());
            return signals;
        }

        @TestFactory
        Stream<DynamicTest> cell() {
            return cells().entrySet().stream()
                    .map(cell -> DynamicTest.dynamicTest(cell.getKey(), () -> {
                        String[] names = cell.getKey().split(" \\+ ", -1);
                        assertThat(outcome(PHASES.get(names[0]), names[1])).isEqualTo(cell.getValue());
                    }));
        }

        @Test
        void theTablesMissNone() {
            assertThat(cells()).hasSize(PHASES.size() * SIGNALS.size());
            assertThat(PHASES.values().stream()
                            .<Class<?>>map(candidacy -> candidacy.phase().getClass()))
                    .containsAll(List.of(Phase.class.getPermittedSubclasses()));
            assertThat(SIGNALS.values().stream().<Class<?>>map(Signal::getClass))
                    .containsAll(List.of(Signal.class.getPermittedSubclasses()));
        }

        private static Map<String, String> cells() {
            Map<String, String> cells = new LinkedHashMap<>();
            for (String table : List.of(WITHOUT_A_TERM, IN_OR_AFTER_A_TERM, WHILE_PAUSED, WHILE_CLOSING)) {
                List<String[]> rows = table.lines()
                        .map(line -> Arrays.stream(line.split("\\|", -1))
                                .map(String::strip)
                                .toArray(String[]::new))
                        .toList();
                String[] phases = rows.get(0);
                for (String[] row : rows.subList(1, rows.size())) {
                    for (int column = 1; column < phases.length; column++) {
                        cells.put(phases[column] + " + " + row[0], row[column]);
                    }
                }
            }
            return cells;
        }

        private static String outcome(Candidacy before, String signalName) {
            Signal signal = SIGNALS.get(signalName);
            Long dueAt = before.dueAt();
            long now = signalName.equals("tick when due") && dueAt != null ? Math.max(NOW, dueAt) : NOW;
            Transition transition;
            try {
                transition = before.on(signal, now, TIMES);
            } catch (IllegalStateException e) {
                return "!";
            }
            if (transition.next().equals(before) && transition.effects().isEmpty()) {
                return ".";
            }
            return Stream.concat(
                            Stream.of(describe(transition.next())),
                            transition.effects().stream().map(EveryPhaseWithEverySignal::describe))
                    .collect(Collectors.joining(", "));
        }

        private static String describe(Candidacy candidacy) {
            return (candidacy.paused() ? "paused " : "")
                    + (candidacy.closing() ? "closing " : "")
                    + describe(candidacy.phase())
                    + (candidacy.terms() == TERM ? "" : ", term " + candidacy.terms())
                    + (candidacy.failedStarts() == FAILED_STARTS ? "" : ", fails " + candidacy.failedStarts());
        }

        private static String describe(Phase phase) {
            if (phase instanceof Follower follower) {
                return "follower @" + follower.notBefore();
            } else if (phase instanceof TakingOver takingOver) {
                return "taking over @" + takingOver.actFrom();
            } else if (phase instanceof Resigning resigning) {
                return "resigning @" + resigning.releaseBy();
            } else if (phase instanceof Draining draining) {
                return (draining.coolsDown() ? "cooling draining @" : "draining @") + draining.giveUpBy();
            }
            return phase instanceof Leader ? "leader" : "closed";
        }

        private static String describe(Effect effect) {
            if (effect instanceof BeginTerm begin) {
                assertThat(begin.term()).isEqualTo(TERM + 1);
                return "begin";
            } else if (effect instanceof EndTerm end) {
                return "end " + end.reason();
            }
            return ((Unlock) effect).afterTerm() ? "unlock" : "free";
        }
    }

    /** Histories at random; a failure names the seed. */
    @Nested
    class InAnyHistory {

        private static final Times TIMES = new Times(5, 20);
        private static final int STEPS = 3_000;

        /** A candidacy, what the rest of the world knows of it, and its past. */
        private static final class History {
            final Random random;
            final List<String> past = new ArrayList<>();
            long now;
            Candidacy candidacy;
            boolean lockHeld;
            boolean ledUnderLock;
            boolean inTerm;
            boolean drainOwed;
            long lastTerm;

            History(long seed) {
                random = new Random(seed);
                now = Long.MAX_VALUE - 500; // The clock's reading turns negative on the way.
                candidacy = Candidacy.start(0, random.nextInt(4) == 0, now);
            }

            Signal next() {
                boolean wants = candidacy.wantsLock(now);
                long term = candidacy.terms() - random.nextInt(2);
                RevocationReason[] reasons = RevocationReason.values();
                RevocationReason reason = reasons[random.nextInt(reasons.length)];
                return switch (random.nextInt(14)) {
                    case 0 -> new LockLost(reason);
                    case 1 -> new StepDown(reason);
                    case 2 -> new StartFailed(term);
                    case 3 -> new Started(term);
                    case 4, 5 -> new Drained(term);
                    case 6 -> new Pause();
                    case 7 -> new Resume();
                    case 8 -> random.nextInt(100) == 0 ? new Close() : new Tick();
                    case 9, 10, 11 -> wants ? new LockTaken(now + random.nextInt(4)) : new Tick();
                    default -> new Tick();
                };
            }

            void feed(Signal signal) {
                Candidacy before = candidacy;
                Transition transition = before.on(signal, now, TIMES);
                candidacy = transition.next();
                past.add(signal + " -> " + candidacy + " " + transition.effects());
                if (signal instanceof LockTaken) {
                    lockHeld = true;
                    ledUnderLock = false;
                } else if (signal instanceof LockLost) {
                    lockHeld = false;
                } else if (signal instanceof Drained drained && drained.term() == lastTerm && !inTerm) {
                    drainOwed = false;
                }
                transition.effects().forEach(this::carryOut);
                assertThat(candidacy.holdsLock()).as("holds the lock").isEqualTo(lockHeld);
                assertThat(candidacy.leads()).as("leads").isEqualTo(inTerm);
                assertThat(candidacy.terms()).as("terms").isEqualTo(lastTerm);
                if (candidacy.paused() || candidacy.closing() || drainOwed || lockHeld) {
                    assertThat(candidacy.wantsLock(now + 1_000_000))
                            .as("wants the lock")
                            .isFalse();
                }
                if (before.isClosed()) {
                    assertThat(candidacy.phase()).isEqualTo(before.phase());
                    assertThat(transition.effects()).isEmpty();
                }
                if (before.closing()) {
                    assertThat(transition.effects()).noneMatch(BeginTerm.class::isInstance);
                }
            }

            private void carryOut(Effect effect) {
                if (effect instanceof BeginTerm begin) {
                    assertThat(inTerm).as("a term begins in a term").isFalse();
                    assertThat(drainOwed)
                            .as("a term begins before the last one was drained")
                            .isFalse();
                    assertThat(lockHeld).as("a term begins without the lock").isTrue();
                    assertThat(begin.term()).isEqualTo(lastTerm + 1);
                    lastTerm = begin.term();
                    inTerm = true;
                    ledUnderLock = true;
                } else if (effect instanceof EndTerm) {
                    assertThat(inTerm).as("a term ends outside of a term").isTrue();
                    inTerm = false;
                    drainOwed = true;
                } else {
                    assertThat(lockHeld).as("unlocks a lock that it holds").isTrue();
                    assertThat(((Unlock) effect).afterTerm())
                            .as("led under this lock")
                            .isEqualTo(ledUnderLock);
                    lockHeld = false;
                }
            }
        }

        @ParameterizedTest
        @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
        void theInvariantsHold(long seed) {
            History history = new History(seed);
            for (int step = 0; step < STEPS; step++) {
                if (history.candidacy.isClosed() && history.random.nextInt(20) == 0) {
                    history = restarted(history);
                }
                history.now += history.random.nextInt(4);
                try {
                    history.feed(history.next());
                } catch (AssertionError e) {
                    List<String> past = history.past;
                    throw new AssertionError(
                            "After " + String.join("\n", past.subList(Math.max(0, past.size() - 12), past.size())), e);
                }
            }
            assertThat(history.lastTerm)
                    .as("terms led, or the histories are too dull")
                    .isGreaterThan(20);
        }

        private static History restarted(History old) {
            old.candidacy = Candidacy.start(old.candidacy.terms(), false, old.now);
            old.drainOwed = false;
            return old;
        }
    }

    @Nested
    class OverTime {

        private static final Times TIMES = new Times(10, 30);

        @Test
        void aCandidateWhoseWorkCannotStartWaitsLongerEachTimeUpTo32CoolDowns() {
            Candidacy candidacy = Candidacy.start(0, false, 0);
            List<Long> waits = new ArrayList<>();
            for (int i = 0; i < 9; i++) {
                candidacy = lead(candidacy);
                candidacy = candidacy
                        .on(new StartFailed(candidacy.terms()), 0, TIMES)
                        .next();
                candidacy = drain(candidacy);
                waits.add(candidacy.dueAt());
            }
            assertThat(waits).containsExactly(10L, 20L, 40L, 80L, 160L, 320L, 320L, 320L, 320L);
        }

        @Test
        void theWaitIsTheSameIfTheLockIsLostBeforeItIsReleased() {
            Candidacy candidacy = new Candidacy(new Leader(), 5, 3, false, false);
            candidacy = candidacy.on(new StartFailed(5), 0, TIMES).next();
            candidacy = candidacy
                    .on(new LockLost(RevocationReason.SESSION_LOST), 0, TIMES)
                    .next();
            assertThat(drain(candidacy).dueAt()).isEqualTo(80);
        }

        @Test
        void theLongestWaitHoldsForAnyNumberOfFailures() {
            Candidacy candidacy = new Candidacy(new Resigning(30), 1, Integer.MAX_VALUE, false, false);
            assertThat(drain(candidacy).dueAt()).isEqualTo(320);
        }

        @Test
        void aStartThatSucceedsForgetsTheFailures() {
            Candidacy candidacy = new Candidacy(new Leader(), 5, 4, false, false);
            candidacy = candidacy.on(new Started(5), 0, TIMES).next();
            candidacy = candidacy.on(new StartFailed(5), 0, TIMES).next();
            assertThat(drain(candidacy).dueAt()).isEqualTo(10);
        }

        @Test
        void aFollowerWantsTheLockFromItsTimeOnAlsoAcrossTheOverflowOfTheClock() {
            Candidacy candidacy = Candidacy.start(0, false, Long.MAX_VALUE);
            assertThat(candidacy.wantsLock(Long.MAX_VALUE - 1)).isFalse();
            assertThat(candidacy.wantsLock(Long.MAX_VALUE)).isTrue();
            assertThat(candidacy.wantsLock(Long.MIN_VALUE + 5)).isTrue();
        }

        @Test
        void onlyTheLastMomentOfATimeIsDue() {
            for (Candidacy waiting : List.of(
                    new Candidacy(new TakingOver(100), 1, 0, false, false),
                    new Candidacy(new Resigning(100), 1, 0, false, false),
                    new Candidacy(new Draining(100, false), 1, 0, false, true))) {
                assertThat(waiting.on(new Tick(), 99, TIMES).next()).isEqualTo(waiting);
                assertThat(waiting.on(new Tick(), 100, TIMES).next()).isNotEqualTo(waiting);
                assertThat(waiting.dueAt()).isEqualTo(100);
            }
        }

        private static Candidacy lead(Candidacy follower) {
            return follower.on(new LockTaken(0), 0, TIMES).next();
        }

        private static Candidacy drain(Candidacy resigning) {
            return resigning.on(new Drained(resigning.terms()), 0, TIMES).next();
        }
    }
}
