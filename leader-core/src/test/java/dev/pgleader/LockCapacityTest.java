package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.LogCapture;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.slf4j.event.Level;

/** How an election approaches the limit of a lock table that is full; see {@link LockTableFullTest} for what follows. */
class LockCapacityTest {

    private final LockCapacity capacity = new LockCapacity("test", new SplittableRandom(1));

    private static List<LockKey> keys(int count) {
        return LongStream.range(0, count).mapToObj(LockKey::of).toList();
    }

    @Test
    void isUnlimitedUntilTheServerRefuses() {
        assertThat(capacity.fitting(keys(5_000), 5_000)).hasSize(5_000);
        assertThat(capacity.isUsedUp(10_000)).isFalse();
        assertThat(capacity.problem()).isNull();
    }

    @Test
    void aRefusalHalvesWhatIsTriedAtOnce() {
        assertThat(capacity.refused(100, 0, "full", 5)).isTrue();
        assertThat(capacity.fitting(keys(100), 0)).hasSize(50);
        assertThat(capacity.fitting(keys(50), 0)).isEqualTo(keys(50));
        assertThat(capacity.problem().message()).contains("max_locks_per_transaction", "full");
        assertThat(capacity.problem().since()).isEqualTo(5);
    }

    @Test
    void theBeginAndTheEndOfAShortageAreLoggedOnce() {
        try (LogCapture log = LogCapture.of(LockCapacity.class, Level.INFO)) {
            capacity.sufficed();
            capacity.refused(100, 7, "full", 0);
            capacity.refused(50, 7, "full", 0);
            assertThat(log.messages(Level.WARN))
                    .containsExactly("[test] No room for more locks beside the 7 held: full");
            capacity.sufficed();
            capacity.sufficed();
            assertThat(log.messages(Level.INFO)).containsExactly("[test] The server has room for all locks again");
        }
    }

    @Test
    void closeToTheLimitATenthMoreIsTriedLater() {
        assertThat(capacity.refused(1, 50, "full", 0)).isFalse();
        assertThat(capacity.isUsedUp(54)).isFalse();
        assertThat(capacity.isUsedUp(55)).isTrue();
        assertThat(capacity.fitting(keys(100), 55)).hasSize(5);
        assertThat(capacity.fitting(keys(100), 80)).isEmpty();
    }

    @Test
    void allIsForgottenWhenTheServerHadRoom() {
        capacity.refused(100, 0, "full", 0);
        capacity.sufficed();
        assertThat(capacity.problem()).isNull();
        assertThat(capacity.fitting(keys(100), 0)).hasSize(100);
    }
}
