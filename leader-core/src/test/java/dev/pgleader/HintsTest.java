package dev.pgleader;

import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.ScriptedElection.Job;
import dev.pgleader.lock.LockSession.Holder;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;

/** What notifications can do, and what they can't: anybody in the database can send one, and any of them may be lost. */
class HintsTest {

    private static final int STRANGER = 9_999;
    private static final Duration RETRY_INTERVAL = ElectorOptions.DEFAULT_RETRY_INTERVAL;
    private static final ElectorOptions FIXED_DELAY = ElectorOptions.builder()
            .takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(20)))
            .build();

    private ScriptedElection election = new ScriptedElection();

    @Nested
    class OfARelease {

        @Test
        void haveTheKeyTriedAtOnce() {
            Job job = election.follower();
            election.turnAfter(Duration.ofMillis(100));
            assertThat(election.journal()).isEmpty();
            election.server.takenByOthers.clear();
            election.hear("released bigint:1");
            election.turn();
            assertThat(election.journal()).startsWith("try [bigint:1]", "check");
            assertThat(job.leads()).isTrue();
        }

        /** R04: the sender is known to the server, and a stranger's word skips no wait. */
        @Test
        void fromAStrangerSkipNoWait() {
            election = new ScriptedElection(FIXED_DELAY);
            Job job = election.follower();
            election.server.takenByOthers.clear();
            election.hearFrom(STRANGER, "released bigint:1");
            election.turn();
            assertThat(election.journal()).startsWith("try [bigint:1]");
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        }

        @Test
        void fromTheHolderThatWasSeenSkipTheWait() {
            election = new ScriptedElection(FIXED_DELAY);
            Job job = election.follower();
            election.server.takenByOthers.clear();
            election.hear("released bigint:1");
            election.turn();
            assertThat(job.leads()).isTrue();
        }

        @Test
        void thatComeAfterTheGrantEndTheWait() {
            election = new ScriptedElection(FIXED_DELAY);
            Job job = election.follower();
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL);
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
            election.hearFrom(STRANGER, "released bigint:1");
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
            election.hear("released bigint:1");
            assertThat(job.leads()).isTrue();
        }

        @Test
        void thatComeLongAfterTheGrantEndNoWait() {
            election = new ScriptedElection(FIXED_DELAY);
            Job job = election.follower();
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL);
            election.ticker.advance(RETRY_INTERVAL);
            election.hear("released bigint:1");
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        }

        @Test
        void areForgottenAfterARetryInterval() {
            election = new ScriptedElection(FIXED_DELAY);
            Job job = election.follower();
            election.hear("released bigint:1");
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL);
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        }

        @Test
        void areForgottenWhenSomebodyElseHoldsTheLock() {
            election = new ScriptedElection(FIXED_DELAY);
            Job job = election.follower();
            election.hear("released bigint:1");
            election.turnAfter(Duration.ofMillis(1)); // Too late: taken again.
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL.dividedBy(2));
            election.hearFrom(STRANGER, "freed bigint:1");
            election.turn();
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        }

        @Test
        void proveNothingToACandidateThatIsNotCompeting() {
            election = new ScriptedElection(FIXED_DELAY);
            Job job = election.follower();
            job.signal(new CandidateState.Pause());
            election.turn();
            election.hear("released bigint:1");
            job.signal(new CandidateState.Resume());
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL.dividedBy(2));
            election.hear("freed bigint:1");
            election.turn();
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        }

        @Test
        void aFreedLockVouchesForNobody() {
            election = new ScriptedElection(FIXED_DELAY);
            Job job = election.follower();
            election.server.takenByOthers.clear();
            election.hear("freed bigint:1");
            election.turn();
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        }

        @Test
        void areNotFollowedByWhoeverCoolsDownOrIsPaused() {
            Job job = election.leader();
            job.resign();
            election.turn();
            election.callbacks.runAll();
            election.turn();
            election.journal();
            election.hear("released bigint:1");
            election.turn();
            job.signal(new CandidateState.Pause());
            election.turn();
            election.run(Duration.ofSeconds(20));
            election.hear("released bigint:1");
            election.turn();
            assertThat(election.journal()).noneMatch(entry -> entry.startsWith("try"));
        }

        /** However many come, the server is asked twenty times a second at the most. */
        @Test
        void inAFloodCauseFewTries() {
            election.follower();
            for (int millis = 0; millis < 500; millis++) {
                election.hearFrom(STRANGER, "released bigint:1", "freed bigint:1");
                election.turnAfter(Duration.ofMillis(1));
            }
            assertThat(election.journal().stream().filter(entry -> entry.startsWith("try")))
                    .hasSizeBetween(2, 11);
        }
    }

    @Nested
    class OnWhoLeads {

        @Test
        void theServerSaysWhoLeads() {
            Job job = election.follower();
            assertThat(job.candidate.standing().knownLeader())
                    .isEqualTo(new LeaderInfo("elsewhere", 4711, Optional.empty()));
        }

        /** R05: nothing that is sent changes who is known to lead, and least of all a leader's own knowledge. */
        @Test
        void nobodyElseDoes() {
            Job job = election.leader();
            LeaderInfo self = job.candidate.standing().knownLeader();
            assertThat(self).isNotNull().extracting(LeaderInfo::instanceId).isEqualTo(ScriptedElection.INSTANCE);
            election.hearFrom(
                    STRANGER,
                    "elected bigint:1 4711 2026-01-02T03:04:05Z evil\nline",
                    "released bigint:1",
                    "freed bigint:1",
                    "who bigint:1");
            election.turn();
            assertThat(job.candidate.standing().knownLeader()).isEqualTo(self);
            assertThat(job.leads()).isTrue();
            assertThat(election.journal()).isEmpty();
        }

        @Test
        void anotherLeaderIsSeenWithTheNextTry() {
            Job job = election.follower();
            election.session().holders.add(() -> Map.of(job.key, new Holder(4712, "pg-leader/third")));
            election.turnAfter(RETRY_INTERVAL);
            assertThat(job.candidate.standing().knownLeader()).isNotNull().satisfies(leader -> {
                assertThat(leader.instanceId()).isEqualTo("third");
                assertThat(leader.since()).as("it came before our eyes").isPresent();
            });
        }

        @Test
        void theHolderIsFoundAndNamed() {
            Job job = election.follower();
            assertThat(findLeader(job))
                    .isCompletedWithValue(Optional.of(job.candidate.standing().knownLeader()));
            election.session().holders.add(() -> Map.of(job.key, new Holder(4712, "psql")));
            assertThat(findLeader(job))
                    .isCompletedWithValue(Optional.of(new LeaderInfo("psql", 4712, Optional.empty())));
            election.session().holders.add(Map::of);
            assertThat(findLeader(job)).isCompletedWithValue(Optional.empty());
        }

        @Test
        void theHolderIsNotFoundWithoutASessionOrWithOneThatFails() {
            Job job = election.follower();
            election.session().holders.add(fault(Fault.TIMEOUT));
            for (int i = 0; i < 2; i++) {
                assertThat(findLeader(job))
                        .isCompletedExceptionally()
                        .failsWithin(Duration.ZERO)
                        .withThrowableThat()
                        .havingCause()
                        .isInstanceOfSatisfying(
                                LockSessionException.class,
                                e -> assertThat(e.fault()).isEqualTo(Fault.TIMEOUT));
            }
        }

        /** R14: however many ask, one round trip answers all of them. */
        @Test
        void manyCallersAreAnsweredByOneLook() {
            Job job = election.follower();
            List<CompletableFuture<Optional<LeaderInfo>>> found = new java.util.ArrayList<>();
            for (int i = 0; i < 1_000; i++) {
                found.add(election.requests.findLeader(job.candidate));
            }
            election.turn();
            election.callbacks.runAll();
            assertThat(found).allMatch(CompletableFuture::isDone);
            assertThat(election.journal()).containsExactly("look [bigint:1]");
        }

        private CompletableFuture<Optional<LeaderInfo>> findLeader(Job job) {
            CompletableFuture<Optional<LeaderInfo>> found = election.requests.findLeader(job.candidate);
            election.turn();
            election.callbacks.runAll();
            return found;
        }
    }

    @Nested
    class ToResign {

        @Test
        void areFollowedIfTheSenderMayCommand() {
            Job job = election.leader();
            election.hearFrom(50, "resign bigint:1");
            election.turn();
            assertThat(job.leads()).isFalse();
            election.callbacks.runAll();
            election.turn();
            assertThat(election.journal())
                    .containsExactly(
                            "who commands of [50]",
                            "onRevoked 1 RESIGNED",
                            "release bigint:1, nobody leading",
                            "tell \"released bigint:1\"");
        }

        /** R06: a role that may only connect deposes nobody, and starves nobody. */
        @Test
        void ofStrangersDoNothingAndAreLookedAtOncePerRetryInterval() {
            Job job = election.leader();
            for (int i = 0; i < 500; i++) {
                election.session().commanders.clear();
                election.session().commanders.add(Set::of);
                election.hearFrom(STRANGER + i, "resign bigint:1");
                election.turnAfter(Duration.ofMillis(20));
            }
            assertThat(job.leads()).isTrue();
            List<String> journal = election.journal();
            assertThat(journal.stream().filter(entry -> entry.startsWith("who commands")))
                    .hasSizeBetween(9, 11);
            assertThat(journal.stream().filter(entry -> entry.equals("check"))).hasSizeBetween(2, 4);
        }

        @Test
        void canBeSwitchedOff() {
            election = new ScriptedElection(
                    ElectorOptions.builder().remoteResignation(false).build());
            Job job = election.leader();
            election.hearFrom(50, "resign bigint:1");
            election.turn();
            assertThat(job.leads()).isTrue();
            assertThat(election.journal()).isEmpty();
        }

        @Test
        void meanNothingToAFollower() {
            election.follower();
            election.hearFrom(50, "resign bigint:1");
            election.turnAfter(RETRY_INTERVAL);
            assertThat(election.journal()).containsExactly("try [bigint:1]");
        }

        @Test
        void ofOtherKeysAndGarbageDoNothing() {
            Job job = election.leader();
            election.hear("resign bigint:2", "resign int4:0,1", "resign", "", "DROP TABLE leaders");
            election.turn();
            assertThat(job.leads()).isTrue();
            assertThat(election.journal()).isEmpty();
        }

        @Test
        void areSentOnceForAllCallersOfATurn() {
            Job job = election.follower();
            List<CompletableFuture<Void>> sent = List.of(
                    election.requests.requestResignation(job.candidate),
                    election.requests.requestResignation(job.candidate));
            election.turn();
            election.callbacks.runAll();
            assertThat(election.journal()).containsExactly("tell \"resign bigint:1\"");
            assertThat(sent).allMatch(future -> future.isDone() && !future.isCompletedExceptionally());
        }

        /** R09: a request that was reported as failed isn't sent by a later session. */
        @Test
        void thatFailedAreNotSentLater() {
            Job job = election.follower();
            election.session().waits.add(fault(Fault.CONNECTION_LOST));
            election.loop.await(0);
            CompletableFuture<Void> sent = election.requests.requestResignation(job.candidate);
            election.opens.add(fault(Fault.UNREACHABLE));
            election.run(RETRY_INTERVAL.multipliedBy(10));
            assertThat(sent).isCompletedExceptionally();
            assertThat(election.journal()).contains("open").noneMatch(entry -> entry.startsWith("tell"));
        }

        @Test
        void thatTheServerDoesNotTakeFail() {
            Job job = election.follower();
            election.session().tellings.add(() -> false);
            CompletableFuture<Void> sent = election.requests.requestResignation(job.candidate);
            election.run(RETRY_INTERVAL.multipliedBy(5));
            assertThat(sent).isCompletedExceptionally();
            assertThat(election.journal().stream().filter(entry -> entry.startsWith("tell")))
                    .hasSize(1);
        }
    }

    /** N01: the queue of notifications is full, by a listener of another database that is none of our business. */
    @Nested
    class ThatCannotBeTold {

        @Test
        void costNothing() {
            Job job = election.leader();
            ScriptedSession session = election.session();
            for (int i = 0; i < 100; i++) {
                session.tellings.add(() -> false);
            }
            job.resign();
            election.run(Duration.ofMinutes(1));
            assertThat(job.released).isCompleted();
            assertThat(job.leads()).as("in its next term").isTrue();
            assertThat(job.candidate.state().terms()).isEqualTo(2);
            assertThat(session.isEnded()).isFalse();
        }

        @Test
        void areTriedAgainForARetryInterval() {
            Job job = election.leader();
            for (int i = 0; i < 100; i++) {
                election.session().tellings.add(() -> false);
            }
            job.resign();
            election.turn();
            election.callbacks.runAll();
            election.run(Duration.ofMillis(1_500));
            assertThat(election.journal().stream().filter(entry -> entry.startsWith("tell")))
                    .hasSizeBetween(3, 5);
        }
    }
}
