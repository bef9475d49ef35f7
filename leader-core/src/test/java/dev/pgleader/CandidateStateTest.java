package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.CandidateState.BeginTerm;
import dev.pgleader.CandidateState.Close;
import dev.pgleader.CandidateState.Drained;
import dev.pgleader.CandidateState.Effect;
import dev.pgleader.CandidateState.EndTerm;
import dev.pgleader.CandidateState.Follower;
import dev.pgleader.CandidateState.Leader;
import dev.pgleader.CandidateState.LockLost;
import dev.pgleader.CandidateState.LockTaken;
import dev.pgleader.CandidateState.Pause;
import dev.pgleader.CandidateState.Phase;
import dev.pgleader.CandidateState.ReleaseLock;
import dev.pgleader.CandidateState.Resigning;
import dev.pgleader.CandidateState.Resume;
import dev.pgleader.CandidateState.Revoking;
import dev.pgleader.CandidateState.Signal;
import dev.pgleader.CandidateState.StartFailed;
import dev.pgleader.CandidateState.Started;
import dev.pgleader.CandidateState.StepDown;
import dev.pgleader.CandidateState.Stopped;
import dev.pgleader.CandidateState.TakingOver;
import dev.pgleader.CandidateState.Tick;
import dev.pgleader.CandidateState.Times;
import dev.pgleader.CandidateState.Transition;
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

class CandidateStateTest {

    /**
     * Every phase with every signal. A cell is what becomes of the candidate, then what is to be done: {@code .} is nothing,
     * {@code !} is refused, {@code release} releases the lock after a term, {@code free} without
     * one, {@code fails} are the failed starts in a row if they change, {@code term} is the term if it changes.
     * The clock stands at 1000, the cool-down is 2, the revoke timeout 30; the candidate has led 7 terms, the last of which
     * couldn't start.
     */
    @Nested
    class EveryPhaseWithEverySignal {

        private static final long NOW = 1000;
        private static final Times TIMES = new Times(2, 30);
        private static final long TERM = 7;
        private static final int FAILED_STARTS = 1;

        private static final Map<String, CandidateState> PHASES = phases();
        private static final Map<String, Signal> SIGNALS = signals();

        private static final String WITHOUT_A_TERM = """
                                | follower               | cooling               | taking over               | stopped
                lock taken      | leader, term 8, begin  | leader, term 8, begin | !                         | !
                taken for later | taking over @1005      | taking over @1005     | !                         | !
                lock lost       | .                      | .                     | follower @1000            | .
                step down       | follower @1002         | .                     | follower @1002, release   | .
                start failed    | .                      | .                     | .                         | .
                old start failed| .                      | .                     | .                         | .
                started         | .                      | .                     | .                         | .
                old started     | .                      | .                     | .                         | .
                drained         | .                      | .                     | .                         | .
                old drained     | .                      | .                     | .                         | .
                pause           | paused follower @1000  | paused follower @1009 | paused follower @1000, release | paused stopped
                resume          | .                      | .                     | .                         | .
                close           | closing stopped        | closing stopped       | closing stopped, release  | closing stopped
                close in 3      | closing stopped        | closing stopped       | closing stopped, release  | closing stopped
                tick            | .                      | .                     | .                         | .
                tick when due   | .                      | .                     | leader, term 8, begin     | .
                """;

        private static final String IN_OR_AFTER_A_TERM = """
                                | leader                        | resigning               | revoking       | cooling revoking
                lock taken      | !                             | !                       | !              | !
                taken for later | !                             | !                       | !              | !
                lock lost       | revoking @1030, end LOCK_LOST | cooling revoking @1020  | .              | .
                step down       | resigning @1030, end RESIGNED | .                       | .              | .
                start failed    | resigning @1030, fails 2, end CALLBACK_FAILED | .       | .              | .
                old start failed| .                             | .                       | .              | .
                started         | leader, fails 0               | .                       | .              | .
                old started     | .                             | .                       | .              | .
                drained         | .                             | follower @1002, release  | follower @1000 | follower @1002
                old drained     | .                             | .                       | .              | .
                pause           | paused resigning @1030, end RESIGNED | paused resigning @1020 | paused revoking @1025 | paused cooling revoking @1025
                resume          | .                             | .                       | .              | .
                close           | closing resigning @1030, end CLOSED | closing resigning @1020 | closing revoking @1025 | closing cooling revoking @1025
                close in 3      | closing resigning @1003, end CLOSED | closing resigning @1003 | closing revoking @1003 | closing cooling revoking @1003
                tick            | .                             | .                       | .              | .
                tick when due   | .                             | cooling revoking @1020, release | .       | .
                """;

        private static final String WHILE_PAUSED = """
                                | paused follower        | paused resigning               | paused revoking
                lock taken      | paused leader, term 8, begin | !                        | !
                taken for later | paused taking over @1005 | !                            | !
                lock lost       | .                      | paused cooling revoking @1020         | .
                step down       | paused follower @1002  | .                              | .
                start failed    | .                      | .                              | .
                old start failed| .                      | .                              | .
                started         | .                      | .                              | .
                old started     | .                      | .                              | .
                drained         | .                      | paused follower @1002, release  | paused follower @1000
                old drained     | .                      | .                              | .
                pause           | .                      | .                              | .
                resume          | follower @1000         | resigning @1020                | revoking @1025
                close           | paused closing stopped  | paused closing resigning @1020 | paused closing revoking @1025
                close in 3      | paused closing stopped | paused closing resigning @1003 | paused closing revoking @1003
                tick            | .                      | .                              | .
                tick when due   | .                      | paused cooling revoking @1020, release  | .
                """;

        private static final String WHILE_CLOSING = """
                                | closing resigning              | closing revoking
                lock taken      | !                              | !
                taken for later | !                              | !
                lock lost       | closing cooling revoking @1020         | .
                step down       | .                              | .
                start failed    | .                              | .
                old start failed| .                              | .
                started         | .                              | .
                old started     | .                              | .
                drained         | closing stopped, release         | closing stopped
                old drained     | .                              | .
                pause           | paused closing resigning @1020 | paused closing revoking @1025
                resume          | .                              | .
                close           | .                              | .
                close in 3      | closing resigning @1003        | closing revoking @1003
                tick            | .                              | .
                tick when due   | closing stopped, release         | closing stopped
                """;

        private static Map<String, CandidateState> phases() {
            Map<String, CandidateState> phases = new LinkedHashMap<>();
            phases.put("follower", state(new Follower(NOW), false, false));
            phases.put("cooling", state(new Follower(1009), false, false));
            phases.put("taking over", state(new TakingOver(1010), false, false));
            phases.put("leader", state(new Leader(), false, false));
            phases.put("resigning", state(new Resigning(1020), false, false));
            phases.put("revoking", state(new Revoking(1025, false), false, false));
            phases.put("cooling revoking", state(new Revoking(1025, true), false, false));
            phases.put("stopped", state(new Stopped(), false, false));
            phases.put("paused follower", state(new Follower(NOW), true, false));
            phases.put("paused resigning", state(new Resigning(1020), true, false));
            phases.put("paused revoking", state(new Revoking(1025, false), true, false));
            phases.put("closing resigning", state(new Resigning(1020), false, true));
            phases.put("closing revoking", state(new Revoking(1025, false), false, true));
            return phases;
        }

        private static CandidateState state(Phase phase, boolean paused, boolean closing) {
            return new CandidateState(phase, TERM, FAILED_STARTS, paused, closing);
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
            signals.put("close", new Close(TIMES.revokeTimeout()));
            signals.put("close in 3", new Close(3));
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
                            .<Class<?>>map(state -> state.phase().getClass()))
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

        private static String outcome(CandidateState before, String signalName) {
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

        private static String describe(CandidateState state) {
            return (state.paused() ? "paused " : "")
                    + (state.closing() ? "closing " : "")
                    + describe(state.phase())
                    + (state.terms() == TERM ? "" : ", term " + state.terms())
                    + (state.failedStarts() == FAILED_STARTS ? "" : ", fails " + state.failedStarts());
        }

        private static String describe(Phase phase) {
            if (phase instanceof Follower follower) {
                return "follower @" + follower.notBefore();
            } else if (phase instanceof TakingOver takingOver) {
                return "taking over @" + takingOver.actFrom();
            } else if (phase instanceof Resigning resigning) {
                return "resigning @" + resigning.releaseBy();
            } else if (phase instanceof Revoking revoking) {
                return (revoking.coolsDown() ? "cooling revoking @" : "revoking @") + revoking.giveUpBy();
            }
            return phase instanceof Leader ? "leader" : "stopped";
        }

        private static String describe(Effect effect) {
            if (effect instanceof BeginTerm begin) {
                assertThat(begin.term()).isEqualTo(TERM + 1);
                return "begin";
            } else if (effect instanceof EndTerm end) {
                return "end " + end.reason();
            }
            assertThat(effect).isInstanceOf(ReleaseLock.class);
            return "release";
        }
    }

    @Test
    void aTermIsEndingFromItsEndToTheReturnOfItsCallbacks() {
        assertThat(CandidateState.stopped().isEndingTerm()).isFalse();
        for (Phase calm : List.of(new Follower(1), new TakingOver(1), new Leader())) {
            assertThat(new CandidateState(calm, 1, 0, false, false).isEndingTerm())
                    .isFalse();
        }
        for (Phase ending : List.of(new Resigning(1), new Revoking(1, true))) {
            assertThat(new CandidateState(ending, 1, 0, false, false).isEndingTerm())
                    .isTrue();
        }
    }

    @Test
    void theLongestCoolDownIs32TimesThePlainOne() {
        assertThat(CandidateState.longestCoolDown(new Times(7, 1))).isEqualTo(224);
    }

    /** Histories at random; a failure names the seed. */
    @Nested
    class InAnyHistory {

        private static final Times TIMES = new Times(5, 20);
        private static final int STEPS = 3_000;

        /** A state, what the rest of the world knows of it, and its past. */
        private static final class History {
            final Random random;
            final List<String> past = new ArrayList<>();
            long now;
            CandidateState state;
            boolean lockHeld;
            boolean inTerm;
            boolean drainOwed;
            long lastTerm;

            History(long seed) {
                random = new Random(seed);
                now = Long.MAX_VALUE - 500; // The clock's reading turns negative on the way.
                state = CandidateState.start(0, random.nextInt(4) == 0, true, now);
            }

            Signal next() {
                boolean wants = state.wantsLock(now);
                long term = state.terms() - random.nextInt(2);
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
                    case 8 -> random.nextInt(100) == 0 ? new Close(random.nextInt(30)) : new Tick();
                    case 9, 10, 11 -> wants ? new LockTaken(now + random.nextInt(4)) : new Tick();
                    default -> new Tick();
                };
            }

            void feed(Signal signal) {
                CandidateState before = state;
                Transition transition = before.on(signal, now, TIMES);
                state = transition.next();
                past.add(signal + " -> " + state + " " + transition.effects());
                if (signal instanceof LockTaken) {
                    lockHeld = true;
                } else if (signal instanceof LockLost) {
                    lockHeld = false;
                } else if (signal instanceof Drained drained && drained.term() == lastTerm && !inTerm) {
                    drainOwed = false;
                }
                transition.effects().forEach(this::carryOut);
                assertThat(state.holdsLock()).as("holds the lock").isEqualTo(lockHeld);
                assertThat(state.leads()).as("leads").isEqualTo(inTerm);
                assertThat(state.terms()).as("terms").isEqualTo(lastTerm);
                if (state.paused() || state.closing() || drainOwed || lockHeld) {
                    assertThat(state.wantsLock(now + 1_000_000))
                            .as("wants the lock")
                            .isFalse();
                }
                if (before.isStopped()) {
                    assertThat(state.phase()).isEqualTo(before.phase());
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
                } else if (effect instanceof EndTerm) {
                    assertThat(inTerm).as("a term ends outside of a term").isTrue();
                    inTerm = false;
                    drainOwed = true;
                } else {
                    assertThat(lockHeld).as("releases a lock that it holds").isTrue();
                    lockHeld = false;
                }
            }
        }

        @ParameterizedTest
        @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
        void theInvariantsHold(long seed) {
            History history = new History(seed);
            for (int step = 0; step < STEPS; step++) {
                if (history.state.isStopped() && history.random.nextInt(20) == 0) {
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
            old.state = CandidateState.start(old.state.terms(), false, !old.drainOwed, old.now);
            return old;
        }
    }

    @Nested
    class OverTime {

        private static final Times TIMES = new Times(10, 30);

        @Test
        void aCandidateWhoseWorkCannotStartWaitsLongerEachTimeUpTo32CoolDowns() {
            CandidateState state = CandidateState.start(0, false, true, 0);
            List<Long> waits = new ArrayList<>();
            for (int i = 0; i < 9; i++) {
                state = lead(state);
                state = state.on(new StartFailed(state.terms()), 0, TIMES).next();
                state = drain(state);
                waits.add(state.dueAt());
            }
            assertThat(waits).containsExactly(10L, 20L, 40L, 80L, 160L, 320L, 320L, 320L, 320L);
        }

        @Test
        void theWaitIsTheSameIfTheLockIsLostBeforeItIsReleased() {
            CandidateState state = new CandidateState(new Leader(), 5, 3, false, false);
            state = state.on(new StartFailed(5), 0, TIMES).next();
            state = state.on(new LockLost(RevocationReason.SESSION_LOST), 0, TIMES)
                    .next();
            assertThat(drain(state).dueAt()).isEqualTo(80);
        }

        @Test
        void theLongestWaitHoldsForAnyNumberOfFailures() {
            CandidateState state = new CandidateState(new Resigning(30), 1, Integer.MAX_VALUE, false, false);
            assertThat(drain(state).dueAt()).isEqualTo(320);
        }

        @Test
        void aStartThatSucceedsForgetsTheFailures() {
            CandidateState state = new CandidateState(new Leader(), 5, 4, false, false);
            state = state.on(new Started(5), 0, TIMES).next();
            state = state.on(new StartFailed(5), 0, TIMES).next();
            assertThat(drain(state).dueAt()).isEqualTo(10);
        }

        @Test
        void aFollowerWantsTheLockFromItsTimeOnAlsoAcrossTheOverflowOfTheClock() {
            CandidateState state = CandidateState.start(0, false, true, Long.MAX_VALUE);
            assertThat(state.wantsLock(Long.MAX_VALUE - 1)).isFalse();
            assertThat(state.wantsLock(Long.MAX_VALUE)).isTrue();
            assertThat(state.wantsLock(Long.MIN_VALUE + 5)).isTrue();
        }

        @Test
        void onlyTheLastMomentOfATimeIsDue() {
            for (CandidateState waiting : List.of(
                    new CandidateState(new TakingOver(100), 1, 0, false, false),
                    new CandidateState(new Resigning(100), 1, 0, false, false),
                    new CandidateState(new Revoking(100, false), 1, 0, false, true))) {
                assertThat(waiting.on(new Tick(), 99, TIMES).next()).isEqualTo(waiting);
                assertThat(waiting.on(new Tick(), 100, TIMES).next()).isNotEqualTo(waiting);
                assertThat(waiting.dueAt()).isEqualTo(100);
            }
        }

        /** Its last run was given up with callbacks under way; the next one competes when they have returned. */
        @Test
        void aCandidateThatStartsAnewWaitsForTheCallbacksOfItsLastTerm() {
            CandidateState state = CandidateState.start(7, false, false, 1_000);
            assertThat(state.wantsLock(1_000_000)).isFalse();
            assertThat(state.isStopped()).isFalse();
            assertThat(state.on(new Tick(), 1_000_000, TIMES).next()).isEqualTo(state);
            assertThat(state.on(new Drained(6), 1_000, TIMES).next()).isEqualTo(state);
            assertThat(drain(state).wantsLock(0)).isTrue();
            assertThat(state.on(new Close(30), 1_000, TIMES).next().dueAt())
                    .as("gives up at once, since that run has waited long enough")
                    .isEqualTo(1_000);
        }

        /** R20. */
        @Test
        void aBudgetNeverLengthensTheRevokeTimeout() {
            CandidateState leader = new CandidateState(new Leader(), 5, 0, false, false);
            assertThat(leader.on(new Close(3), 100, TIMES).next().dueAt()).isEqualTo(103);
            assertThat(leader.on(new Close(3_000), 100, TIMES).next().dueAt()).isEqualTo(130);
            CandidateState resigning = new CandidateState(new Resigning(110), 5, 0, false, false);
            assertThat(resigning.on(new Close(30), 100, TIMES).next().dueAt()).isEqualTo(110);
            assertThat(resigning.on(new Close(0), 100, TIMES).next().dueAt()).isEqualTo(100);
        }

        private static CandidateState lead(CandidateState follower) {
            return follower.on(new LockTaken(0), 0, TIMES).next();
        }

        private static CandidateState drain(CandidateState resigning) {
            return resigning.on(new Drained(resigning.terms()), 0, TIMES).next();
        }
    }
}
