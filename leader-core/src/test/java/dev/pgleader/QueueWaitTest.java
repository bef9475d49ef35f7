package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.pgleader.QueueWait.Outcome;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** R24: a wait is broken off, or it brings the lock, but never both: that would free the lock of a leader. */
@Timeout(120)
class QueueWaitTest {

    private static final LockKey KEY = LockKey.of(1);
    private static final Duration SLICE = Duration.ofSeconds(1);

    private final ScriptedSession session = new ScriptedSession(new ScriptedSession.Server(), call -> {});
    private final QueueWait wait = new QueueWait();
    private final CommandQueue commands = new CommandQueue();

    private Outcome await(boolean mayBreakOff) throws Exception {
        return wait.await(session, KEY, SLICE, mayBreakOff, commands);
    }

    @Test
    void whatIsBrokenOffBeforeTheGrantIsBrokenOff() throws Exception {
        session.queueings.add(() -> {
            wait.breakOff();
            throw new LockSessionException(Fault.CONNECTION_LOST, "aborted");
        });
        assertThat(await(true)).isEqualTo(Outcome.BROKEN_OFF);
        assertThat(session.isEnded()).isTrue();
    }

    /** The grant is on its way to the client when the other thread looks. */
    @Test
    void aGrantThatComesTogetherWithTheEndOfTheSessionIsNone() throws Exception {
        session.queueings.add(() -> {
            wait.breakOff();
            return true;
        });
        assertThat(await(true)).isEqualTo(Outcome.BROKEN_OFF);
        assertThat(session.isEnded()).isTrue();
    }

    @Test
    void whatWasGrantedIsNotBrokenOffAnyMore() throws Exception {
        assertThat(await(true)).isEqualTo(Outcome.GRANTED);
        wait.breakOff();
        assertThat(session.isEnded()).isFalse();
    }

    @Test
    void aWaitThatHasNotBegunIsNotBrokenOff() throws Exception {
        wait.breakOff();
        assertThat(await(true)).isEqualTo(Outcome.GRANTED);
        assertThat(session.isEnded()).isFalse();
    }

    /** What is broken off is the wait of the session that waits now, and it's that session which ends. */
    @Test
    void afterAnotherSessionHasTakenOverThatOneIsBrokenOff() throws Exception {
        session.queueings.add(ScriptedSession.fault(Fault.CONNECTION_LOST));
        assertThatThrownBy(() -> await(true)).isInstanceOf(LockSessionException.class);
        ScriptedSession next = new ScriptedSession(new ScriptedSession.Server(), call -> {});
        next.queueings.add(() -> {
            wait.breakOff();
            assertThat(next.isEnded()).isTrue();
            return true;
        });
        assertThat(wait.await(next, KEY, SLICE, true, commands)).isEqualTo(Outcome.BROKEN_OFF);
        assertThat(session.isEnded()).as("nobody ended the one before").isFalse();
    }

    @Test
    void whatWasNotGrantedIsNotBrokenOffAfterwards() throws Exception {
        session.queueings.add(() -> false);
        assertThat(await(true)).isEqualTo(Outcome.NOT_GRANTED);
        wait.breakOff();
        assertThat(session.isEnded()).isFalse();
    }

    @Test
    void aSessionThatHoldsALockIsNotBrokenOff() throws Exception {
        session.queueings.add(() -> {
            wait.breakOff();
            return true;
        });
        assertThat(await(false)).isEqualTo(Outcome.GRANTED);
        assertThat(session.isEnded()).isFalse();
    }

    @Test
    void aSessionThatFailsByItselfFails() {
        session.queueings.add(ScriptedSession.fault(Fault.TIMEOUT));
        assertThatThrownBy(() -> await(true)).isInstanceOf(LockSessionException.class);
        wait.breakOff();
        assertThat(session.isEnded()).isFalse();
    }

    @Test
    void isNotBegunIfThereIsSomethingElseToDo() throws Exception {
        commands.post(() -> {});
        session.queueings.add(() -> {
            throw new AssertionError("began to wait");
        });
        assertThat(await(true)).isEqualTo(Outcome.CALLED_OFF);
        commands.runAll();
        session.queueings.clear();
        assertThat(await(true)).as("the next one").isEqualTo(Outcome.GRANTED);
    }

    /** Whoever posts and then breaks off is heard either way: the wait isn't begun, or it is broken off. */
    @Test
    void aWaitThatBeginsTogetherWithACommandIsCalledOffOrBrokenOff() throws Exception {
        ExecutorService other = Executors.newSingleThreadExecutor();
        try {
            for (int round = 0; round < 2_000; round++) {
                QueueWait raced = new QueueWait();
                CommandQueue box = new CommandQueue();
                ScriptedSession raceSession = new ScriptedSession(new ScriptedSession.Server(), call -> {});
                CyclicBarrier start = new CyclicBarrier(2);
                raceSession.queueings.add(() -> {
                    // As a server does that grants nothing: only the end of the session ends the wait.
                    while (!raceSession.isEnded()) {
                        Thread.onSpinWait();
                    }
                    throw new LockSessionException(Fault.CONNECTION_LOST, "aborted");
                });
                Future<?> closing = other.submit(() -> {
                    start.await();
                    box.post(() -> {});
                    raced.breakOff();
                    return null;
                });
                start.await();
                Outcome outcome = raced.await(raceSession, KEY, SLICE, true, box);
                closing.get();
                assertThat(outcome).isIn(Outcome.CALLED_OFF, Outcome.BROKEN_OFF);
                assertThat(raceSession.isEnded()).isEqualTo(outcome == Outcome.BROKEN_OFF);
            }
        } finally {
            other.shutdownNow();
        }
    }

    /** Exactly one of both wins, whoever is faster. */
    @Test
    void aGrantAndTheEndOfTheWaitExcludeEachOther() throws Exception {
        ExecutorService other = Executors.newSingleThreadExecutor();
        try {
            for (int round = 0; round < 2_000; round++) {
                QueueWait raced = new QueueWait();
                ScriptedSession raceSession = new ScriptedSession(new ScriptedSession.Server(), call -> {});
                CyclicBarrier start = new CyclicBarrier(2);
                raceSession.queueings.add(() -> {
                    meet(start);
                    return true;
                });
                Future<?> breaking = other.submit(() -> {
                    meet(start);
                    raced.breakOff();
                });
                Outcome outcome = raced.await(raceSession, KEY, SLICE, true, new CommandQueue());
                breaking.get();
                assertThat(raceSession.isEnded()).isEqualTo(outcome == Outcome.BROKEN_OFF);
                assertThat(outcome).isIn(Outcome.GRANTED, Outcome.BROKEN_OFF);
            }
        } finally {
            other.shutdownNow();
        }
    }

    private static void meet(CyclicBarrier barrier) {
        try {
            barrier.await();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void keysTakeTurns() throws Exception {
        List<LockKey> wanted = List.of(KEY, LockKey.of(2), LockKey.of(3));
        assertThat(wait.nextInTurn(wanted)).isEqualTo(KEY);
        assertThat(await(true)).isEqualTo(Outcome.GRANTED);
        assertThat(wait.nextInTurn(wanted)).isEqualTo(LockKey.of(2));
        assertThat(wait.nextInTurn(List.of(LockKey.of(3)))).isEqualTo(LockKey.of(3));
    }
}
