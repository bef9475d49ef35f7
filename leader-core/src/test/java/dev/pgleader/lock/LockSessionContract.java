package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockSession.Attempt;
import dev.pgleader.lock.LockSession.Holder;
import dev.pgleader.lock.LockSession.Notification;
import dev.pgleader.lock.LockSession.Settings;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
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
    private static final int LONGEST_PAYLOAD = 1_000;

    final ExecutorService executor = Executors.newCachedThreadPool();
    private final Queue<LockSession> opened = new ConcurrentLinkedQueue<>();

    /** Opens a session; all of them see the same locks, and nobody else's. */
    abstract LockSession openSession(Settings settings) throws Exception;

    final LockSession open(Settings settings) throws Exception {
        LockSession session = openSession(settings);
        opened.add(session);
        return session;
    }

    final LockSession open(String instanceId) throws Exception {
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
    void grantsFreeKeysAndRefusesTakenOnesInOneCall() throws Exception {
        LockSession first = open("first");
        LockSession second = open("second");
        LockKey taken = freshKey();
        LockKey takenPair = LockKey.of(4, 2);
        LockKey free = freshKey();
        LockKey freePair = LockKey.of(4, 3);
        assertThat(first.attempt(List.of(taken, takenPair)).granted()).containsExactlyInAnyOrder(taken, takenPair);
        Holder holder = new Holder(first.facts().backendPid(), "pg-leader/first");
        assertThat(second.attempt(List.of(taken, free, takenPair, freePair)))
                .isEqualTo(new Attempt(Set.of(free, freePair), Map.of(taken, holder, takenPair, holder)));
        assertThat(first.check()).containsExactlyInAnyOrder(taken, takenPair);
        assertThat(second.check()).containsExactlyInAnyOrder(free, freePair);
    }

    @Test
    void releasesSeveralKeysAndTellsOfEach() throws Exception {
        LockKey first = freshKey();
        LockKey pair = LockKey.of(9, -9);
        LockKey kept = freshKey();
        LockSession session = open("several");
        LockSession listener = open("listener");
        assertThat(session.attempt(List.of(first, pair, kept)).granted()).hasSize(3);
        session.release(List.of(first, pair));
        assertThat(session.check()).containsExactly(kept);
        assertThat(session.tell(List.of("first", "pair"))).isTrue();
        List<String> heard = new ArrayList<>();
        await().until(() -> {
            heard.addAll(payloads(listener, Duration.ofSeconds(1)));
            return heard.size() >= 2;
        });
        assertThat(heard).containsExactlyInAnyOrder("first", "pair");
        assertFault(Fault.LOCK_LOST, () -> session.release(List.of(kept, first)));
    }

    @Test
    void triesNoKeyWhenItIsGivenNone() throws Exception {
        LockSession session = open("none");
        assertThat(session.attempt(Set.of()).granted()).isEmpty();
        assertThat(session.check()).isEmpty();
    }

    @Test
    @DisplayName(
            "F1, F2, C19: the extreme keys of both spaces are locks of their own, and come back as they were given")
    void extremeKeys() throws Exception {
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
        assertThat(session.attempt(extremes).granted()).isEqualTo(extremes);
        assertThat(session.check()).isEqualTo(extremes);
        assertThat(open("other").attempt(extremes).granted()).isEmpty();
        for (LockKey key : List.copyOf(extremes)) {
            session.release(List.of(key));
            extremes.remove(key);
        }
        assertThat(session.check()).isEmpty();
    }

    @Test
    void locksTwoThousandKeysInOneCall() throws Exception {
        Set<LockKey> keys = IntStream.range(0, 2_000)
                .mapToObj(i -> i % 2 == 0 ? freshKey() : LockKey.of(2_000, i))
                .collect(Collectors.toSet());
        LockSession session = open("many");
        assertThat(session.attempt(keys).granted()).isEqualTo(keys);
        assertThat(session.check()).isEqualTo(keys);
        assertThat(open("other").attempt(keys).granted()).isEmpty();
    }

    @Test
    void aCheckShowsExactlyTheKeysThatAreHeld() throws Exception {
        LockSession session = open("checked");
        LockKey kept = freshKey();
        LockKey released = freshKey();
        assertThat(session.check()).isEmpty();
        assertThat(session.attempt(List.of(kept, released)).granted()).hasSize(2);
        session.release(List.of(released));
        assertThat(session.check()).containsExactly(kept);
        assertThat(session.attempt(List.of(released)).granted()).containsExactly(released);
        assertThat(session.check()).containsExactlyInAnyOrder(kept, released);
    }

    @Test
    void aListenerWokenByAReleaseGetsTheLockAtItsFirstTry() throws Exception {
        LockKey key = freshKey();
        LockSession holder = open("ping");
        LockSession listener = open("pong");
        assertThat(holder.attempt(List.of(key)).granted()).containsExactly(key);
        for (int round = 0; round < 100; round++) {
            String news = "released in round " + round;
            LockSession waiting = listener;
            Future<Set<LockKey>> taken = executor.submit(() -> {
                awaitPayload(waiting, news);
                return waiting.attempt(List.of(key)).granted();
            });
            holder.release(List.of(key));
            assertThat(holder.tell(List.of(news))).isTrue();
            assertThat(taken.get(20, TimeUnit.SECONDS)).as("round %d", round).containsExactly(key);
            listener = holder;
            holder = waiting;
        }
    }

    @Test
    @DisplayName("C26: the release of a lock that isn't held fails, and takes it from nobody")
    void releaseOfWhatIsNotHeld() throws Exception {
        LockKey key = freshKey();
        LockSession holder = open("holder");
        assertThat(holder.attempt(List.of(key)).granted()).containsExactly(key);
        LockSession other = open("other");
        assertFault(Fault.LOCK_LOST, () -> other.release(List.of(key))).hasMessageContaining(key.toString());
        assertThat(holder.check()).containsExactly(key);
        holder.release(List.of(key));
        assertFault(Fault.LOCK_LOST, () -> holder.release(List.of(key)));
    }

    @Test
    void allSessionsHearAnAnnouncementInItsOrder() throws Exception {
        LockSession announcer = open("announcer");
        LockSession listener = open("listener");
        List<String> sent = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            List<String> together = List.of("", i + " \"quoted\" {a,b} \\ '%s' NULL", "\u00e4\u20ac\ud83d\ude00 " + i);
            announcer.tell(together);
            sent.addAll(together);
        }
        assertThat(receive(listener, sent.size())).isEqualTo(sent);
        assertThat(receive(announcer, sent.size())).isEqualTo(sent);
    }

    @Test
    @DisplayName(
            "notifications of up to 1,000 characters arrive whole, and longer ones, which are nobody's of ours, don't")
    void longNotifications() throws Exception {
        LockSession announcer = open("announcer");
        LockSession listener = open("listener");
        List<String> sent = IntStream.range(0, 20)
                .mapToObj(i -> Character.toString('a' + i).repeat(LONGEST_PAYLOAD))
                .toList();
        announcer.tell(sent);
        announcer.tell(List.of("x".repeat(LONGEST_PAYLOAD + 1)));
        announcer.tell(List.of("the end"));
        List<String> received = receive(listener, sent.size() + 1);
        assertThat(received.subList(0, sent.size())).isEqualTo(sent);
        assertThat(received.get(sent.size())).isEqualTo("the end");
    }

    @Test
    void whatWasSentWhileStatementsRanIsHeardAfterThem() throws Exception {
        LockSession announcer = open("announcer");
        LockSession listener = open("listener");
        List<String> sent = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            announcer.tell(List.of("a" + i));
            assertThat(listener.check()).isEmpty();
            announcer.tell(List.of("b" + i));
            assertThat(listener.findHolders(List.of(freshKey()))).isEmpty();
            sent.addAll(List.of("a" + i, "b" + i));
        }
        assertThat(receive(listener, sent.size())).isEqualTo(sent);
    }

    @Test
    void awaitEndsOnTimeAndReturnsRarelyBeforeIt() throws Exception {
        LockSession session = open("patient");
        long start = System.nanoTime();
        int calls = 0;
        while (elapsed(start).compareTo(Duration.ofMillis(500)) < 0) {
            assertThat(session.awaitNotifications(Duration.ofMillis(500).toNanos() - (System.nanoTime() - start)))
                    .isEmpty();
            calls++;
        }
        assertThat(elapsed(start)).isLessThan(Duration.ofSeconds(20));
        assertThat(calls).isLessThan(20);
    }

    @Test
    void awaitWithNoTimeLeftReturnsAtOnceWithWhatHasCome() throws Exception {
        LockSession session = open("impatient");
        assertThat(session.awaitNotifications(0)).isEmpty();
        assertThat(session.awaitNotifications(-1)).isEmpty();
        session.tell(List.of("here already"));
        assertThat(payloads(session, Duration.ZERO)).containsExactly("here already");
    }

    @Test
    void awaitHasNoLongestTime() throws Exception {
        LockSession session = open("eternal");
        Future<List<Notification>> waiting = executor.submit(() -> session.awaitNotifications(Long.MAX_VALUE));
        LockSession announcer = open("announcer");
        announcer.tell(List.of("the end"));
        assertThat(waiting.get(20, TimeUnit.SECONDS))
                .containsExactly(new Notification(announcer.facts().backendPid(), "the end"));
    }

    @Test
    void wakeEndsTheCurrentOrTheNextAwaitAndNoOther() throws Exception {
        LockSession session = open("sleeper");
        for (int round = 0; round < 30; round++) {
            Future<Duration> waiting = executor.submit(() -> {
                long start = System.nanoTime();
                assertThat(session.awaitNotifications(Duration.ofSeconds(30).toNanos()))
                        .isEmpty();
                return elapsed(start);
            });
            session.wake();
            assertThat(waiting.get(40, TimeUnit.SECONDS)).isLessThan(Duration.ofSeconds(20));
        }
        session.wake();
        assertThat(session.check()).isEmpty();
        long start = System.nanoTime();
        assertThat(session.awaitNotifications(Duration.ofSeconds(30).toNanos())).isEmpty();
        assertThat(elapsed(start)).isLessThan(Duration.ofSeconds(20));
        start = System.nanoTime();
        while (elapsed(start).compareTo(Duration.ofMillis(300)) < 0) {
            assertThat(session.awaitNotifications(Duration.ofMillis(300).toNanos()))
                    .isEmpty();
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
            assertThat(session.attempt(List.of(key)).granted()).containsExactly(key);
            assertThat(session.check()).containsExactly(key);
            session.tell(List.of("round " + round));
            session.release(List.of(key));
            session.tell(List.of("released " + round));
            assertThat(receive(session, 2)).containsExactly("round " + round, "released " + round);
        }
        waking.cancel(true);
    }

    @Test
    void tellsWhoHoldsAKey() throws Exception {
        LockSession holder = open("node-a");
        LockSession other = open("node-b");
        for (LockKey key : List.of(freshKey(), LockKey.of(-7), LockKey.of(7, -7))) {
            assertThat(other.findHolders(List.of(key))).isEmpty();
            assertThat(holder.attempt(List.of(key)).granted()).containsExactly(key);
            Map<LockKey, Holder> expected =
                    Map.of(key, new Holder(holder.facts().backendPid(), "pg-leader/node-a"));
            assertThat(other.findHolders(List.of(key))).isEqualTo(expected);
            assertThat(holder.findHolders(List.of(key))).isEqualTo(expected);
            holder.release(List.of(key));
            assertThat(other.findHolders(List.of(key))).isEmpty();
        }
    }

    @Test
    void closeAndAbortFreeTheLocksAndMayBeRepeated() throws Exception {
        LockSession other = open("other");
        LockKey closedKey = freshKey();
        LockKey abortedKey = freshKey();
        LockSession closed = open("closed");
        LockSession aborted = open("aborted");
        assertThat(closed.attempt(List.of(closedKey)).granted()).containsExactly(closedKey);
        assertThat(aborted.attempt(List.of(abortedKey)).granted()).containsExactly(abortedKey);
        closed.close();
        aborted.abort();
        Set<LockKey> granted = new HashSet<>();
        await().until(() -> {
            Set<LockKey> missing = new HashSet<>(List.of(closedKey, abortedKey));
            missing.removeAll(granted);
            granted.addAll(other.attempt(missing).granted());
            return granted.size() == 2;
        });
        for (LockSession ended : List.of(closed, aborted)) {
            ended.close();
            ended.abort();
            ended.wake();
            assertFault(Fault.CONNECTION_LOST, ended::check);
            assertFault(Fault.CONNECTION_LOST, () -> ended.awaitNotifications(1));
        }
    }

    final void awaitPayload(LockSession session, String payload) throws Exception {
        long start = System.nanoTime();
        while (elapsed(start).compareTo(Duration.ofSeconds(10)) < 0) {
            if (payloads(session, Duration.ofSeconds(10)).contains(payload)) {
                return;
            }
        }
        throw new AssertionError("not told of \"" + payload + "\"");
    }

    static List<String> receive(LockSession session, int count) throws Exception {
        List<String> received = new ArrayList<>();
        long start = System.nanoTime();
        while (received.size() < count && elapsed(start).compareTo(Duration.ofSeconds(20)) < 0) {
            received.addAll(payloads(session, Duration.ofSeconds(1)));
        }
        return received;
    }

    static List<String> payloads(LockSession session, Duration longest) throws LockSessionException {
        return session.awaitNotifications(longest.toNanos()).stream()
                .map(Notification::payload)
                .toList();
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
                        LockSessionException.class,
                        e -> assertThat(e.fault()).as(e.getMessage()).isEqualTo(fault));
    }
}
