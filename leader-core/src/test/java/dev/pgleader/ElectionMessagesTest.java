package dev.pgleader;

import static dev.pgleader.ScriptedSession.Server.ELSEWHERE;
import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSession.Holder;
import dev.pgleader.lock.LockSession.Notification;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What sessions tell each other, and what follows from it: hints, which can make somebody look, and no more. */
class ElectionMessagesTest extends ElectionTest {

    private static final int OPERATOR = 9_000;
    private static final int STRANGER = 9_001;

    @Test
    void noticesOfOtherKeysAndGarbageDoNothing() {
        ScriptedCandidate candidate = election.leader();
        election.server.commanders.add(OPERATOR);
        election.hearFrom(OPERATOR, "resign bigint:2", "resign int4:0,1", "resign", "", "DROP TABLE leaders");
        election.turn();
        assertThat(candidate.leads()).isTrue();
        assertThat(election.journal()).isEmpty();
    }

    @Test
    void aReleasedKeyIsTriedAtOnce() {
        ScriptedCandidate candidate = election.follower();
        election.turnAfter(Duration.ofMillis(100));
        assertThat(election.journal()).isEmpty();
        election.server.freeAll();
        election.hear("released bigint:1");
        election.turn();
        assertThat(election.journal()).startsWith("try [bigint:1]", "check");
        assertThat(candidate.leads()).isTrue();
    }

    @Test
    void aReleasedKeyIsNotTriedByWhoeverCoolsDownOrIsPaused() {
        ScriptedCandidate candidate = election.leader();
        candidate.resign();
        election.turn();
        election.callbacks.runAll();
        election.turn();
        election.hearFrom(101, "released bigint:1"); // Its own notice comes back.
        election.turn();
        assertThat(count(election.journal(), "try")).isZero();
        candidate.signal(new CandidateState.Pause());
        election.run(Duration.ofMinutes(1));
        election.hear("released bigint:1");
        election.turn();
        assertThat(count(election.journal(), "try")).isZero();
    }

    /** R04: whoever may connect can say that a key is free, as often as it likes. */
    @Test
    void aStreamOfHintsCausesNoMoreTriesThanTheServerCanBear() {
        election.follower();
        for (int i = 0; i < 2_000; i++) {
            election.hearFrom(STRANGER, "released bigint:1");
            election.turnAfter(Duration.ofMillis(1));
        }
        assertThat(count(election.journal(), "try")).isBetween(2L, 42L);
    }

    /** Who asks the leader to resign: anybody may send the notice, only its own role and a superuser are heard. */
    @Nested
    class ARequestToResign {

        @Test
        void ofTheSameRoleIsGranted() {
            ScriptedCandidate candidate = election.leader();
            election.server.commanders.add(OPERATOR);
            election.hearFrom(OPERATOR, "resign bigint:1");
            election.turn();
            assertThat(candidate.leads()).isFalse();
            election.callbacks.runAll();
            election.turn();
            assertThat(withoutTellings(election.journal()))
                    .containsExactly(
                            "find commanders among 1", "onRevoked 1 RESIGNED", "release [bigint:1], nobody leading");
        }

        /** R06: any role that can connect deposed the leader. */
        @Test
        void ofAStrangerIsNot() {
            ScriptedCandidate candidate = election.leader();
            election.hearFrom(STRANGER, "resign bigint:1");
            election.turn();
            election.run(SECOND);
            assertThat(candidate.leads()).isTrue();
            assertThat(election.journal()).containsExactly("find commanders among 1");
        }

        /** R06. */
        @Test
        void isNotEvenLookedAtIfThatIsSwitchedOff() {
            use(ElectorOptions.builder().remoteResignation(false));
            ScriptedCandidate candidate = election.leader();
            election.server.commanders.add(OPERATOR);
            election.hearFrom(OPERATOR, "resign bigint:1");
            election.run(SECOND);
            assertThat(candidate.leads()).isTrue();
            assertThat(election.journal()).isEmpty();
        }

        /** R06: a rhythm of 20 ms left the service without a leader for 99 % of the time. */
        @Test
        void thatComesAgainAndAgainIsLookedAtOncePerRetryInterval() {
            election.leader();
            for (int i = 0; i < 500; i++) {
                for (int backend = 0; backend < 40; backend++) {
                    election.hearFrom(STRANGER + backend, "resign bigint:1");
                }
                election.turnAfter(Duration.ofMillis(20));
            }
            List<String> journal = election.journal();
            assertThat(count(journal, "find commanders")).isBetween(9L, 11L);
            assertThat(count(journal, "check")).as("checks in 10 s").isBetween(3L, 4L);
            assertThat(journal).noneMatch(entry -> entry.startsWith("release") || entry.startsWith("abort"));
        }

        /** R06: the heap is bounded, and whoever floods the channel can't push the operator out for longer than an interval. */
        @Test
        void isForgottenIfTooManyWaitAndHeardAgainAfterALook() {
            ScriptedCandidate candidate = election.leader();
            election.server.commanders.add(OPERATOR);
            election.hearFrom(STRANGER, "resign bigint:1");
            election.turn();
            election.journal();
            for (int backend = 0; backend < 5_000; backend++) {
                election.hearFrom(STRANGER + backend, "resign bigint:1");
            }
            election.turnAfter(RETRY_INTERVAL);
            assertThat(election.journal()).containsExactly("find commanders among 100");
            election.hearFrom(OPERATOR, "resign bigint:1");
            election.turnAfter(RETRY_INTERVAL);
            assertThat(candidate.leads()).isFalse();
        }

        @Test
        void meansNothingToAFollower() {
            election.follower();
            election.server.commanders.add(OPERATOR);
            election.hearFrom(OPERATOR, "resign bigint:1");
            election.turnAfter(RETRY_INTERVAL);
            assertThat(election.journal()).containsExactly("try [bigint:1]");
        }

        @Test
        void isSentOnceForAllWhoAsk() {
            ScriptedCandidate candidate = election.follower();
            List<CompletableFuture<Void>> sent =
                    List.of(candidate.requestResignation(), candidate.requestResignation());
            election.turn();
            assertThat(election.journal()).containsExactly("tell [resign bigint:1]");
            assertThat(sent).noneMatch(CompletableFuture::isDone);
            election.callbacks.runAll();
            assertThat(sent).allMatch(CompletableFuture::isDone).noneMatch(CompletableFuture::isCompletedExceptionally);
        }

        /** R09: a request that was reported as failed was sent all the same, with the next session. */
        @ParameterizedTest
        @ValueSource(strings = {"no session", "refused", "session lost"})
        void thatCouldNotBeSentFailsAndIsNotSentLater(String fault) {
            ScriptedCandidate candidate = election.follower();
            if (fault.equals("no session")) {
                election.session().waits.add(fault(Fault.CONNECTION_LOST));
                election.loop.await(0);
                election.opens.add(fault(Fault.UNREACHABLE));
            } else {
                election.session().tellings.add(fault.equals("refused") ? () -> false : fault(Fault.CONNECTION_LOST));
            }
            CompletableFuture<Void> sent = candidate.requestResignation();
            election.turn();
            election.callbacks.runAll();
            assertThat(sent).isCompletedExceptionally();
            assertThat(sent.handle((done, failure) -> failure).join())
                    .isInstanceOf(LockSessionException.class)
                    .hasMessageStartingWith("The request to resign couldn't be sent");
            election.journal();
            election.run(Duration.ofMinutes(1));
            assertThat(count(election.journal(), "tell")).isZero();
        }
    }

    /** N01: the server's notification queue may be full, or held up by another transaction. Only the lock decides. */
    @Nested
    class ANoticeThatCanNotBeTold {

        private void refuse(int times) {
            for (int i = 0; i < times; i++) {
                election.session().tellings.add(() -> false);
            }
        }

        @Test
        void costsNoReleaseNoSessionAndNoOtherTerm() {
            ScriptedCandidate resigning = election.leader();
            ScriptedCandidate staying = election.candidate(2);
            staying.admit();
            election.turn();
            refuse(1_000);
            resigning.resign();
            election.run(Duration.ofMinutes(1));
            assertThat(resigning.released).isCompleted();
            assertThat(staying.leads()).isTrue();
            assertThat(staying.state().terms()).isOne();
            List<String> journal = election.journal();
            assertThat(count(journal, "abort")).isZero();
            assertThat(count(journal, "check")).as("checks in a minute").isGreaterThanOrEqualTo(20);
        }

        @Test
        void isTriedAgainAndThenForgottenAfterARetryInterval() {
            ScriptedCandidate candidate = election.leader();
            refuse(1_000);
            candidate.resign();
            election.run(Duration.ofMinutes(1));
            assertThat(count(election.journal(), "tell")).isBetween(3L, 5L);
            election.session().tellings.clear();
            election.run(Duration.ofMinutes(1));
            assertThat(count(election.journal(), "tell")).isZero();
        }

        @Test
        void isToldOnceTheServerTakesIt() {
            ScriptedCandidate candidate = election.leader();
            refuse(1);
            candidate.resign();
            election.run(Duration.ofMinutes(1));
            assertThat(election.journal())
                    .filteredOn(entry -> entry.startsWith("tell"))
                    .containsExactly("tell [released bigint:1]", "tell [released bigint:1]");
        }

        /** Telling may take a quarter of a round trip's bound; a check that is due comes first. */
        @Test
        void holdsUpNoCheck() {
            ScriptedCandidate resigning = election.leader();
            ScriptedCandidate staying = election.candidate(2);
            staying.admit();
            election.turn();
            election.journal();
            Duration slow = election.options.healthCheckTimeout().dividedBy(4);
            List<Long> checks = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                election.session().tellings.add(() -> {
                    election.ticker.advance(slow);
                    return false;
                });
                election.session().checks.add(() -> {
                    checks.add(election.ticker.nanos());
                    return java.util.Set.copyOf(election.session().held);
                });
            }
            resigning.resign();
            election.run(Duration.ofSeconds(30));
            for (int i = 1; i < checks.size(); i++) {
                assertThat(Duration.ofNanos(checks.get(i) - checks.get(i - 1)))
                        .isLessThanOrEqualTo(CHECK_INTERVAL.plus(slow));
            }
            assertThat(staying.leads()).isTrue();
        }
    }

    /** R05: who leads is what pg_locks shows, whatever anybody says. */
    @Nested
    class TheKnownLeader {

        @Test
        void isWhoHoldsTheLock() {
            ScriptedCandidate candidate = election.follower();
            assertThat(candidate.standing().knownLeader())
                    .isEqualTo(new LeaderInfo("elsewhere", ELSEWHERE.backendPid(), Optional.empty()));
            election.server.freeAll();
            election.server.take(candidate.key, new Holder(4712, "pg-leader/another"));
            election.turnAfter(RETRY_INTERVAL);
            LeaderInfo another = candidate.standing().knownLeader();
            assertThat(another).isNotNull();
            assertThat(another.instanceId()).isEqualTo("another");
            assertThat(another.since()).as("seen to take over").isPresent();
            election.turnAfter(RETRY_INTERVAL);
            assertThat(candidate.standing().knownLeader()).isSameAs(another);
        }

        @Test
        void isThisInstanceWhileItLeads() {
            ScriptedCandidate candidate = election.leader();
            Instant since = candidate.trustedLeadership().orElseThrow().since();
            assertThat(candidate.standing().knownLeader())
                    .isEqualTo(new LeaderInfo(ScriptedElection.INSTANCE, 101, Optional.of(since)));
            candidate.resign();
            election.turn();
            assertThat(candidate.standing().knownLeader()).isNull();
        }

        @ParameterizedTest
        @ValueSource(
                strings = {
                    "elected bigint:1 9001 2026-01-02T03:04:05Z intruder",
                    "released bigint:1",
                    "freed bigint:1",
                    "resign bigint:1"
                })
        void isNobodysWord(String notice) {
            ScriptedCandidate follower = election.follower();
            LeaderInfo before = follower.standing().knownLeader();
            election.hearFrom(STRANGER, notice);
            assertThat(follower.standing().knownLeader()).isEqualTo(before);
            ScriptedElection leading = new ScriptedElection();
            ScriptedCandidate leader = leading.leader();
            LeaderInfo self = leader.standing().knownLeader();
            leading.hearFrom(STRANGER, notice);
            leading.turn();
            assertThat(leader.standing().knownLeader()).isEqualTo(self);
        }

        @Test
        void isForgottenWithTheSession() {
            ScriptedCandidate candidate = election.follower();
            election.session().waits.add(fault(Fault.CONNECTION_LOST));
            election.loop.await(0);
            assertThat(candidate.standing().knownLeader()).isNull();
            election.run(SECOND);
            assertThat(candidate.standing().knownLeader())
                    .isEqualTo(new LeaderInfo("elsewhere", ELSEWHERE.backendPid(), Optional.empty()));
        }

        @ParameterizedTest
        @EnumSource(CandidateRole.class)
        void isLookedUpForWhoeverAsks(CandidateRole role) {
            ScriptedCandidate candidate = role == CandidateRole.LEADER ? election.leader() : election.follower();
            CompletableFuture<Optional<LeaderInfo>> found = candidate.findLeader();
            election.turn();
            election.callbacks.runAll();
            assertThat(election.journal()).containsExactly("look [bigint:1]");
            assertThat(found)
                    .isCompletedWithValue(
                            Optional.ofNullable(candidate.standing().knownLeader()));
        }

        private enum CandidateRole {
            LEADER,
            FOLLOWER
        }

        @Test
        void isLookedUpAnewAndMayBeNobody() {
            ScriptedCandidate candidate = election.follower();
            election.server.freeAll();
            election.server.take(candidate.key, new Holder(4712, "psql"));
            CompletableFuture<Optional<LeaderInfo>> found = candidate.findLeader();
            election.turn();
            election.callbacks.runAll();
            assertThat(found).isCompletedWithValue(Optional.of(new LeaderInfo("psql", 4712, Optional.empty())));
            candidate.signal(new CandidateState.Pause());
            election.server.freeAll();
            CompletableFuture<Optional<LeaderInfo>> nobody = candidate.findLeader();
            election.turn();
            election.callbacks.runAll();
            assertThat(nobody).isCompletedWithValue(Optional.empty());
        }

        @Test
        void isNotFoundWithoutASessionOrWithOneThatFails() {
            ScriptedCandidate candidate = election.follower();
            election.session().looks.add(fault(Fault.TIMEOUT));
            CompletableFuture<Optional<LeaderInfo>> failing = candidate.findLeader();
            election.turn();
            assertThat(election.session().isEnded()).isTrue();
            CompletableFuture<Optional<LeaderInfo>> without = candidate.findLeader();
            election.turn();
            election.callbacks.runAll();
            for (CompletableFuture<Optional<LeaderInfo>> failed : List.of(failing, without)) {
                assertThat(failed).isCompletedExceptionally();
                assertThat(failed.handle((found, failure) -> failure).join())
                        .isInstanceOfSatisfying(
                                LockSessionException.class,
                                e -> assertThat(e.fault()).isEqualTo(Fault.TIMEOUT));
            }
        }
    }

    /** R04, section 11: a hint never spares a wait, whoever it comes from. */
    @ParameterizedTest
    @ValueSource(ints = {4711, STRANGER})
    void aReleaseSparesNoWaitingTime(int sender) {
        Duration delay = Duration.ofSeconds(20);
        use(ElectorOptions.builder().takeoverDelay(TakeoverDelay.of(delay)));
        ScriptedCandidate candidate = election.follower();
        election.server.freeAll();
        election.hearFrom(sender, "released bigint:1");
        election.turn();
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        election.hearFrom(sender, "released bigint:1");
        election.run(delay.minusMillis(1));
        assertThat(candidate.leads()).isFalse();
        election.run(Duration.ofMillis(2));
        assertThat(candidate.leads()).isTrue();
    }

    /** What the next session says and sees is its own. */
    @Test
    void aNewSessionBeginsWithNothingToTellAndNobodySeen() {
        LockKey key = LockKey.of(1);
        ElectionMessages messages =
                new ElectionMessages("self", ElectorOptions.builder().build(), 0);
        messages.tellFree(key, 0);
        messages.saw(key, new Holder(4711, "pg-leader/one"));
        assertThat(messages.receive(List.of(new Notification(OPERATOR, "resign bigint:1")), Set.of()))
                .isFalse();
        assertThat(messages.isTellingDue(0)).isTrue();
        messages.forget();
        assertThat(messages.isTellingDue(0)).isFalse();
        assertThat(messages.requestersToLookAt(Set.of(key), 0)).isEmpty();
        assertThat(messages.saw(key, new Holder(4712, "pg-leader/another")).since())
                .isEmpty();
    }

    /** A key that was released and taken again isn't free. */
    @Test
    void aLockThatIsTakenAgainIsNotToldToBeFree() {
        LockKey taken = LockKey.of(1);
        LockKey free = LockKey.of(2);
        ElectionMessages messages =
                new ElectionMessages("self", ElectorOptions.builder().build(), 0);
        messages.tellFree(taken, 0);
        messages.took(taken);
        assertThat(messages.isTellingDue(0)).isFalse();
        messages.tellFree(free, 0);
        messages.took(taken);
        assertThat(messages.isTellingDue(0)).isTrue();
    }

    @Test
    void noticesOfKeysThatNobodyHereWantsAreNotKept() {
        election.follower();
        List<Notification> foreign = new ArrayList<>();
        for (int key = 100; key < 5_000; key++) {
            foreign.add(new Notification(STRANGER, new Notice.Released(LockKey.of(key)).toString()));
        }
        election.session().waits.add(() -> foreign);
        election.loop.await(0);
        election.turn();
        assertThat(election.journal()).isEmpty();
    }
}
