package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** Times run over the end of a long, as readings of a monotonic clock may. */
class ScheduleTest {

    private static final long START = Long.MAX_VALUE - 10;

    private final Schedule schedule = new Schedule(START);

    private static long after(long millis) {
        return START + Duration.ofMillis(millis).toNanos();
    }

    private static Duration until(long nanos) {
        return Duration.ofNanos(nanos);
    }

    @Test
    void pollsByTheEarlierOfTwoTimes() {
        schedule.pollAt(after(1_000));
        schedule.pollBy(after(2_000));
        assertThat(until(schedule.untilPollNanos(START))).hasMillis(1_000);
        schedule.pollBy(after(500));
        assertThat(until(schedule.untilPollNanos(START))).hasMillis(500);
        assertThat(schedule.isPollDue(after(499))).isFalse();
        assertThat(schedule.isPollDue(after(500))).isTrue();
    }

    @Test
    void hintsAreFollowedAtOnceAndNoOftenerThanEvery50Millis() {
        schedule.pollAt(after(1_000));
        schedule.hinted(after(1));
        assertThat(schedule.isPollDue(after(1))).isTrue();
        schedule.pollAt(after(1_000));
        schedule.hinted(after(2));
        assertThat(schedule.isPollDue(after(50))).isFalse();
        assertThat(schedule.isPollDue(after(51))).isTrue();
    }

    @Test
    void aHintPutsNoPollOff() {
        schedule.pollAt(after(1_000));
        schedule.hinted(after(1));
        schedule.pollAt(after(10));
        schedule.hinted(after(2));
        assertThat(schedule.isPollDue(after(10))).isTrue();
    }

    @Test
    void tellsOfTheLastTry() {
        assertThat(schedule.lastAttemptAt()).isNull();
        schedule.attempted(after(1));
        assertThat(schedule.lastAttemptAt()).isEqualTo(after(1));
    }
}
