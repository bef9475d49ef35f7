package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import java.util.NoSuchElementException;
import org.junit.jupiter.api.Test;

class LockOutcomeTest {

    @Test
    void skippedWorkHasNoValue() {
        LockOutcome<String> skipped = LockOutcome.skipped();

        assertThat(skipped.wasSkipped()).isTrue();
        assertThat(skipped.wasRun()).isFalse();
        assertThatExceptionOfType(NoSuchElementException.class)
                .isThrownBy(skipped::value)
                .withMessageContaining("skipped");
        assertThat(skipped).hasToString("skipped");
    }

    @Test
    void outcomesAreEqualIfTheyMeanTheSame() {
        assertThat(LockOutcome.ran("a")).isEqualTo(LockOutcome.ran("a")).hasSameHashCodeAs(LockOutcome.ran("a"));
        assertThat(LockOutcome.ran("a")).isNotEqualTo(LockOutcome.ran("b")).hasToString("ran: a");
        assertThat(LockOutcome.<String>skipped()).isEqualTo(LockOutcome.<String>skipped());
    }

    @Test
    @SuppressWarnings("NullAway") // Outside its JSpecify mode it takes the argument for never null.
    void nullIsAValue() {
        assertThat(LockOutcome.ran(null).wasRun()).isTrue();
        assertThat(LockOutcome.ran(null).value()).isNull();
        assertThat(LockOutcome.ran(null)).isNotEqualTo(LockOutcome.skipped());
    }
}
