package dev.pgleader;

import static dev.pgleader.ScriptedElection.RECONNECT_STEP;
import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.ScriptedElection.Job;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LogCapture;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.random.RandomGenerator;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.event.Level;

/** One turn after the other, in the test's thread; the clock's reading turns negative on the way. */
class ElectionLoopTest {

    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Duration CHECK_INTERVAL = ElectorOptions.DEFAULT_HEALTH_CHECK_INTERVAL;
    private static final Duration LEASE = ElectorOptions.DEFAULT_LEASE_DURATION;
    private static final Duration TRUST_WINDOW = ElectorOptions.defaults().trustWindow();
    private static final Duration COOL_DOWN = ElectorOptions.defaults().coolDown();
    private static final Duration REVOKE_TIMEOUT = ElectorOptions.DEFAULT_REVOKE_TIMEOUT;
    private static final Duration RETRY_INTERVAL = ElectorOptions.DEFAULT_RETRY_INTERVAL;

    private static LogCapture quiet;

    private ScriptedElection election = new ScriptedElection();

    /** Thousands of turns would be told on the console. */
    @BeforeAll
    static void quieten() {
        quiet = LogCapture.of(ElectionLoop.class.getPackageName(), Level.ERROR);
    }

    @AfterAll
    static void restore() {
        quiet.close();
    }

    private void use(ElectorOptions.Builder options) {
        election = new ScriptedElection(options.build());
    }

    private static List<String> withoutNews(List<String> journal) {
        return journal.stream().filter(entry -> !entry.startsWith("tell")).toList();
    }

    private static long count(List<String> journal, String entry) {
        return journal.stream().filter(each -> each.startsWith(entry)).count();
    }

    private Fault problem() {
        Problem problem = election.loop.view().problem();
        assertThat(problem).as("problem").isNotNull();
        return problem.fault();
    }

    @Nested
    class Winning {

        @Test
        void theFirstTurnOpensTriesChecksAndThenLeads() {
            Job job = election.candidate(1);
            job.admit();
            assertThat(job.leads()).isFalse();
            Duration wait = election.turn();
            assertThat(job.leads()).isTrue();
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.LEADER);
            List<String> journal = election.journal();
            assertThat(withoutNews(journal)).containsExactly("open", "try [bigint:1]", "check");
            assertThat(journal.get(3))
                    .startsWith("tell \"elected bigint:1 101 ")
                    .endsWith(" " + ScriptedElection.INSTANCE + "\"");
            assertThat(wait).isEqualTo(RETRY_INTERVAL);
            election.callbacks.runAll();
            assertThat(election.journal()).containsExactly("onElected 1");
        }

        @Test
        void aGrantThatTheCheckDoesNotShowIsNoLeadership() {
            Job job = election.candidate(1);
            job.admit();
            election.opens.add(() -> {
                ScriptedSession session = election.newSession();
                session.checks.add(Set::of);
                return session;
            });
            election.turn();
            election.callbacks.runAll();
            assertThat(election.journal()).containsExactly("open", "try [bigint:1]", "check", "abort, nobody leading");
            assertThat(problem()).isEqualTo(Fault.LOCKS_NOT_REAL);
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.FOLLOWER);
        }

        @ParameterizedTest
        @EnumSource(Fault.class)
        void aGrantWithoutAGoodCheckIsNoLeadership(Fault fault) {
            Job job = election.follower();
            election.server.takenByOthers.clear();
            election.session().checks.add(fault(fault));
            election.turnAfter(RETRY_INTERVAL);
            election.callbacks.runAll();
            assertThat(election.journal()).containsExactly("try [bigint:1]", "check", "abort, nobody leading");
            assertThat(job.candidate.state().terms()).isZero();
            assertThat(problem()).isEqualTo(fault);
        }

        @Test
        void aFailedTryIsNotSomebodyElsesLeadership() { // X15
            Job job = election.candidate(1);
            job.admit();
            election.opens.add(() -> {
                ScriptedSession session = election.newSession();
                session.tries.add(fault(Fault.STATEMENT_FAILED));
                return session;
            });
            election.turn();
            assertThat(election.journal()).containsExactly("open", "try [bigint:1]", "abort, nobody leading");
            assertThat(problem()).isEqualTo(Fault.STATEMENT_FAILED);
            election.run(SECOND);
            assertThat(job.leads()).isTrue();
        }

        @Test
        void aFollowerTriesOncePerRetryInterval() {
            election.follower();
            election.run(RETRY_INTERVAL.multipliedBy(10));
            assertThat(election.journal()).hasSize(10).containsOnly("try [bigint:1]");
        }

        @ParameterizedTest
        @CsvSource({"0, 800", "-9223372036854775808, 1000", "-1, 1200"})
        void theRetryIntervalVariesByTheJitter(long random, long millis) { // The least, the middle, the most.
            election = new ScriptedElection(ElectorOptions.defaults(), () -> random);
            election.follower();
            election.run(SECOND.multipliedBy(2));
            election.hear("released bigint:1");
            assertThat(election.turn().toMillis()).isEqualTo(millis);
        }

        @Test
        void aLeaderNeverTriesTheKeyThatItHolds() {
            election.leader();
            election.run(Duration.ofMinutes(2)); // A session that is tried with a key it holds fails the test.
            assertThat(election.journal()).hasSizeGreaterThan(30).containsOnly("check");
        }

        @Test
        void theLeaderOfOneKeyGoesOnToTryTheOthers() {
            election.leader();
            election.admitFollower(2);
            election.run(SECOND.multipliedBy(10));
            assertThat(election.journal())
                    .contains("try [bigint:2]")
                    .noneMatch(entry -> entry.contains("try [bigint:1"));
        }

        @Test
        void oneTurnTakesOneTryAndOneCheckForAThousandKeys() {
            List<Job> jobs =
                    LongStream.range(0, 1_000).mapToObj(election::candidate).toList();
            jobs.subList(500, 1_000).forEach(job -> election.server.takenByOthers.add(job.key));
            jobs.forEach(Job::admit);
            election.turn();
            assertThat(withoutNews(election.journal())).containsExactly("open", "try 1000 keys", "check");
            assertThat(jobs.subList(0, 500)).allMatch(Job::leads);
            assertThat(jobs.subList(500, 1_000)).noneMatch(Job::leads);
            election.turnAfter(RETRY_INTERVAL);
            assertThat(withoutNews(election.journal())).containsExactly("try 500 keys");
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL);
            assertThat(withoutNews(election.journal())).containsExactly("try 500 keys", "check");
            assertThat(jobs).allMatch(Job::leads);
        }

        @Test
        void aCandidateThatComesLaterIsTriedAtOnce() {
            election.leader();
            Job other = election.candidate(2);
            other.admit();
            election.turn();
            assertThat(other.leads()).isTrue();
        }

        @Test
        void anObserverThatThrowsDoesNotDeafenTheOthers() {
            Job job = election.candidate(1);
            List<Leadership> heard = new ArrayList<>();
            for (Runnable before : List.<Runnable>of(
                    () -> {
                        throw new AssertionError("scripted");
                    },
                    () -> {})) {
                job.candidate.observers.add(new ElectionObserver() {
                    @Override
                    public void elected(Leadership leadership) {
                        before.run();
                        heard.add(leadership);
                    }
                });
            }
            job.admit();
            election.turn();
            election.callbacks.runAll();
            assertThat(heard).hasSize(1);
        }

        @Test
        void observersHearOfTriesChecksAndTerms() {
            Job job = election.candidate(1);
            List<String> heard = new ArrayList<>();
            job.candidate.observers.add(new ElectionObserver() {
                @Override
                public void sessionOpened(Duration took) {
                    heard.add("opened");
                }

                @Override
                public void sessionFailed(Fault fault, String message) {
                    heard.add("failed " + fault);
                }

                @Override
                public void attempted(boolean granted, Duration took) {
                    heard.add("attempted " + granted);
                }

                @Override
                public void checked(Duration took) {
                    heard.add("checked in " + took.toMillis());
                }

                @Override
                public void elected(Leadership leadership) {
                    heard.add("elected " + leadership.term());
                }

                @Override
                public void revoked(Leadership leadership, RevocationReason reason, Duration lasted) {
                    heard.add("revoked " + leadership.term() + " " + reason + " after " + lasted.toMillis());
                }

                @Override
                public void leaderChanged(LeaderInfo leader) {
                    heard.add("leader " + leader.instanceId());
                }
            });
            job.admit();
            election.opens.add(fault(Fault.UNREACHABLE));
            election.turn();
            election.server.takenByOthers.add(job.key);
            election.turnAfter(RECONNECT_STEP);
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL);
            election.session().checks.add(() -> {
                election.ticker.advance(Duration.ofMillis(40));
                throw new LockSessionException(Fault.CONNECTION_LOST, "scripted");
            });
            election.turnAfter(CHECK_INTERVAL);
            election.callbacks.runAll();
            assertThat(heard)
                    .containsExactly(
                            "failed UNREACHABLE",
                            "opened",
                            "attempted false",
                            "attempted true",
                            "checked in 0",
                            "elected 1",
                            "leader " + ScriptedElection.INSTANCE,
                            "revoked 1 SESSION_LOST after 3040",
                            "failed CONNECTION_LOST");
        }
    }

    @Nested
    class TheLease {

        private Duration remaining(Job job) {
            return job.candidate.trustedLeadership().map(Leadership::remaining).orElse(Duration.ZERO);
        }

        @Test
        void countsFromTheStartOfTheFirstCheck() {
            Job job = election.candidate(1);
            job.admit();
            election.opens.add(() -> {
                ScriptedSession session = election.newSession();
                session.checks.add(() -> {
                    election.ticker.advance(Duration.ofMillis(2_900));
                    return Set.of(job.key);
                });
                return session;
            });
            election.turn();
            assertThat(remaining(job))
                    .isBetween(nearly(TRUST_WINDOW.minusMillis(2_900)), TRUST_WINDOW.minusMillis(2_900));
        }

        @Test
        void countsFromTheStartOfTheLastGoodCheck() {
            Job job = election.leader();
            election.session().checks.add(() -> {
                election.ticker.advance(Duration.ofMillis(2_900));
                return Set.of(job.key);
            });
            election.turnAfter(CHECK_INTERVAL);
            assertThat(remaining(job))
                    .isBetween(nearly(TRUST_WINDOW.minusMillis(2_900)), TRUST_WINDOW.minusMillis(2_900));
            election.turnAfter(
                    Duration.ofMillis(100)); // The next check begins an interval after the start of this one.
            assertThat(remaining(job)).isBetween(nearly(TRUST_WINDOW), TRUST_WINDOW);
        }

        /** A lease has a resolution of two nanoseconds. */
        private Duration nearly(Duration duration) {
            return duration.minusNanos(1);
        }

        @Test
        void isCheckedOncePerInterval() {
            election.leader();
            election.run(CHECK_INTERVAL.multipliedBy(20));
            assertThat(count(election.journal(), "check")).isEqualTo(20);
        }

        @Test
        void runsOutByItselfWhenTheElectionThreadStandsStill() { // C38
            Job job = election.leader();
            election.ticker.advance(TRUST_WINDOW.minusNanos(2));
            assertThat(job.leads()).isTrue();
            election.ticker.advanceNanos(2);
            assertThat(job.leads()).isFalse();
            assertThat(job.candidate.trustedLeadership()).isEmpty();
        }

        @Test
        void thatRanOutWhileTheThreadStoodStillIsTheEndOfTheTermWithoutAnotherCheck() { // C38
            Job job = election.leader();
            election.turnAfter(Duration.ofMinutes(1));
            List<String> journal = election.journal();
            assertThat(journal).startsWith("abort, nobody leading", "open");
            election.callbacks.runAll();
            assertThat(election.journal()).containsExactly("onRevoked 1 LEASE_EXPIRED");
            assertThat(job.leads()).isFalse();
        }

        @Test
        void thatRunsOutDuringACheckIsTheEndOfTheTermEvenIfTheCheckSucceeds() {
            Job job = election.leader();
            ScriptedSession session = election.session();
            session.checks.add(() -> {
                election.ticker.advance(TRUST_WINDOW);
                return Set.of(job.key);
            });
            election.turnAfter(CHECK_INTERVAL);
            assertThat(job.leads()).isFalse();
            assertThat(session.isEnded()).isTrue();
            assertThat(job.candidate.standing().lastRevocation()).isEqualTo(RevocationReason.LEASE_EXPIRED);
            assertThat(election.journal()).containsSubsequence("check", "abort, nobody leading");
        }

        @Test
        void thatRunsOutDuringACheckIsNotRevivedWhoeverLookedMeanwhile() {
            Job job = election.leader();
            List<Boolean> seen = new ArrayList<>();
            election.session().checks.add(() -> {
                election.ticker.advance(TRUST_WINDOW);
                seen.add(job.leads());
                return Set.of(job.key);
            });
            election.turnAfter(CHECK_INTERVAL);
            assertThat(seen).containsExactly(false);
            assertThat(job.leads()).isFalse();
        }

        @Test
        void ofOneKeyRunsOutWithThatOfAllOthers() {
            Job first = election.leader();
            Job second = election.candidate(2);
            second.admit();
            election.turnAfter(CHECK_INTERVAL.minusMillis(1));
            assertThat(second.leads()).isTrue();
            election.session().checks.add(() -> {
                election.ticker.advance(TRUST_WINDOW);
                return Set.of(first.key, second.key);
            });
            election.turnAfter(CHECK_INTERVAL);
            election.callbacks.runAll();
            assertThat(election.journal()).contains("onRevoked 1 LEASE_EXPIRED").doesNotContain("onElected 2");
            assertThat(first.leads() || second.leads()).isFalse();
        }

        @Test
        void ofANewTermIsANewOne() { // X12
            Job job = election.leader();
            for (int term = 2; term <= 11; term++) {
                Leadership former = job.candidate.trustedLeadership().orElseThrow();
                election.session().checks.add(fault(Fault.CONNECTION_LOST));
                election.turnAfter(CHECK_INTERVAL);
                election.run(SECOND);
                Leadership current = job.candidate.trustedLeadership().orElseThrow();
                assertThat(current.term()).isEqualTo(term);
                assertThat(former.isValid()).isFalse();
            }
        }
    }

    @Nested
    class Losing {

        private static RevocationReason reasonOf(Fault fault) {
            return switch (fault) {
                case TIMEOUT -> RevocationReason.CHECK_TIMEOUT;
                case STANDBY, READ_ONLY -> RevocationReason.NOT_WRITABLE;
                case LOCK_LOST, LOCKS_NOT_REAL, SHARED_BACKEND, LEASE_NOT_ENFORCED -> RevocationReason.LOCK_LOST;
                case UNREACHABLE,
                        LOGIN_REFUSED,
                        CONNECTION_LOST,
                        LOCK_TABLE_FULL,
                        UNSUPPORTED_SERVER,
                        STATEMENT_FAILED -> RevocationReason.SESSION_LOST;
            };
        }

        @ParameterizedTest
        @EnumSource(Fault.class)
        void everyFaultOfACheckEndsTheTermWithItsReason(Fault fault) { // C13, C15, X10
            Job job = election.leader();
            ScriptedSession session = election.session();
            session.checks.add(fault(fault));
            election.turnAfter(CHECK_INTERVAL);
            assertThat(job.leads()).isFalse();
            assertThat(session.isEnded()).isTrue();
            election.callbacks.runAll();
            assertThat(election.journal())
                    .containsExactly("check", "abort, nobody leading", "onRevoked 1 " + reasonOf(fault));
            assertThat(problem()).isEqualTo(fault);
        }

        @ParameterizedTest
        @EnumSource(Fault.class)
        void everyFaultWhileWaitingEndsTheTermAtOnce(Fault fault) {
            Job job = election.leader();
            election.session().waits.add(fault(fault));
            election.loop.await(SECOND.toNanos());
            assertThat(job.leads()).isFalse();
            election.callbacks.runAll();
            assertThat(election.journal()).containsExactly("abort, nobody leading", "onRevoked 1 " + reasonOf(fault));
        }

        @Test
        void aFaultOfATryForOneKeyEndsTheTermsOfTheOthers() {
            Job leader = election.leader();
            election.candidate(2).admit();
            election.session().tries.add(fault(Fault.STATEMENT_FAILED));
            election.turn();
            election.callbacks.runAll();
            assertThat(leader.leads()).isFalse();
            assertThat(election.journal())
                    .containsExactly("try [bigint:2]", "abort, nobody leading", "onRevoked 1 SESSION_LOST");
        }

        @Test
        void aLockThatIsGoneThoughTheSessionLivesIsLost() { // C13 (c)
            Job job = election.leader();
            election.session().checks.add(Set::of);
            election.turnAfter(CHECK_INTERVAL);
            election.callbacks.runAll();
            assertThat(job.leads()).isFalse();
            assertThat(election.journal()).containsExactly("check", "abort, nobody leading", "onRevoked 1 LOCK_LOST");
        }

        @Test
        void aLockThatNobodyTookIsDoubtEnough() {
            Job job = election.leader();
            election.session().checks.add(() -> Set.of(job.key, LockKey.of(99)));
            election.turnAfter(CHECK_INTERVAL);
            assertThat(job.leads()).isFalse();
            assertThat(election.journal()).containsExactly("check", "abort, nobody leading");
            assertThat(problem()).isEqualTo(Fault.LOCK_LOST);
        }

        @Test
        void aFollowerThatHoldsALockIsDoubtEnough() {
            Job follower = election.follower();
            election.session().checks.add(() -> Set.of(LockKey.of(1)));
            CompletableFuture<Boolean> verified = election.requests.verify(follower.candidate);
            election.turn();
            assertThat(election.journal()).containsExactly("check", "abort, nobody leading");
            election.callbacks.runAll();
            assertThat(verified).isCompletedWithValue(false);
        }

        @Test
        void theKeyIsNotTriedAgainBeforeOnRevokedHasReturned() {
            Job job = election.leader();
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
            for (Duration time = Duration.ZERO; time.compareTo(Duration.ofMinutes(2)) < 0; time = time.plus(SECOND)) {
                election.turnAfter(SECOND); // The callbacks don't run.
            }
            assertThat(election.journal()).contains("open").noneMatch(entry -> entry.startsWith("try"));
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.REVOKING);
            election.callbacks.runAll();
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.REVOKING);
            election.turnAfter(RETRY_INTERVAL);
            assertThat(election.journal()).contains("onRevoked 1 SESSION_LOST", "try [bigint:1]");
            assertThat(job.leads()).isTrue();
        }

        @Test
        void aTermThatIsLostBeforeItWasToldIsNotToldAndTheNextOneIs() {
            Job job = election.candidate(1);
            job.admit();
            election.turn();
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
            election.turnAfter(CHECK_INTERVAL);
            election.callbacks.runAll();
            election.run(SECOND);
            assertThat(election.journal())
                    .contains("onElected 2")
                    .noneMatch(entry -> entry.startsWith("onRevoked") || entry.equals("onElected 1"));
        }

        @Test
        void anAbortThatFailsDoesNotEndTheElection() {
            Job job = election.leader();
            election.session().abortFailure = new IllegalStateException("scripted");
            election.session().checks.add(fault(Fault.TIMEOUT));
            election.run(CHECK_INTERVAL.plus(SECOND));
            assertThat(job.leads()).isTrue();
            assertThat(election.journal()).contains("onRevoked 1 CHECK_TIMEOUT", "onElected 2");
        }

        @Test
        void aServerThatGrantsALockAndNeverShowsItIsOneOutage() {
            try (LogCapture log = LogCapture.of(SessionKeeper.class, Level.INFO)) {
                for (int i = 0; i < 60; i++) {
                    election.opens.add(() -> {
                        ScriptedSession session = election.newSession();
                        session.checks.add(Set::of);
                        return session;
                    });
                }
                election.candidate(1).admit();
                election.run(Duration.ofMinutes(2));
                assertThat(count(election.journal(), "open")).isGreaterThan(10);
                assertThat(log.events()).hasSize(1);
            }
        }

        @Test
        void anOutageIsOneWarningAtItsStartOneLineAtItsEndAndAReminderNowAndThen() {
            election.leader();
            try (LogCapture log = LogCapture.of(SessionKeeper.class, Level.INFO)) {
                election.session().checks.add(fault(Fault.UNREACHABLE));
                for (int i = 0; i < 500; i++) {
                    election.opens.add(fault(Fault.UNREACHABLE));
                }
                election.run(Duration.ofMinutes(4));
                assertThat(log.messages(Level.WARN))
                        .containsExactly("[test] No trustworthy session: UNREACHABLE: scripted UNREACHABLE");
                election.run(Duration.ofMinutes(4));
                assertThat(log.messages(Level.WARN))
                        .hasSize(2)
                        .last()
                        .asString()
                        .startsWith("[test] No trustworthy session for 3");
                election.opens.clear();
                election.run(Duration.ofMinutes(2));
                assertThat(log.messages(Level.INFO))
                        .filteredOn(line -> line.contains("Session back"))
                        .hasSize(1);
            }
        }
    }

    @Nested
    class Resigning {

        @Test
        void onRevokedReturnsBeforeTheLockIsReleased() {
            Job job = election.leader();
            job.resign();
            CompletableFuture<Void> released = job.released;
            election.turn();
            assertThat(job.leads()).isFalse();
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.RESIGNING);
            assertThat(election.session().held).containsExactly(job.key);
            election.callbacks.runAll();
            assertThat(released).isNotDone();
            election.turn();
            assertThat(election.journal())
                    .containsExactly(
                            "onRevoked 1 RESIGNED", "release bigint:1, nobody leading", "tell \"released bigint:1\"");
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.FOLLOWER);
            election.callbacks.runAll();
            assertThat(released).isCompleted();
        }

        @Test
        void theLockIsStillCheckedUntilItIsReleased() {
            election.leader().resign();
            for (int i = 0; i < 29; i++) {
                election.turnAfter(SECOND);
            }
            assertThat(election.journal()).hasSize(9).containsOnly("check");
        }

        @Test
        void theRevokeTimeoutReleasesTheLockAllTheSame() { // C36
            Job job = election.leader();
            job.resign();
            CompletableFuture<Void> released = job.released;
            election.turn();
            election.turnAfter(REVOKE_TIMEOUT.minusMillis(1));
            assertThat(count(election.journal(), "release")).isZero();
            election.turnAfter(Duration.ofMillis(1));
            assertThat(count(election.journal(), "release")).isOne();
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.REVOKING);
            for (int i = 0; i < 60; i++) {
                election.turnAfter(SECOND);
            }
            assertThat(count(election.journal(), "try"))
                    .as("tries while onRevoked is under way")
                    .isZero();
            election.callbacks.runAll();
            assertThat(released).isCompleted();
            election.run(COOL_DOWN.plus(RETRY_INTERVAL));
            assertThat(job.leads()).isTrue();
        }

        @Test
        void theKeyIsNotTriedAgainInTheCoolDown() {
            Job job = election.leader();
            job.resign();
            election.turn();
            election.callbacks.runAll();
            election.turn();
            election.run(COOL_DOWN.minusMillis(1));
            assertThat(election.journal()).noneMatch(entry -> entry.startsWith("try"));
            election.run(RETRY_INTERVAL);
            assertThat(election.journal()).contains("try [bigint:1]");
            assertThat(job.leads()).isTrue();
        }

        @Test
        void aFollowerThatResignsHoldsNoLockAndLetsOthersGoFirst() {
            Job job = election.follower();
            job.resign();
            CompletableFuture<Void> released = job.released;
            election.turn();
            election.callbacks.runAll();
            assertThat(released).isCompleted();
            election.run(COOL_DOWN.minusMillis(1));
            assertThat(election.journal()).isEmpty();
        }

        @Test
        void aSessionThatIsLostMeanwhileTakesTheLockWithIt() {
            Job job = election.leader();
            job.resign();
            CompletableFuture<Void> released = job.released;
            election.turn();
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
            election.turnAfter(CHECK_INTERVAL);
            election.run(SECOND);
            assertThat(released).isCompleted();
            assertThat(election.journal())
                    .contains("check", "abort, nobody leading", "onRevoked 1 RESIGNED")
                    .noneMatch(entry -> entry.startsWith("release"));
        }

        @ParameterizedTest
        @ValueSource(booleans = {true, false})
        void theCoolDownCountsFromOnRevokedAlsoIfTheLockWentBefore(boolean lost) {
            Job job = election.leader();
            job.resign();
            election.turn();
            if (lost) {
                election.session().checks.add(fault(Fault.CONNECTION_LOST));
            }
            for (int i = 0; i < 40; i++) {
                election.turnAfter(SECOND); // Long after the revoke timeout.
            }
            assertThat(election.session().held).isEmpty();
            election.journal();
            election.run(COOL_DOWN.minusMillis(1));
            assertThat(election.journal()).contains("onRevoked 1 RESIGNED").noneMatch(entry -> entry.startsWith("try"));
            election.run(RETRY_INTERVAL.multipliedBy(2));
            assertThat(job.leads()).isTrue();
        }

        @Test
        void aReleaseThatFailsEndsTheSession() { // C26
            Job job = election.leader();
            ScriptedSession session = election.session();
            job.resign();
            CompletableFuture<Void> released = job.released;
            session.releases.add(fault(Fault.LOCK_LOST));
            election.turn();
            election.callbacks.runAll();
            election.turn();
            assertThat(session.isEnded()).isTrue();
            assertThat(problem()).isEqualTo(Fault.LOCK_LOST);
            election.callbacks.runAll();
            assertThat(released).isCompleted();
        }

        @Test
        void resigningTwiceIsOneRelease() {
            Job job = election.leader();
            job.resign();
            CompletableFuture<Void> first = job.released;
            job.resign();
            CompletableFuture<Void> second = job.released;
            election.turn();
            election.callbacks.runAll();
            election.turn();
            election.callbacks.runAll();
            assertThat(first).isCompleted();
            assertThat(second).isCompleted();
            assertThat(count(election.journal(), "release")).isOne();
        }

        @Test
        void theOtherKeysOfTheSessionStay() {
            Job job = election.leader();
            Job other = election.candidate(2);
            other.admit();
            election.turn();
            job.resign();
            election.run(SECOND.multipliedBy(20));
            assertThat(other.leads()).isTrue();
            assertThat(other.candidate.state().terms()).isOne();
            assertThat(count(election.journal(), "abort")).isZero();
        }

        @Test
        void aStartThatFailsIsRevokedAndReleased() { // C28
            Job job = election.candidate(1);
            job.failsWith = new IllegalStateException("scripted");
            job.admit();
            election.turn();
            election.callbacks.runAll();
            election.turn();
            assertThat(job.leads()).isFalse();
            election.callbacks.runAll();
            election.turn();
            assertThat(withoutNews(election.journal()))
                    .containsExactly(
                            "open",
                            "try [bigint:1]",
                            "check",
                            "onElected 1",
                            "onRevoked 1 CALLBACK_FAILED",
                            "release bigint:1, nobody leading",
                            "tell \"released bigint:1\"");
            assertThat(job.candidate.standing().lastRevocation()).isEqualTo(RevocationReason.CALLBACK_FAILED);
        }

        @Test
        void aStartThatSucceedsAfterOneThatFailedIsAGoodTerm() {
            Job job = election.candidate(1);
            job.failsWith = new IllegalStateException("scripted");
            job.admit();
            election.run(SECOND);
            job.failsWith = null;
            election.run(Duration.ofMinutes(1));
            assertThat(job.leads()).isTrue();
            assertThat(job.candidate.state().terms()).isEqualTo(2);
        }

        @Test
        void startsThatFailAreTriedLessAndLessOften() { // C28
            Job job = election.candidate(1);
            job.failsWith = new AssertionError("scripted");
            job.admit();
            election.run(Duration.ofMinutes(1)); // Waits about 2, 2 + 4, 2 + 4 + 8, 2 + 4 + 8 + 16 s.
            assertThat(job.candidate.state().terms()).isEqualTo(5);
            election.run(Duration.ofMinutes(64)); // At the longest 64 s.
            assertThat(job.candidate.state().terms()).isBetween(60L, 66L);
        }
    }

    @Nested
    class Pausing {

        @Test
        void aLeaderThatPausesReleasesTheLockInOrderAndStaysOut() {
            Job job = election.leader();
            job.signal(new CandidateState.Pause());
            election.run(Duration.ofMinutes(1));
            List<String> journal = election.journal();
            assertThat(journal)
                    .containsSubsequence(
                            "onRevoked 1 RESIGNED", "release bigint:1, nobody leading", "tell \"released bigint:1\"");
            assertThat(journal).noneMatch(entry -> entry.startsWith("try"));
            assertThat(job.candidate.standing().paused()).isTrue();
        }

        @Test
        void aPausedCandidateKeepsItsSessionAlive() {
            election.candidate(1).admit(true);
            election.turn();
            assertThat(election.journal()).containsExactly("open");
            election.run(CHECK_INTERVAL.multipliedBy(10));
            assertThat(election.journal()).hasSize(10).containsOnly("check");
        }

        @Test
        void aCandidateThatResumesCompetesAgainWithinARetryInterval() {
            Job job = election.candidate(1);
            job.admit(true);
            election.run(SECOND.multipliedBy(10));
            assertThat(job.leads()).isFalse();
            job.signal(new CandidateState.Resume());
            election.run(RETRY_INTERVAL.plusMillis(1));
            assertThat(job.leads()).isTrue();
            assertThat(job.candidate.standing().paused()).isFalse();
        }
    }

    @Nested
    class TakingOver {

        private Job candidateThatGetsTheLock() {
            Job job = election.candidate(1);
            job.admit();
            election.turn();
            election.callbacks.runAll();
            return job;
        }

        private void assertThatItLeadsAfter(Job job, Duration delay) {
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
            assertThat(election.session().held).containsExactly(job.key);
            election.run(delay.minusMillis(1));
            assertThat(job.leads()).isFalse();
            assertThat(election.journal()).contains("check").doesNotContain("onElected 1");
            election.run(Duration.ofMillis(2));
            assertThat(job.leads()).isTrue();
            assertThat(election.journal())
                    .contains("onElected " + job.candidate.state().terms());
        }

        @Test
        void waitsUntilAServerThatRestartedHasRunForALease() {
            election.server.uptime = Duration.ofSeconds(4);
            assertThatItLeadsAfter(candidateThatGetsTheLock(), LEASE.minusSeconds(4));
        }

        @Test
        void doesNotWaitIfTheServerHasRunForALease() {
            election.server.uptime = LEASE;
            assertThat(candidateThatGetsTheLock().leads()).isTrue();
        }

        @Test
        void waitsALeaseAfterAPromotion() {
            Job job = election.follower();
            election.session().tries.add(fault(Fault.CONNECTION_LOST));
            election.server.timeline++;
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL);
            election.turnAfter(RECONNECT_STEP);
            assertThatItLeadsAfter(job, LEASE);
        }

        @Test
        void waitsALeaseAfterAPromotionAlsoIfItReconnectsMeanwhile() {
            Job job = election.follower();
            election.session().tries.add(fault(Fault.CONNECTION_LOST));
            election.server.timeline++;
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL);
            election.turnAfter(RECONNECT_STEP);
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
            election.session().waits.add(fault(Fault.CONNECTION_LOST));
            election.loop.await(0);
            election.run(LEASE.minusMillis(1));
            assertThat(election.journal()).doesNotContain("onElected 1");
            election.run(Duration.ofMillis(2));
            assertThat(election.journal()).contains("onElected 1");
        }

        @Test
        void aServerThatDoesNotTellItsTimelineWasNotPromoted() {
            election.server.timeline = 0;
            Job job = election.follower();
            for (int timeline : new int[] {5, 0, 5}) {
                election.session().tries.add(fault(Fault.CONNECTION_LOST));
                election.server.timeline = timeline;
                election.turnAfter(RETRY_INTERVAL);
                election.run(SECOND);
            }
            election.server.takenByOthers.clear();
            election.run(RETRY_INTERVAL.plusMillis(1));
            assertThat(job.leads()).isTrue();
        }

        @Test
        void noneNeverWaits() {
            use(ElectorOptions.builder().takeoverDelay(TakeoverDelay.NONE));
            election.server.uptime = Duration.ofSeconds(1);
            assertThat(candidateThatGetsTheLock().leads()).isTrue();
        }

        @Test
        void aFixedDelayIsWaitedForEachTime() {
            use(ElectorOptions.builder().takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(20))));
            assertThatItLeadsAfter(candidateThatGetsTheLock(), Duration.ofSeconds(20));
        }

        @Test
        void nothingIsWaitedForAfterAnOrderlyRelease() {
            use(ElectorOptions.builder().takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(20))));
            Job job = election.follower();
            election.server.takenByOthers.clear();
            election.hear("released bigint:1");
            election.turn();
            assertThat(job.leads()).isTrue();
        }

        @Test
        void anOrderlyReleaseIsForgottenWhenSomebodyElseGotTheLock() {
            use(ElectorOptions.builder().takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(20))));
            Job job = election.follower();
            election.hear("released bigint:1");
            election.turn(); // Too late: taken again.
            election.server.takenByOthers.clear();
            election.turnAfter(RETRY_INTERVAL);
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        }

        /** The former leader, from before the server's restart, may be cut off and trust itself still. */
        @Test
        void aReleaseByOneThatOnlyWaitedToLeadVouchesForNobody() {
            election.server.uptime = SECOND;
            Job waiting = candidateThatGetsTheLock();
            waiting.resign();
            election.turn();
            assertThat(election.journal()).endsWith("release bigint:1, nobody leading", "tell \"freed bigint:1\"");
            election = new ScriptedElection();
            election.server.uptime = SECOND;
            Job next = election.follower();
            election.server.takenByOthers.clear();
            election.hear("freed bigint:1");
            election.turn();
            assertThat(election.journal()).startsWith("try [bigint:1]");
            assertThat(next.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        }

        @Test
        void anOrderlyReleaseIsForgottenWithTheSession() {
            use(ElectorOptions.builder().takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(20))));
            Job job = election.follower();
            election.hear("released bigint:1");
            election.session().waits.add(fault(Fault.CONNECTION_LOST));
            election.loop.await(0);
            election.server.takenByOthers.clear();
            election.run(SECOND);
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
        }

        @Test
        void aSessionThatIsLostMeanwhileIsNoTerm() {
            election.server.uptime = Duration.ofSeconds(4);
            Job job = candidateThatGetsTheLock();
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
            election.turnAfter(CHECK_INTERVAL);
            election.callbacks.runAll();
            assertThat(election.journal()).noneMatch(entry -> entry.startsWith("on"));
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.FOLLOWER);
            assertThat(job.candidate.state().terms()).isZero();
        }

        @Test
        void aProcessThatStoodStillMeanwhileDoesNotLeadOnAnOldCheck() { // C38
            election.server.uptime = Duration.ofSeconds(4);
            Job job = candidateThatGetsTheLock();
            List<Boolean> seen = new ArrayList<>();
            election.session().checks.add(() -> {
                seen.add(job.leads());
                throw new LockSessionException(Fault.CONNECTION_LOST, "scripted");
            });
            election.turnAfter(Duration.ofMinutes(5));
            assertThat(seen).containsExactly(false);
            election.callbacks.runAll();
            assertThat(election.journal()).doesNotContain("onElected 1");
        }
    }

    @Nested
    class Reconnecting {

        @Test
        void waitsLongerAfterEachFailure() {
            for (int i = 0; i < 4; i++) {
                election.opens.add(fault(Fault.UNREACHABLE));
            }
            election.candidate(1).admit();
            for (int failures = 1; failures <= 4; failures++) {
                Duration delay = RECONNECT_STEP.multipliedBy(failures);
                assertThat(election.turn()).isEqualTo(delay);
                election.turnAfter(delay.minusNanos(1));
                assertThat(election.journal()).containsExactly("open");
                election.ticker.advanceNanos(1);
            }
            election.turn();
            assertThat(election.journal()).startsWith("open", "try [bigint:1]");
        }

        @Test
        void tellsItsOutageWhileItLasts() {
            election.opens.add(fault(Fault.UNREACHABLE));
            election.opens.add(fault(Fault.STANDBY));
            election.candidate(1).admit();
            election.turn();
            assertThat(problem()).isEqualTo(Fault.UNREACHABLE);
            election.turnAfter(SECOND);
            assertThat(problem()).isEqualTo(Fault.STANDBY);
            assertThat(election.loop.view().facts()).isNull();
            election.turnAfter(SECOND);
            assertThat(election.loop.view().problem()).isNull();
            assertThat(election.loop.view().facts()).isNotNull();
        }

        @Test
        void opensAtMostOneSessionPerTurn() {
            election.leader();
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
            election.turnAfter(CHECK_INTERVAL);
            assertThat(election.journal()).containsExactly("check", "abort, nobody leading");
            election.opens.add(() -> {
                ScriptedSession session = election.newSession();
                session.checks.add(fault(Fault.CONNECTION_LOST));
                return session;
            });
            election.callbacks.runAll();
            election.turn();
            assertThat(count(election.journal(), "open")).isOne();
        }

        @Test
        void triesAtOnceAfterASessionThatLivedLongAndLaterAfterOneThatDidNot() {
            election.leader();
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
            assertThat(election.turnAfter(CHECK_INTERVAL)).isZero();
            election.callbacks.runAll();
            election.opens.add(() -> {
                ScriptedSession session = election.newSession();
                session.tries.add(fault(Fault.CONNECTION_LOST));
                return session;
            });
            assertThat(election.turn()).isEqualTo(RECONNECT_STEP);
        }

        @Test
        void forgetsItsFailuresOnlyWhenASessionHasProvedItselfForAWhile() {
            for (int i = 0; i < 3; i++) {
                election.opens.add(fault(Fault.UNREACHABLE));
            }
            Job job = election.candidate(1);
            job.admit();
            election.run(RECONNECT_STEP.multipliedBy(6));
            election.turn();
            assertThat(job.leads()).isTrue();
            election.session().waits.add(fault(Fault.CONNECTION_LOST));
            election.loop.await(0); // Too soon to forget: the fourth failure.
            election.callbacks.runAll();
            assertThat(election.turn()).isEqualTo(RECONNECT_STEP.multipliedBy(4));
            election.run(Duration.ofMinutes(1));
            assertThat(job.leads()).isTrue();
            election.session().waits.add(fault(Fault.CONNECTION_LOST));
            election.loop.await(0);
            election.opens.add(fault(Fault.UNREACHABLE));
            assertThat(election.turn()).isEqualTo(RECONNECT_STEP);
        }

        @Test
        void forgetsItsFailuresAlsoWhileItFollows() {
            election.opens.add(fault(Fault.UNREACHABLE));
            election.opens.add(fault(Fault.UNREACHABLE));
            Job job = election.candidate(1);
            election.server.takenByOthers.add(job.key);
            job.admit();
            election.run(Duration.ofMinutes(1));
            election.session().waits.add(fault(Fault.CONNECTION_LOST));
            election.loop.await(0);
            election.opens.add(fault(Fault.UNREACHABLE));
            assertThat(election.turn()).isEqualTo(RECONNECT_STEP);
        }

        @Test
        void aDefectOfTheOpenerIsAnOutageLikeAnother() {
            election.opens.add(() -> {
                throw new IllegalStateException("scripted");
            });
            election.candidate(1).admit();
            assertThat(election.turn()).isEqualTo(RECONNECT_STEP);
            assertThat(problem()).isEqualTo(Fault.UNREACHABLE);
        }

        /** R39: back soon after the database is, however long it was away. */
        @Test
        void anAttemptIsMadeInEachRetryIntervalWhileTheServerCannotBeReached() {
            Backoff backoff = Backoff.of(ElectorOptions.defaults());
            List<Long> millis = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                millis.add(backoff.afterFailure(Fault.UNREACHABLE).toMillis());
            }
            assertThat(millis).allSatisfy(delay -> assertThat(delay).isBetween(800L, 1_200L));
            assertThat(new HashSet<>(millis)).as("jitter").hasSizeGreaterThan(5);
        }

        @Test
        void theDelaysGrowToTheirLimitWhileSomebodyHasToMendIt() {
            Backoff backoff = Backoff.of(ElectorOptions.defaults());
            List<Long> millis = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                millis.add(backoff.afterFailure(Fault.UNSUPPORTED_SERVER).toMillis());
            }
            assertThat(millis.get(0)).isBetween(800L, 1_200L);
            assertThat(millis.subList(5, 20))
                    .allSatisfy(delay -> assertThat(delay).isBetween(4_000L, 6_000L));
            backoff.reset();
            assertThat(backoff.afterFailure(Fault.UNSUPPORTED_SERVER).toMillis())
                    .isBetween(800L, 1_200L);
        }
    }

    @Nested
    class Closing {

        private CompletableFuture<Void> admitted(Job job) {
            job.admit();
            CompletableFuture<Void> left = job.left();
            election.turn();
            election.callbacks.runAll();
            return left;
        }

        @Test
        void aFollowerLeavesAtOnceAndTheSessionIsClosed() {
            Job job = election.candidate(1);
            election.server.takenByOthers.add(job.key);
            CompletableFuture<Void> left = admitted(job);
            election.journal();
            job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
            election.turn();
            assertThat(left).isCompleted();
            assertThat(election.journal()).containsExactly("close");
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.STOPPED);
            election.turnAfter(Duration.ofMinutes(1));
            assertThat(election.journal()).as("after it has left").isEmpty(); // C34
        }

        @Test
        void aLeaderLeavesWhenOnRevokedHasReturnedAndTheLockIsReleased() {
            Job job = election.candidate(1);
            CompletableFuture<Void> left = admitted(job);
            election.journal();
            job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
            election.turn();
            assertThat(job.leads()).isFalse();
            assertThat(left).isNotDone();
            election.callbacks.runAll();
            election.turn();
            assertThat(left).isCompleted();
            assertThat(election.journal())
                    .containsExactly(
                            "onRevoked 1 CLOSED",
                            "release bigint:1, nobody leading",
                            "tell \"released bigint:1\"",
                            "close");
        }

        @Test
        void aLeaderWhoseOnRevokedHangsLeavesAfterTheRevokeTimeout() { // C36
            Job job = election.candidate(1);
            CompletableFuture<Void> left = admitted(job);
            job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
            election.turn();
            election.callbacks.loseAll();
            election.run(REVOKE_TIMEOUT.minusMillis(1));
            assertThat(left).isNotDone();
            election.run(Duration.ofMillis(2));
            assertThat(left).isCompleted();
            assertThat(election.journal()).endsWith("close");
        }

        @Test
        void aCandidateThatTakesOverReleasesTheLockAndWasNeverElected() {
            election.server.uptime = SECOND;
            Job job = election.candidate(1);
            CompletableFuture<Void> left = admitted(job);
            assertThat(job.role()).isEqualTo(LeaderStatus.Role.TAKING_OVER);
            job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
            election.turn();
            election.callbacks.runAll();
            assertThat(left).isCompleted();
            assertThat(election.journal())
                    .endsWith("release bigint:1, nobody leading", "tell \"freed bigint:1\"", "close")
                    .noneMatch(entry -> entry.startsWith("on"));
        }

        @Test
        void aLeaderThatResignsAlreadyLeavesAfterItsOnRevoked() { // C29
            Job job = election.candidate(1);
            CompletableFuture<Void> left = admitted(job);
            job.resign();
            election.turn();
            job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
            election.turn();
            assertThat(left).isNotDone();
            election.callbacks.runAll();
            election.turn();
            assertThat(left).isCompleted();
            assertThat(election.journal())
                    .endsWith(
                            "onRevoked 1 RESIGNED",
                            "release bigint:1, nobody leading",
                            "tell \"released bigint:1\"",
                            "close");
        }

        @Test
        void aLeaderThatLosesTheSessionWhileItClosesIsRevokedOnce() { // C29
            Job job = election.candidate(1);
            CompletableFuture<Void> left = admitted(job);
            job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
            election.turn();
            election.session().checks.add(fault(Fault.CONNECTION_LOST));
            election.turnAfter(CHECK_INTERVAL);
            assertThat(left).isNotDone();
            election.callbacks.runAll();
            election.turn();
            assertThat(left).isCompleted();
            assertThat(count(election.journal(), "onRevoked")).isOne();
        }

        @Test
        void afterALossItLeavesWhenOnRevokedHasReturnedOrWouldHaveHadTheTimeTo() { // C29
            for (boolean returns : new boolean[] {true, false}) {
                election = new ScriptedElection();
                Job job = election.candidate(1);
                CompletableFuture<Void> left = admitted(job);
                election.session().checks.add(fault(Fault.CONNECTION_LOST));
                election.turnAfter(CHECK_INTERVAL);
                job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
                election.turn();
                assertThat(left).isNotDone();
                if (returns) {
                    election.callbacks.runAll();
                    election.turn();
                } else {
                    election.callbacks.loseAll();
                    election.run(REVOKE_TIMEOUT);
                    election.turn();
                }
                assertThat(left).isCompleted();
            }
        }

        @Test
        void leavesAtOnceWhileNoSessionCanBeOpened() {
            election.opens.add(fault(Fault.UNREACHABLE));
            Job job = election.candidate(1);
            CompletableFuture<Void> left = admitted(job);
            job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
            election.turn();
            assertThat(left).isCompleted();
            assertThat(election.journal()).containsExactly("open");
        }

        @Test
        void theSessionStaysOpenForTheOthers() {
            Job job = election.leader();
            Job other = election.candidate(2);
            other.admit();
            election.turn();
            job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
            election.run(SECOND.multipliedBy(5));
            assertThat(other.leads()).isTrue();
            assertThat(election.journal()).doesNotContain("close");
        }

        @Test
        void whoeverHasLeftMayComeBackWithItsTermsCountedOn() {
            Job job = election.leader();
            job.signal(new CandidateState.Close(REVOKE_TIMEOUT.toNanos()));
            election.run(SECOND);
            job.admit();
            CompletableFuture<Void> left = job.left();
            election.run(SECOND);
            assertThat(job.leads()).isTrue();
            assertThat(left).isNotDone();
            assertThat(election.journal()).contains("onRevoked 1 CLOSED", "close", "open", "onElected 2");
        }
    }

    @Nested
    class Verifying {

        @Test
        void isTrueAfterACheckThatBeganLater() {
            Job job = election.leader();
            job.verify();
            CompletableFuture<Boolean> verified = job.verified;
            election.turnAfter(Duration.ofMillis(1));
            election.callbacks.runAll();
            assertThat(verified).isCompletedWithValue(true);
            assertThat(election.journal()).containsExactly("check");
        }

        @Test
        void isOneCheckForAll() {
            Job job = election.leader();
            job.verify();
            job.verify();
            election.turnAfter(CHECK_INTERVAL);
            assertThat(election.journal()).containsExactly("check");
        }

        @ParameterizedTest
        @EnumSource(Fault.class)
        void isFalseIfTheCheckFails(Fault fault) {
            Job job = election.leader();
            job.verify();
            CompletableFuture<Boolean> verified = job.verified;
            election.session().checks.add(fault(fault));
            election.turn();
            election.callbacks.runAll();
            assertThat(verified).isCompletedWithValue(false);
        }

        @Test
        void isFalseIfTheLeaseRanOutDuringTheCheck() {
            Job job = election.leader();
            job.verify();
            CompletableFuture<Boolean> verified = job.verified;
            election.session().checks.add(() -> {
                election.ticker.advance(TRUST_WINDOW);
                return Set.of(job.key);
            });
            election.turn();
            election.callbacks.runAll();
            assertThat(verified).isCompletedWithValue(false);
        }

        @Test
        void isFalseForAFollowerAndWithoutASession() {
            Job follower = election.follower();
            follower.verify();
            CompletableFuture<Boolean> following = follower.verified;
            election.turn();
            election.callbacks.runAll();
            assertThat(following).isCompletedWithValue(false);
            election.session().waits.add(fault(Fault.CONNECTION_LOST));
            election.loop.await(0);
            follower.verify();
            CompletableFuture<Boolean> lost = follower.verified;
            election.opens.add(fault(Fault.UNREACHABLE));
            election.turnAfter(SECOND);
            election.callbacks.runAll();
            assertThat(lost).isCompletedWithValue(false);
        }
    }

    @Nested
    class Futures {

        @Test
        void areNeverCompletedOnTheElectionThread() {
            Job job = election.leader();
            List<CompletableFuture<?>> futures = new ArrayList<>();
            job.verify();
            futures.add(job.verified);
            CompletableFuture<Leadership> elected = new CompletableFuture<>();
            job.candidate.futures.completeWhenElected(elected);
            futures.add(elected);
            futures.add(
                    job.candidate.trustedLeadership().orElseThrow().revoked().toCompletableFuture());
            election.turn();
            job.resign();
            futures.add(job.released);
            election.turn();
            job.signal(new CandidateState.Drained(1));
            election.turn();
            assertThat(election.session().held).as("released").isEmpty();
            assertThat(futures).noneMatch(CompletableFuture::isDone);
            election.callbacks.runAll();
            assertThat(futures).allMatch(CompletableFuture::isDone);
        }

        @Test
        void ofTheNextTermAreCompletedWithIt() {
            Job job = election.follower();
            CompletableFuture<Leadership> elected = new CompletableFuture<>();
            job.candidate.futures.completeWhenElected(elected);
            election.run(SECOND.multipliedBy(3));
            assertThat(elected).isNotDone();
            election.server.takenByOthers.clear();
            election.run(RETRY_INTERVAL.plusMillis(1));
            assertThat(elected).isCompletedWithValueMatching(Leadership::isValid);
        }
    }

    @Nested
    class Waiting {

        @Test
        void endsWithTheNextDeadline() {
            use(ElectorOptions.builder()
                    .retryInterval(Duration.ofSeconds(40))
                    .maxReconnectDelay(Duration.ofSeconds(40))
                    .coolDown(Duration.ofMillis(700))
                    .revokeTimeout(Duration.ofMillis(500)));
            Job job = election.candidate(1);
            job.admit();
            election.server.uptime = LEASE.minusMillis(300);
            assertThat(election.turn()).as("taking over").isEqualTo(Duration.ofMillis(300));
            assertThat(election.turnAfter(Duration.ofMillis(300))).as("check").isEqualTo(Duration.ofMillis(2_700));
            job.resign();
            assertThat(election.turn()).as("revoke timeout").isEqualTo(Duration.ofMillis(500));
            election.callbacks.runAll();
            assertThat(election.turn()).as("cool-down").isEqualTo(Duration.ofMillis(700));
        }

        /** Whatever happens, whoever takes a turn exactly when the loop asked for one misses nothing. */
        @ParameterizedTest
        @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
        void missesNoDeadline(long seed) {
            RandomGenerator random = new java.util.Random(seed);
            List<Job> jobs =
                    LongStream.range(0, 3).mapToObj(election::candidate).toList();
            jobs.forEach(Job::admit);
            long lastCheckAt = election.ticker.nanos();
            for (int i = 0; i < 3_000; i++) {
                Job job = jobs.get(random.nextInt(3));
                switch (random.nextInt(12)) {
                    case 0 -> job.resign();
                    case 1 -> job.signal(new CandidateState.Pause());
                    case 2, 3 -> job.signal(new CandidateState.Resume());
                    case 4 -> election.opens.add(fault(Fault.UNREACHABLE));
                    case 5 -> {
                        if (election.loop.view().facts() != null) {
                            election.session().checks.add(fault(Fault.TIMEOUT));
                        }
                    }
                    default -> {
                        if (random.nextInt(3) > 0) {
                            election.callbacks.runAll();
                        }
                    }
                }
                Duration wait = election.turn();
                List<String> journal = election.journal();
                if (journal.contains("check") || journal.contains("open")) {
                    lastCheckAt = election.ticker.nanos();
                }
                for (Job each : jobs) {
                    CandidateState candidacy = each.candidate.state();
                    Long dueAt = candidacy.dueAt();
                    if (dueAt != null && !(candidacy.phase() instanceof CandidateState.Follower)) {
                        assertThat(dueAt - election.ticker.nanos()).isPositive();
                        assertThat(wait.toNanos()).isLessThanOrEqualTo(dueAt - election.ticker.nanos());
                    }
                    if (candidacy.leads()) {
                        assertThat(election.ticker.nanos() + wait.toNanos() - lastCheckAt)
                                .as("between two checks of a leader")
                                .isLessThanOrEqualTo(CHECK_INTERVAL.toNanos());
                        assertThat(each.leads()).isTrue();
                    }
                }
                election.ticker.advanceNanos(
                        random.nextBoolean() ? wait.toNanos() : random.nextLong(wait.toNanos() + 1));
            }
            assertThat(jobs).extracting(job -> job.candidate.state().terms()).allMatch(terms -> terms > 5);
        }
    }
}
