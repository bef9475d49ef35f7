package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;

class FairShareTest {

    private static final Duration TIME = Duration.ofSeconds(2);
    private static final Duration INTERVAL = Duration.ofMinutes(1);
    private static final long START = Long.MAX_VALUE - 1_000;

    private final FairShare share =
            new FairShare(Spread.over(TIME).rebalanceEvery(INTERVAL), ElectorOptions.defaults(), new Random(1), START);

    private static Set<LockKey> keys(int first, int count) {
        return LongStream.range(first, first + count).mapToObj(LockKey::of).collect(Collectors.toSet());
    }

    private static long after(long millis) {
        return START + Duration.ofMillis(millis).toNanos();
    }

    @Test
    void anInstanceThatHoldsNothingTakesOneKeyAtOnce() {
        share.foundFree(keys(0, 100), START);
        assertThat(share.due(0, 100, START)).hasSize(1);
    }

    @Test
    void anInstanceThatIsAloneTakesAllKeysAtAConstantPace() {
        Set<LockKey> held = new HashSet<>();
        for (int millis = 0; millis <= 2_000; millis += 100) {
            Set<LockKey> free = keys(0, 100);
            free.removeAll(held);
            share.foundFree(free, after(millis));
            held.addAll(share.due(held.size(), 100, after(millis)));
            assertThat(held).hasSize(Math.min(100, millis / 20 + 1));
        }
    }

    @Test
    void theMoreAnInstanceHoldsTheLongerItWaits() {
        share.foundFree(keys(0, 1), START);
        assertThat(share.due(50, 100, after(999))).isEmpty();
        assertThat(share.due(50, 100, after(1_000))).hasSize(1);
        assertThat(share.nextDueAt(50, 100)).isEqualTo(after(1_000));
        assertThat(share.nextDueAt(0, 100)).isEqualTo(START);
    }

    @Test
    void ofSeveralKeysTheOneThatHasBeenFreeForLongestIsDueNext() {
        share.foundFree(keys(0, 1), START);
        share.foundFree(keys(0, 3), after(300));
        assertThat(share.nextDueAt(50, 100)).isEqualTo(after(1_000));
        share.foundFree(keys(1, 3), after(400));
        assertThat(share.nextDueAt(50, 100)).isEqualTo(after(1_300));
    }

    @Test
    void aKeyThatWasTakenInTheMeantimeCountsAnewWhenItIsFreeAgain() {
        share.foundFree(keys(0, 1), START);
        share.foundFree(Set.of(), after(500));
        assertThat(share.nextDueAt(50, 100)).isNull();
        assertThat(share.foundFree(keys(0, 1), after(600))).hasSize(1);
        assertThat(share.due(50, 100, after(1_599))).isEmpty();
        assertThat(share.due(50, 100, after(1_600))).hasSize(1);
    }

    @Test
    void whatWasTakenInTheMeantimeIsWaitedForNoLonger() {
        share.foundFree(keys(0, 100), START);
        assertThat(share.due(0, 100, after(1_000))).hasSize(51);
        share.foundFree(keys(51, 49), after(1_000));
        assertThat(share.due(51, 100, after(1_019))).isEmpty();
        assertThat(share.due(51, 100, after(1_020))).hasSize(1);
    }

    @Test
    void onlyKeysThatWereNotKnownToBeFreeAreNews() {
        assertThat(share.foundFree(keys(0, 2), START)).hasSize(2);
        assertThat(share.foundFree(keys(0, 3), after(1))).containsExactly(LockKey.of(2));
    }

    @Test
    void instancesTryInDifferentOrders() {
        FairShare other = new FairShare(Spread.over(TIME), ElectorOptions.defaults(), new Random(2), START);
        share.foundFree(keys(0, 100), START);
        other.foundFree(keys(0, 100), START);
        assertThat(share.due(0, 100, after(2_000))).hasSize(100).isNotEqualTo(other.due(0, 100, after(2_000)));
    }

    @Test
    void halfOfASurplusIsGivenUpInEachInterval() {
        assertThat(share.isRebalanceDue(after(59_999))).isFalse();
        assertThat(share.isRebalanceDue(after(60_000))).isTrue();
        Set<LockKey> surplus = share.surplus(keys(0, 51), 100, 2, after(60_000));
        assertThat(surplus).hasSize(1);
        assertThat(keys(0, 51)).containsAll(surplus);
        assertThat(share.isRebalanceDue(after(119_999))).isFalse();
        assertThat(share.isRebalanceDue(after(120_000))).isTrue();
    }

    /** A new session counts from the moment in which it finds a key free. */
    @Test
    void whatWasFreeBeforeASessionIsNewsToTheNextOne() {
        assertThat(share.foundFree(keys(0, 2), START)).hasSize(2);
        assertThat(share.foundFree(keys(0, 2), after(1))).isEmpty();
        share.forget();
        assertThat(share.foundFree(keys(0, 2), after(2))).hasSize(2);
    }

    /** As after a rolling restart of three instances, when the last one has come back. */
    @Test
    void threeIntervalsSettleWhatOneOfThreeLeft() {
        int led = 15;
        for (int interval = 1; interval <= 3; interval++) {
            led -= share.surplus(keys(100 * interval, led), 30, 3, after(60_000L * interval))
                    .size();
        }
        assertThat(led).isEqualTo(10);
    }

    @Test
    void whoLeadsNoMoreThanItsShareGivesNothingUp() {
        assertThat(share.surplus(keys(0, 50), 100, 2, after(60_000))).isEmpty();
        assertThat(share.surplus(keys(0, 34), 100, 3, after(60_000))).isEmpty();
        assertThat(share.surplus(keys(0, 35), 100, 3, after(60_000))).hasSize(1);
        assertThat(share.surplus(keys(0, 100), 100, 0, after(60_000))).isEmpty();
    }

    /** A count that is wrong for a moment, as at a rolling restart, costs few terms then. */
    @Test
    void halfOfASurplusIsGivenUpAtATime() {
        assertThat(share.surplus(keys(0, 100), 100, 2, after(60_000))).hasSize(25);
    }

    @Test
    void anInstanceWhoseKeyComesBackDoublesItsInterval() {
        Set<LockKey> led = keys(0, 100);
        long now = after(60_000);
        share.surplus(led, 100, 2, now);
        for (int doublings = 1; doublings < 5; doublings++) {
            now += INTERVAL.toNanos() << (doublings - 1);
            assertThat(share.isRebalanceDue(now - 1)).isFalse();
            assertThat(share.isRebalanceDue(now)).isTrue();
            share.surplus(led, 100, 2, now);
        }
        led.removeAll(share.surplus(led, 100, 2, now));
        share.surplus(led, 100, 2, now);
        assertThat(share.isRebalanceDue(now + INTERVAL.toNanos())).isTrue();
    }

    @Test
    void withoutAnIntervalNothingIsRebalanced() {
        FairShare plain = new FairShare(Spread.evenly(), ElectorOptions.defaults(), new Random(1), START);
        assertThat(plain.isRebalanceDue(after(Duration.ofDays(1).toMillis()))).isFalse();
    }

    @Test
    void theTimeIsTwoRetryIntervalsUnlessItIsSet() {
        assertThat(Spread.evenly().time(ElectorOptions.defaults())).isEqualTo(Duration.ofSeconds(2));
        assertThat(Spread.over(TIME).rebalanceEvery(INTERVAL).time(ElectorOptions.defaults()))
                .isEqualTo(TIME);
        assertThat(Spread.over(TIME).rebalanceEvery(INTERVAL)).hasToString("spread over PT2S, rebalanced every PT1M");
    }

    @Test
    void timesOutOfRangeAreRefused() {
        assertThatThrownBy(() -> Spread.over(Duration.ZERO))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("PT0S");
        assertThatThrownBy(() -> Spread.evenly().rebalanceEvery(Duration.ofDays(2)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("PT48H");
    }

    /** R25: only instances that compete for these very keys are counted, and only while they do. */
    @Nested
    class Membership {

        private final List<String> journal = new ArrayList<>();
        private final ScriptedSession session = new ScriptedSession(new ScriptedSession.Server(), journal::add);
        private final Set<LockKey> mine = keys(0, 3);

        @Test
        void isJoinedOnceAndLeftWithTheLastCandidate() throws Exception {
            share.updateMembership(session, mine, true);
            share.updateMembership(session, mine, true);
            assertThat(journal).containsExactly("join");
            assertThat(session.joined).containsExactly(FairShare.membersKey(mine));
            share.updateMembership(session, mine, false);
            share.updateMembership(session, mine, false);
            assertThat(journal).containsExactly("join", "leave");
            assertThat(session.joined).isEmpty();
        }

        @Test
        void movesWhenTheKeysChange() throws Exception {
            share.updateMembership(session, mine, true);
            share.updateMembership(session, keys(0, 4), true);
            assertThat(journal).containsExactly("join", "leave", "join");
            assertThat(session.joined).containsExactly(FairShare.membersKey(keys(0, 4)));
        }

        @Test
        void beginsAnewWithANewSession() throws Exception {
            share.updateMembership(session, mine, true);
            share.forget();
            ScriptedSession next = new ScriptedSession(new ScriptedSession.Server(), journal::add);
            share.updateMembership(next, mine, true);
            assertThat(journal).containsExactly("join", "join");
            assertThat(share.countMembers(next)).isOne();
        }

        @Test
        void isNotAskedForWithoutRebalancing() throws Exception {
            FairShare plain = new FairShare(Spread.evenly(), ElectorOptions.defaults(), new Random(1), START);
            plain.updateMembership(session, mine, true);
            assertThat(journal).isEmpty();
        }

        @Test
        void whoIsNoMemberIsAlone() throws Exception {
            assertThat(share.countMembers(session)).isOne();
            assertThat(journal).isEmpty();
        }

        /** Two services with the default name of a group counted each other. */
        @Test
        void isThatOfTheKeysWhateverTheirOrder() {
            assertThat(FairShare.membersKey(List.of(LockKey.of(1), LockKey.of(2))))
                    .isEqualTo(FairShare.membersKey(List.of(LockKey.of(2), LockKey.of(1))));
            assertThat(FairShare.membersKey(mine)).isNotEqualTo(FairShare.membersKey(keys(0, 2)));
            assertThat(FairShare.membersKey(mine)).isNotEqualTo(FairShare.membersKey(keys(1, 3)));
        }
    }

    /** R25: with a paused third instance and another service in the same database, 38 elections in 20 s where 0 are right. */
    @Test
    void withoutAChangeOfMembersNothingMoves() {
        Set<LockKey> led = keys(0, 15);
        for (int interval = 1; interval <= 60; interval++) {
            assertThat(share.surplus(led, 30, 2, after(interval * INTERVAL.toMillis())))
                    .isEmpty();
        }
    }
}
