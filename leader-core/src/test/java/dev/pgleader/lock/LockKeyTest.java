package dev.pgleader.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.pgleader.testkit.JavaProcess;
import java.time.Duration;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class LockKeyTest {

    /** Computed by another FNV-1a 64, not by this code: a change breaks rolling upgrades. */
    @DisplayName("C19: the key of a name is pinned")
    @ParameterizedTest
    @CsvSource({
        "nightly-billing, 188740893280706172",
        "a, -5808556873153909620",
        "billing/nightly-run, 1933511469906719326",
        "Überweisung, -3685732635486367199",
        "İstanbul ılık, -2579274175384807725",
        "зарплата, 5606519851404423906",
        "夜間バッチ, 8257183764624362062",
        "🦅🔒, 1123799251723942458"
    })
    void nameHasPinnedKey(String name, long key) {
        assertThat(LockKey.named(name)).isEqualTo(LockKey.of(key));
    }

    @DisplayName("C19: the key of a very long name is pinned")
    @Test
    void longNameHasPinnedKey() {
        assertThat(LockKey.named("x".repeat(100_000))).isEqualTo(LockKey.of(-174761704904560731L));
        assertThat(LockKey.named("é".repeat(100_000))).isEqualTo(LockKey.of(8687226781879480229L));
    }

    @DisplayName("C19: the key does not depend on locale and default charset")
    @Test
    void keyIsTheSameUnderEachLocaleAndCharset() throws Exception {
        try (JavaProcess other = JavaProcess.builder(PrintKeys.class)
                .systemProperty("user.language", "tr")
                .systemProperty("user.country", "TR")
                .systemProperty("file.encoding", "ISO-8859-1")
                .start()) {
            assertThat(other.awaitOutput(Duration.ofMinutes(1)))
                    .containsExactly("tr ISO-8859-1", "bigint:-2579274175384807725", "bigint:1123799251723942458");
        }
    }

    /** Run in a JVM of its own. */
    static final class PrintKeys {
        public static void main(String[] arguments) {
            System.out.println(System.getProperty("user.language") + " " + System.getProperty("file.encoding"));
            System.out.println(LockKey.named("İstanbul ılık"));
            System.out.println(LockKey.named("🦅🔒"));
        }
    }

    @DisplayName("C19: no collision among 1,000,000 random names and 120,000 UUIDs")
    @Test
    void namesDoNotCollide() {
        Random random = new Random(19);
        Set<String> names = new HashSet<>();
        while (names.size() < 1_000_000) {
            names.add(Long.toString(random.nextLong(), Character.MAX_RADIX));
        }
        while (names.size() < 1_120_000) {
            names.add(new UUID(random.nextLong(), random.nextLong()).toString());
        }

        Set<LockKey> keys = new HashSet<>();
        names.forEach(name -> keys.add(LockKey.named(name)));

        assertThat(keys).hasSameSizeAs(names);
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "\t\n"})
    void blankNameIsRefused(String name) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> LockKey.named(name))
                .withMessageContaining("blank");
    }

    @ParameterizedTest
    @ValueSource(strings = {"job-\ud83e", "\udd85-job", "\udd85\ud83e"})
    void nameWithUnpairedSurrogateIsRefused(String name) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> LockKey.named(name))
                .withMessageContaining("surrogate");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "bigint:0",
                "bigint:-1",
                "bigint:42",
                "bigint:9223372036854775807",
                "bigint:-9223372036854775808",
                "int4:0,0",
                "int4:-1,-1",
                "int4:4,-2",
                "int4:-4,2",
                "int4:2147483647,-2147483648",
                "int4:-2147483648,2147483647"
            })
    void textFormIsReadBack(String text) {
        LockKey key = LockKey.parse(text);

        assertThat(key).hasToString(text);
        assertThat(LockKey.ofBits(key.objsubid(), key.bits())).isEqualTo(key).hasSameHashCodeAs(key);
    }

    @Test
    void nameIsKeptButDoesNotCount() {
        LockKey named = LockKey.named("a");

        assertThat(named.name()).contains("a");
        assertThat(LockKey.of(-5808556873153909620L).name()).isEmpty();
        assertThat(LockKey.parse(named.toString())).isEqualTo(named).hasSameHashCodeAs(named);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "42",
                "bigint:",
                "bigint:x",
                "bigint:9223372036854775808",
                "bigint:1,2",
                "int4:1",
                "int4:1,",
                "int4:,1",
                "int4:1,2,3",
                "int4:2147483648,0",
                "BIGINT:1",
                "bigint: 1"
            })
    void otherTextIsRefused(String text) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> LockKey.parse(text))
                .withMessageContaining("\"" + text + "\"");
    }

    @DisplayName("F2: a pair of 32-bit numbers never equals the 64-bit number of the same bits")
    @ParameterizedTest
    @CsvSource({"1, 2, 4294967298", "-1, -1, -1", "0, 0, 0", "-2147483648, 0, -9223372036854775808"})
    void pairNeverEqualsNumber(int first, int second, long sameBits) {
        LockKey pair = LockKey.of(first, second);
        LockKey number = LockKey.of(sameBits);

        assertThat(pair.bits()).isEqualTo(number.bits());
        assertThat(pair).isNotEqualTo(number);
        assertThat(pair.objsubid()).isEqualTo(2);
        assertThat(number.objsubid()).isEqualTo(1);
    }
}
