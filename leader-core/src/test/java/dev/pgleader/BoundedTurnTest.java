package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * R14: whatever callers ask for, and however often, a check is late by one round trip at the most. Thirty calls a second of
 * {@code currentLeader()} over round trips of 40 ms once kept a leader from ever checking again.
 */
class BoundedTurnTest extends ElectionTest {

    private static final Duration ROUND_TRIP = Duration.ofMillis(40);
    private static final int CALLS_PER_ROUND_TRIP = 40; // 1,000 a second.

    @SuppressWarnings({"FutureReturnValueIgnored", "ImmutableEnumChecker"
    }) // What comes of a call is another test's matter.
    enum Call {
        CURRENT_LEADER(ScriptedCandidate::findLeader),
        VERIFY(ScriptedCandidate::verify),
        RESUME(candidate -> candidate.signal(new CandidateState.Resume())),
        REQUEST_RESIGNATION(ScriptedCandidate::requestResignation);

        private final Consumer<ScriptedCandidate> call;

        Call(Consumer<ScriptedCandidate> call) {
            this.call = call;
        }
    }

    /** When checks began, while each round trip brings more calls. */
    private List<Duration> checksUnder(Consumer<ScriptedCandidate> calls, Duration time) {
        ScriptedCandidate leader = election.leader();
        List<Duration> checks = new ArrayList<>();
        long start = election.ticker.nanos();
        election.session().onRoundTrip = () -> {
            if (election.isLastEntry("check")) {
                checks.add(Duration.ofNanos(election.ticker.nanos() - start));
            }
            election.ticker.advance(ROUND_TRIP);
            for (int i = 0; i < CALLS_PER_ROUND_TRIP; i++) {
                calls.accept(leader);
            }
        };
        calls.accept(leader);
        while (election.ticker.nanos() - start < time.toNanos()) {
            long wait = election.loop.step();
            election.callbacks.runAll();
            if (!election.commands.isCalling()) {
                election.ticker.advanceNanos(Math.min(wait, ROUND_TRIP.toNanos()));
                calls.accept(leader);
            }
        }
        assertThat(leader.leads()).isTrue();
        assertThat(leader.state().terms()).isOne();
        return checks;
    }

    private static void assertOnTime(List<Duration> checks) {
        for (int i = 1; i < checks.size(); i++) {
            assertThat(checks.get(i).minus(checks.get(i - 1)))
                    .as("between check %d and the one before", i)
                    .isLessThanOrEqualTo(CHECK_INTERVAL.plus(ROUND_TRIP));
        }
    }

    @ParameterizedTest
    @EnumSource(Call.class)
    void noNumberOfCallsDelaysACheck(Call call) {
        List<Duration> checks = checksUnder(call.call, Duration.ofSeconds(60));
        assertThat(checks).hasSizeGreaterThanOrEqualTo(19);
        assertOnTime(checks);
    }

    @Test
    void norDoAllOfThemTogether() {
        List<Duration> checks = checksUnder(
                candidate -> List.of(Call.values()).forEach(each -> each.call.accept(candidate)),
                Duration.ofSeconds(60));
        assertOnTime(checks);
    }

    @Test
    void everyReadIsAnsweredAndAllThatWaitByOneLook() {
        ScriptedCandidate leader = election.leader();
        List<CompletableFuture<?>> answers = new ArrayList<>();
        for (int i = 0; i < 1_000; i++) {
            leader.verify();
            answers.add(leader.verified);
            answers.add(leader.findLeader());
        }
        election.turn();
        election.callbacks.runAll();
        assertThat(election.journal()).containsExactly("check", "look [bigint:1]");
        assertThat(answers).allMatch(CompletableFuture::isDone);
    }

    /** A read that comes when a check is due waits for it, and is answered right after. */
    @Test
    void aCheckThatIsDueComesFirst() {
        ScriptedCandidate leader = election.leader();
        election.session().checks.add(() -> {
            election.ticker.advance(ROUND_TRIP);
            return Set.of(leader.key);
        });
        CompletableFuture<?> found = leader.findLeader();
        election.turnAfter(CHECK_INTERVAL);
        election.callbacks.runAll();
        assertThat(election.journal()).containsExactly("check", "look [bigint:1]");
        assertThat(found).isDone();
    }

    /** However much there is to do in a turn, nothing more begins once a check is due. */
    @Test
    void nothingBeginsBeforeACheckThatHasBecomeDueInTheTurn() {
        ScriptedCandidate leader = election.leader();
        election.admitFollower(2);
        election.turn();
        election.ticker.advance(CHECK_INTERVAL.minus(ROUND_TRIP.dividedBy(2)));
        election.hearFrom(9_000, "resign bigint:1");
        election.journal();
        election.session().onRoundTrip = () -> election.ticker.advance(ROUND_TRIP);
        var unused = leader.findLeader();
        var unusedToo = leader.requestResignation();
        election.turn();
        election.turn();
        assertThat(election.journal()).startsWith("look [bigint:1]", "check");
    }
}
