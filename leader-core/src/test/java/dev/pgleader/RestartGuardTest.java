package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSession.Facts;
import dev.pgleader.lock.LockSession.ServerRun;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** N10, R10, R13: a server is known by its identity; what it says of its age counts for a lease at the most. */
class RestartGuardTest {

    private static final Duration LEASE = ElectorOptions.DEFAULT_LEASE_DURATION;
    private static final long NOW = Long.MAX_VALUE - 1_000;
    private static final Duration OLD = Duration.ofDays(30);
    private static final ServerRun FIRST = new ServerRun("2026-01-01", "2026-01-02", 1);

    private static RestartGuard guard(TakeoverDelay delay) {
        return new RestartGuard(ElectorOptions.builder().takeoverDelay(delay).build(), NOW);
    }

    private static Facts facts(ServerRun run, Duration uptime) {
        return new Facts(1, "test", "test:5432", "18.0", run, uptime, true);
    }

    private static Duration waits(RestartGuard guard, long now) {
        return Duration.ofNanos(guard.leadsFrom(now) - now);
    }

    /** With the server's clock set back by an hour, an elector waited 1,000 hours to lead. */
    @ParameterizedTest
    @CsvSource({"PT-1H", "PT-0.001S", "PT-1000000000H", "PT0S"})
    void anAgeThatIsNoneCountsAsABirth(Duration uptime) {
        RestartGuard guard = guard(TakeoverDelay.AUTO);
        guard.opened(facts(FIRST, uptime), NOW);
        assertThat(waits(guard, NOW)).isEqualTo(LEASE);
        assertThat(waits(guard, NOW + LEASE.toNanos())).isZero();
    }

    @ParameterizedTest
    @CsvSource({"PT15S", "PT1H", "PT2000000000H"})
    void anAgeOfALeaseIsEnoughHoweverGreat(Duration uptime) {
        RestartGuard guard = guard(TakeoverDelay.AUTO);
        guard.opened(facts(FIRST, uptime), NOW);
        assertThat(waits(guard, NOW)).isZero();
    }

    @Test
    void aYoungServerIsWaitedForUntilItIsALeaseOld() {
        RestartGuard guard = guard(TakeoverDelay.AUTO);
        guard.opened(facts(FIRST, Duration.ofSeconds(4)), NOW);
        assertThat(waits(guard, NOW)).isEqualTo(LEASE.minusSeconds(4));
    }

    /** A clock that was set forward makes a server that has just restarted look old. */
    @ParameterizedTest
    @ValueSource(strings = {"restarted", "recovered from a crash", "promoted"})
    void anotherRunThanBeforeIsWaitedForALeaseWhateverItsAge(String what) {
        ServerRun second = switch (what) {
            case "restarted" -> new ServerRun("2026-06-01", "2026-01-02", 1);
            case "recovered from a crash" -> new ServerRun("2026-01-01", "2026-06-01", 1);
            default -> new ServerRun("2026-01-01", "2026-01-02", 2);
        };
        RestartGuard guard = guard(TakeoverDelay.AUTO);
        guard.opened(facts(FIRST, OLD), NOW);
        guard.opened(facts(second, OLD), NOW + 500);
        assertThat(waits(guard, NOW + 500)).isEqualTo(LEASE);
    }

    @Test
    void theSameRunIsNotWaitedForAgain() {
        RestartGuard guard = guard(TakeoverDelay.AUTO);
        guard.opened(facts(FIRST, OLD), NOW);
        guard.opened(facts(FIRST, OLD), NOW + 500);
        assertThat(waits(guard, NOW + 500)).isZero();
    }

    @Test
    void aReconnectDoesNotShortenTheWait() {
        RestartGuard guard = guard(TakeoverDelay.AUTO);
        guard.opened(facts(FIRST, OLD), NOW);
        ServerRun second = new ServerRun("2026-06-01", "2026-01-02", 1);
        guard.opened(facts(second, OLD), NOW + 500);
        guard.opened(facts(second, OLD), NOW + 700);
        assertThat(waits(guard, NOW + 500)).isEqualTo(LEASE);
    }

    @Test
    void aServerThatDoesNotTellItsTimelineWasNotPromoted() {
        RestartGuard guard = guard(TakeoverDelay.AUTO);
        for (int timeline : new int[] {0, 5, 0, 5}) {
            guard.opened(facts(new ServerRun("2026-01-01", "2026-01-02", timeline), OLD), NOW);
            assertThat(waits(guard, NOW)).isZero();
        }
        guard.opened(facts(new ServerRun("2026-01-01", "2026-01-02", 6), OLD), NOW);
        assertThat(waits(guard, NOW))
                .as("from 5 to 6, with an unknown one between")
                .isEqualTo(LEASE);
    }

    /** R13. */
    @ParameterizedTest
    @CsvSource({"PT2S, PT4S, PT11S", "PT20S, PT4S, PT20S", "PT2S, P30D, PT2S", "PT0S, PT0S, PT15S"})
    void aFixedDelayIsNeverShorterThanAuto(Duration fixed, Duration uptime, Duration expected) {
        RestartGuard guard = guard(TakeoverDelay.of(fixed));
        guard.opened(facts(FIRST, uptime), NOW);
        assertThat(waits(guard, NOW)).isEqualTo(expected);
    }

    @Test
    void noneNeverWaits() {
        RestartGuard none = guard(TakeoverDelay.NONE);
        none.opened(facts(FIRST, Duration.ZERO), NOW);
        assertThat(waits(none, NOW)).isZero();
    }
}
