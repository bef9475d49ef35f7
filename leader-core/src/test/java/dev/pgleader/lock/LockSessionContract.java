package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockSession.Holder;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.assertj.core.api.AbstractThrowableAssert;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What each {@link LockSession} promises to an election, whatever is behind it. */
@Timeout(300)
abstract class LockSessionContract {

    static final Duration LEASE = Duration.ofSeconds(20);
    static final Duration NETWORK_TIMEOUT = Duration.ofSeconds(5);

    private static final AtomicLong KEYS = new AtomicLong(1L << 40);
    private static final int LONGEST_PAYLOAD_BYTES = 7_999;

    final ExecutorService executor = Executors.newCachedThreadPool();
    private final Queue<LockSession> opened = new ConcurrentLinkedQueue<>();

    /** Opens a session; all of them see the same locks, and nobody else's. */
    abstract LockSession openSession(Settings settings) throws LockSessionException;

    final LockSession open(Settings settings) throws LockSessionException {
        LockSession session = openSession(settings);
        opened.add(session);
        return session;
    }

    final LockSession open(String instanceId) throws LockSessionException {
        return open(new Settings(instanceId, LEASE, NETWORK_TIMEOUT, true));
    }

    /** A key that no other test uses. */
    static LockKey freshKey() {
        return LockKey.of(KEYS.incrementAndGet());
    }

    @AfterEach
    void endSessions() {
        executor.shutdownNow();
        opened.forEach(LockSession::abort);
    }

    @Test
    void grantsFreeKeysAndRefusesTakenOnesInOneCall() throws LockSessionException {
        LockSession first = open("first");
        LockSession second = open("second");
        LockKey taken = freshKey();
        LockKey takenPair = LockKey.of(4, 2);
        LockKey free = freshKey();
        LockKey freePair = LockKey.of(4, 3);
        assertThat(first.tryLock(List.of(taken, takenPair))).containsExactlyInAnyOrder(taken, takenPair);
        assertThat(second.tryLock(List.of(taken, free, takenPair, freePair))).containsExactlyInAnyOrder(free, freePair);
        assertThat(first.check()).containsExactlyInAnyOrder(taken, takenPair);
        assertThat(second.check()).containsExactlyInAnyOrder(free, freePair);
    }

    @Test
    void releasesSeveralKeysAndTellsOfEach() throws LockSessionException {
        LockKey first = freshKey();
        LockKey pair = LockKey.of(9, -9);
        LockKey kept = freshKey();
        LockSession session = open("several");
        LockSession listener = open("listener");
        assertThat(session.tryLock(List.of(first, pair, kept))).hasSize(3);
        session.release(Map.of(first, "first", pair, "pair"));
        assertThat(session.check()).containsExactly(kept);
        List<String> heard = new ArrayList<>();
        await().until(() -> {
            heard.addAll(listener.await(Duration.ofSeconds(1).toNanos()));
            return heard.size() >= 2;
        });
        assertThat(heard).containsExactlyInAnyOrder("first", "pair");
        assertFault(Fault.LOCK_LOST, () -> session.release(Map.of(kept, "", first, "")));
    }

    @Test
    void triesNoKeyWhenItIsGivenNone() throws LockSessionException {
        LockSession session = open("none");
        assertThat(session.tryLock(Set.of())).isEmpty();
        assertThat(session.check()).isEmpty();
    }

    @Test
    @DisplayName(
            "F1, F2, C19: the extreme keys of both spaces are locks of their own, and come back as they were given")
    void extremeKeys() throws LockSessionException {
        Set<LockKey> extremes = LongStream.of(
                        Long.MIN_VALUE, -4_294_967_296L, -1, 0, 1, 4_294_967_295L, 4_294_967_298L, Long.MAX_VALUE)
                .mapToObj(LockKey::of)
                .collect(Collectors.toSet());
        int[] halves = {Integer.MIN_VALUE, -1, 0, 1, 2, Integer.MAX_VALUE};
        for (int first : halves) {
            for (int second : halves) {
                extremes.add(LockKey.of(first, second));
            }
        }
        LockSession session = open("extremes");
        assertThat(session.tryLock(extremes)).isEqualTo(extremes);
        assertThat(session.check()).isEqualTo(extremes);
        assertThat(open("other").tryLock(extremes)).isEmpty();
        for (LockKey key : List.copyOf(extremes)) {
            session.release(Map.of(key, ""));
            extremes.remove(key);
        }
        assertThat(session.check()).isEmpty();
    }

    @Test
    void locksTwoThousandKeysInOneCall() throws LockSessionException {
        Set<LockKey> keys = IntStream.range(0, 2_000)
                .mapToObj(i -> i % 2 == 0 ? freshKey() : LockKey.of(2_000, i))
                .collect(Collectors.toSet());
        LockSession session = open("many");
        assertThat(session.tryLock(keys)).isEqualTo(keys);
        assertThat(session.check()).isEqualTo(keys);
        assertThat(open("other").tryLock(keys)).isEmpty();
    }

    @Test
    void aCheckShowsExactlyTheKeysThatAreHeld() throws LockSessionException {
        LockSession session = open("checked");
        LockKey kept = freshKey();
        LockKey released = freshKey();
        assertThat(session.check()).isEmpty();
        assertThat(session.tryLock(List.of(kept, released))).hasSize(2);
        session.release(Map.of(released, ""));
        assertThat(session.check()).containsExactly(kept);
        assertThat(session.tryLock(List.of(released))).containsExactly(released);
        assertThat(session.check()).containsExactlyInAnyOrder(kept, released);
    }

    @Test
    void aListenerWokenByAReleaseGetsTheLockAtItsFirstTry() throws Exception {
        LockKey key = freshKey();
        LockSession holder = open("ping");
        LockSession listener = open("pong");
        assertThat(holder.tryLock(List.of(key))).containsExactly(key);
        for (int round = 0; round < 100; round++) {
            String news = "released in round " + round;
            LockSession waiting = listener;
            Future<Set<LockKey>> taken = executor.submit(() -> {
                awaitPayload(waiting, news);
                return waiting.tryLock(List.of(key));
            });
            holder.release(Map.of(key, news));
            assertThat(taken.get(20, TimeUnit.SECONDS)).as("round %d", round).containsExactly(key);
            listener = holder;
            holder = waiting;
        }
    }

    @Test
    @DisplayName("C26: the release of a lock that isn't held fails, and takes it from nobody")
    void releaseOfWhatIsNotHeld() throws LockSessionException {
        LockKey key = freshKey();
        LockSession holder = open("holder");
        assertThat(holder.tryLock(List.of(key))).containsExactly(key);
        LockSession other = open("other");
        assertFault(Fault.LOCK_LOST, () -> other.release(Map.of(key, ""))).hasMessageContaining(key.toString());
        assertThat(holder.check()).containsExactly(key);
        holder.release(Map.of(key, ""));
        assertFault(Fault.LOCK_LOST, () -> holder.release(Map.of(key, "")));
    }

    @Test
    void allSessionsHearAnAnnouncementInItsOrder() throws LockSessionException {
        LockSession announcer = open("announcer");
        LockSession listener = open("listener");
        List<String> sent = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            List<String> together = List.of("", i + " \"quoted\" {a,b} \\ '%s' NULL", "\u00e4\u20ac\ud83d\ude00 " + i);
            announcer.announce(together);
            sent.addAll(together);
        }
        assertThat(receive(listener, sent.size())).isEqualTo(sent);
        assertThat(receive(announcer, sent.size())).isEqualTo(sent);
    }

    @Test
    void theLongestNotificationsArriveWhole() throws LockSessionException {
        LockSession announcer = open("announcer");
        LockSession listener = open("listener");
        List<String> sent = IntStream.range(0, 20)
                .mapToObj(i -> Character.toString('a' + i).repeat(LONGEST_PAYLOAD_BYTES))
                .toList();
        announcer.announce(sent);
        announcer.announce(List.of("the end"));
        List<String> received = receive(listener, sent.size() + 1);
        assertThat(received.subList(0, sent.size())).isEqualTo(sent);
        assertThat(received.get(sent.size())).isEqualTo("the end");
    }

    @Test
    void whatWasSentWhileStatementsRanIsHeardAfterThem() throws LockSessionException {
        LockSession announcer = open("announcer");
        LockSession listener = open("listener");
        List<String> sent = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            announcer.announce(List.of("a" + i));
            assertThat(listener.check()).isEmpty();
            announcer.announce(List.of("b" + i));
            assertThat(listener.findHolder(freshKey())).isEmpty();
            sent.addAll(List.of("a" + i, "b" + i));
        }
        assertThat(receive(listener, sent.size())).isEqualTo(sent);
    }

    @Test
    void awaitEndsOnTimeAndReturnsRarelyBeforeIt() throws LockSessionException {
        LockSession session = open("patient");
        long start = System.nanoTime();
        int calls = 0;
        while (elapsed(start).compareTo(Duration.ofMillis(500)) < 0) {
            assertThat(session.await(Duration.ofMillis(500).toNanos() - (System.nanoTime() - start)))
                    .isEmpty();
            calls++;
        }
        assertThat(elapsed(start)).isLessThan(Duration.ofSeconds(20));
        assertThat(calls).isLessThan(20);
    }

    @Test
    void awaitWithNoTimeLeftReturnsAtOnceWithWhatHasCome() throws LockSessionException {
        LockSession session = open("impatient");
        assertThat(session.await(0)).isEmpty();
        assertThat(session.await(-1)).isEmpty();
        session.announce(List.of("here already"));
        assertThat(session.await(0)).containsExactly("here already");
    }

    @Test
    void awaitHasNoLongestTime() throws Exception {
        LockSession session = open("eternal");
        Future<List<String>> waiting = executor.submit(() -> session.await(Long.MAX_VALUE));
        open("announcer").announce(List.of("the end"));
        assertThat(waiting.get(20, TimeUnit.SECONDS)).containsExactly("the end");
    }

    @Test
    void wakeEndsTheCurrentOrTheNextAwaitAndNoOther() throws Exception {
        LockSession session = open("sleeper");
        for (int round = 0; round < 30; round++) {
            Future<Duration> waiting = executor.submit(() -> {
                long start = System.nanoTime();
                assertThat(session.await(Duration.ofSeconds(30).toNanos())).isEmpty();
                return elapsed(start);
            });
            session.wake();
            assertThat(waiting.get(40, TimeUnit.SECONDS)).isLessThan(Duration.ofSeconds(20));
        }
        session.wake();
        assertThat(session.check()).isEmpty();
        long start = System.nanoTime();
        assertThat(session.await(Duration.ofSeconds(30).toNanos())).isEmpty();
        assertThat(elapsed(start)).isLessThan(Duration.ofSeconds(20));
        start = System.nanoTime();
        while (elapsed(start).compareTo(Duration.ofMillis(300)) < 0) {
            assertThat(session.await(Duration.ofMillis(300).toNanos())).isEmpty();
        }
    }

    @Test
    void wakesDuringStatementsDisturbNone() throws Exception {
        LockSession session = open("disturbed");
        LockKey key = freshKey();
        Future<?> waking = executor.submit(() -> {
            while (!Thread.currentThread().isInterrupted()) {
                session.wake();
            }
        });
        for (int round = 0; round < 50; round++) {
            assertThat(session.tryLock(List.of(key))).containsExactly(key);
            assertThat(session.check()).containsExactly(key);
            session.announce(List.of("round " + round));
            session.release(Map.of(key, "released " + round));
            assertThat(receive(session, 2)).containsExactly("round " + round, "released " + round);
        }
        waking.cancel(true);
    }

    @Test
    void tellsWhoHoldsAKey() throws LockSessionException {
        LockSession holder = open("node-a");
        LockSession other = open("node-b");
        for (LockKey key : List.of(freshKey(), LockKey.of(-7), LockKey.of(7, -7))) {
            assertThat(other.findHolder(key)).isEmpty();
            assertThat(holder.tryLock(List.of(key))).containsExactly(key);
            Optional<Holder> expected = Optional.of(new Holder(holder.facts().backendPid(), "pg-leader/node-a"));
            assertThat(other.findHolder(key)).isEqualTo(expected);
            assertThat(holder.findHolder(key)).isEqualTo(expected);
            holder.release(Map.of(key, ""));
            assertThat(other.findHolder(key)).isEmpty();
        }
    }

    @Test
    void closeAndAbortFreeTheLocksAndMayBeRepeated() throws LockSessionException {
        LockSession other = open("other");
        LockKey closedKey = freshKey();
        LockKey abortedKey = freshKey();
        LockSession closed = open("closed");
        LockSession aborted = open("aborted");
        assertThat(closed.tryLock(List.of(closedKey))).containsExactly(closedKey);
        assertThat(aborted.tryLock(List.of(abortedKey))).containsExactly(abortedKey);
        closed.close();
        aborted.abort();
        Set<LockKey> granted = new HashSet<>();
        await().until(() -> {
            Set<LockKey> missing = new HashSet<>(List.of(closedKey, abortedKey));
            missing.removeAll(granted);
            granted.addAll(other.tryLock(missing));
            return granted.size() == 2;
        });
        for (LockSession ended : List.of(closed, aborted)) {
            ended.close();
            ended.abort();
            ended.wake();
            assertFault(Fault.CONNECTION_LOST, ended::check);
            assertFault(Fault.CONNECTION_LOST, () -> ended.await(1));
        }
    }

    final void awaitPayload(LockSession session, String payload) throws LockSessionException {
        long start = System.nanoTime();
        while (elapsed(start).compareTo(Duration.ofSeconds(10)) < 0) {
            if (session.await(Duration.ofSeconds(10).toNanos()).contains(payload)) {
                return;
            }
        }
        throw new AssertionError("not told of \"" + payload + "\"");
    }

    static List<String> receive(LockSession session, int count) throws LockSessionException {
        List<String> received = new ArrayList<>();
        long start = System.nanoTime();
        while (received.size() < count && elapsed(start).compareTo(Duration.ofSeconds(20)) < 0) {
            received.addAll(session.await(Duration.ofSeconds(1).toNanos()));
        }
        return received;
    }

    static Duration elapsed(long startNanos) {
        return Duration.ofNanos(System.nanoTime() - startNanos);
    }

    static AbstractThrowableAssert<?, ? extends Throwable> assertFault(Fault fault, ThrowingCallable call) {
        return assertFault("call", fault, call);
    }

    static AbstractThrowableAssert<?, ? extends Throwable> assertFault(
            String description, Fault fault, ThrowingCallable call) {
        return assertThatThrownBy(call)
                .as(description)
                .isInstanceOfSatisfying(
                        LockSessionException.class, e -> assertThat(e.fault()).isEqualTo(fault));
    }
}
