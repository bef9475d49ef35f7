package dev.pgleader;

import static dev.pgleader.ScriptedElection.RECONNECT_STEP;
import static dev.pgleader.ScriptedSession.fault;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException;
import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** How a candidate comes to lead. */
class WinningTest extends ElectionTest {

    @Test
    void theFirstTurnOpensTriesChecksAndThenLeads() {
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        assertThat(candidate.leads()).isFalse();
        Duration wait = election.turn();
        assertThat(candidate.leads()).isTrue();
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.LEADER);
        assertThat(election.journal()).containsExactly("open", "try [bigint:1]", "check");
        assertThat(wait).isEqualTo(RETRY_INTERVAL);
        election.callbacks.runAll();
        assertThat(election.journal()).containsExactly("onElected 1");
    }

    @Test
    void aGrantThatTheCheckDoesNotShowIsNoLeadership() {
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        election.opens.add(() -> {
            ScriptedSession session = election.newSession();
            session.checks.add(Set::of);
            return session;
        });
        election.turn();
        election.callbacks.runAll();
        assertThat(election.journal()).containsExactly("open", "try [bigint:1]", "check", "abort, nobody leading");
        assertThat(sessionFault()).isEqualTo(Fault.LOCKS_NOT_REAL);
        assertThat(candidate.role()).isEqualTo(LeaderStatus.Role.FOLLOWER);
    }

    @ParameterizedTest
    @EnumSource(Fault.class)
    void aGrantWithoutAGoodCheckIsNoLeadership(Fault fault) {
        ScriptedCandidate candidate = election.follower();
        election.server.freeAll();
        election.session().checks.add(fault(fault));
        election.turnAfter(RETRY_INTERVAL);
        election.callbacks.runAll();
        assertThat(election.journal()).containsExactly("try [bigint:1]", "check", "abort, nobody leading");
        assertThat(candidate.state().terms()).isZero();
        assertThat(sessionFault()).isEqualTo(fault);
    }

    @Test
    void aFailedTryIsNotSomebodyElsesLeadership() { // X15
        ScriptedCandidate candidate = election.candidate(1);
        candidate.admit();
        election.opens.add(() -> {
            ScriptedSession session = election.newSession();
            session.tries.add(fault(Fault.STATEMENT_FAILED));
            return session;
        });
        election.turn();
        assertThat(election.journal()).containsExactly("open", "try [bigint:1]", "abort, nobody leading");
        assertThat(sessionFault()).isEqualTo(Fault.STATEMENT_FAILED);
        election.run(SECOND);
        assertThat(candidate.leads()).isTrue();
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
        assertThat(election.journal()).contains("try [bigint:2]").noneMatch(entry -> entry.contains("try [bigint:1"));
    }

    @Test
    void oneTurnTakesOneTryAndOneCheckForAThousandKeys() {
        List<ScriptedCandidate> candidates =
                LongStream.range(0, 1_000).mapToObj(election::candidate).toList();
        candidates.subList(500, 1_000).forEach(candidate -> election.server.take(candidate.key));
        candidates.forEach(ScriptedCandidate::admit);
        election.turn();
        assertThat(withoutTellings(election.journal())).containsExactly("open", "try 1000 keys", "check");
        assertThat(candidates.subList(0, 500)).allMatch(ScriptedCandidate::leads);
        assertThat(candidates.subList(500, 1_000)).noneMatch(ScriptedCandidate::leads);
        election.turnAfter(RETRY_INTERVAL);
        assertThat(withoutTellings(election.journal())).containsExactly("try 500 keys");
        election.server.freeAll();
        election.turnAfter(RETRY_INTERVAL);
        assertThat(withoutTellings(election.journal())).containsExactly("try 500 keys", "check");
        assertThat(candidates).allMatch(ScriptedCandidate::leads);
    }

    @Test
    void aCandidateThatComesLaterIsTriedAtOnce() {
        election.leader();
        ScriptedCandidate other = election.candidate(2);
        other.admit();
        election.turn();
        assertThat(other.leads()).isTrue();
    }

    @Test
    void anObserverThatThrowsDoesNotDeafenTheOthers() {
        ScriptedCandidate candidate = election.candidate(1);
        List<Leadership> heard = new ArrayList<>();
        for (Runnable before : List.<Runnable>of(
                () -> {
                    throw new AssertionError("scripted");
                },
                () -> {})) {
            candidate.candidate.observers.add(new ElectionObserver() {
                @Override
                public void elected(Leadership leadership) {
                    before.run();
                    heard.add(leadership);
                }
            });
        }
        candidate.admit();
        election.turn();
        election.callbacks.runAll();
        assertThat(heard).hasSize(1);
    }

    @Test
    void observersHearOfTriesChecksAndTerms() {
        ScriptedCandidate candidate = election.candidate(1);
        List<String> heard = new ArrayList<>();
        candidate.candidate.observers.add(new ElectionObserver() {
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
        candidate.admit();
        election.opens.add(fault(Fault.UNREACHABLE));
        election.turn();
        election.server.take(candidate.key);
        election.turnAfter(RECONNECT_STEP);
        election.server.freeAll();
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
                        "leader elsewhere",
                        "attempted true",
                        "checked in 0",
                        "elected 1",
                        "leader " + ScriptedElection.INSTANCE,
                        "revoked 1 SESSION_LOST after 3040",
                        "failed CONNECTION_LOST");
    }
}
