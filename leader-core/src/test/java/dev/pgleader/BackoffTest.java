package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockSessionException.Fault;
import java.time.Duration;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class BackoffTest {

    private static ElectorOptions options(long retryMillis, long longestMillis) {
        return ElectorOptions.builder()
                .retryInterval(Duration.ofMillis(retryMillis))
                .maxReconnectDelay(Duration.ofMillis(longestMillis))
                .retryJitter(0)
                .build();
    }

    private static Stream<Long> millis(Backoff backoff, Fault fault) {
        return Stream.generate(() -> backoff.afterFailure(fault).toMillis()).limit(4);
    }

    @Test
    void staysWhileTheServerCannotBeReached() {
        assertThat(millis(Backoff.of(options(100, 500)), Fault.UNREACHABLE)).containsExactly(100L, 100L, 100L, 100L);
    }

    @Test
    void doublesWhileAPersonHasToMendSomething() {
        assertThat(millis(Backoff.of(options(100, 500)), Fault.LOGIN_REFUSED)).containsExactly(100L, 200L, 400L, 500L);
    }

    @Test
    void staysIfItsLongestIsItsShortest() {
        assertThat(millis(Backoff.of(options(100, 100)), Fault.LOGIN_REFUSED)).containsExactly(100L, 100L, 100L, 100L);
    }

    @Test
    void beginsAnewAfterASuccessAndWithAnotherKindOfFault() {
        Backoff backoff = Backoff.of(options(100, 500));
        assertThat(millis(backoff, Fault.LOGIN_REFUSED)).endsWith(500L);
        assertThat(backoff.afterFailure(Fault.UNREACHABLE)).hasMillis(100);
        assertThat(millis(backoff, Fault.LOGIN_REFUSED)).endsWith(500L);
        backoff.reset();
        assertThat(backoff.afterFailure(Fault.LOGIN_REFUSED)).hasMillis(100);
    }
}
