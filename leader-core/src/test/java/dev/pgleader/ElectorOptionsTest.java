package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.FieldSource;
import org.junit.jupiter.params.provider.ValueSource;

class ElectorOptionsTest {

    /** The durations that a builder takes. */
    private static final Map<String, BiFunction<ElectorOptions.Builder, Duration, ElectorOptions.Builder>> DURATIONS =
            Map.of(
                    "leaseDuration", ElectorOptions.Builder::leaseDuration,
                    "safetyMargin", ElectorOptions.Builder::safetyMargin,
                    "healthCheckInterval", ElectorOptions.Builder::healthCheckInterval,
                    "healthCheckTimeout", ElectorOptions.Builder::healthCheckTimeout,
                    "retryInterval", ElectorOptions.Builder::retryInterval,
                    "maxReconnectDelay", ElectorOptions.Builder::maxReconnectDelay,
                    "revokeTimeout", ElectorOptions.Builder::revokeTimeout,
                    "coolDown", ElectorOptions.Builder::coolDown);

    @Test
    void theDefaultsAreTheDocumentedOnes() {
        ElectorOptions options = ElectorOptions.defaults();
        assertThat(options.leaseDuration()).isEqualTo(Duration.ofSeconds(15));
        assertThat(options.safetyMargin()).isEqualTo(Duration.ofMillis(1500));
        assertThat(options.trustWindow()).isEqualTo(Duration.ofMillis(13_500));
        assertThat(options.healthCheckInterval()).isEqualTo(Duration.ofSeconds(3));
        assertThat(options.healthCheckTimeout()).isEqualTo(Duration.ofSeconds(3));
        assertThat(options.retryInterval()).isEqualTo(Duration.ofSeconds(1));
        assertThat(options.retryJitter()).isEqualTo(0.2);
        assertThat(options.maxReconnectDelay()).isEqualTo(Duration.ofSeconds(5));
        assertThat(options.revokeTimeout()).isEqualTo(Duration.ofSeconds(15));
        assertThat(options.coolDown()).isEqualTo(Duration.ofSeconds(2));
        assertThat(options.takeoverDelay()).isSameAs(TakeoverDelay.AUTO);
        assertThat(options.unenforcedLeaseAccepted()).isFalse();
        assertThat(options.remoteResignation()).isTrue();
    }

    /** R20: Kubernetes kills a process 30 s after it has asked it to end, and a preStop hook takes its part of that. */
    @Test
    void aCloseWithTheDefaultsEndsWithinTwentyFiveSeconds() {
        ElectorOptions defaults = ElectorOptions.defaults();
        assertThat(defaults.closeTimeout())
                .isEqualTo(defaults.revokeTimeout()
                        .plus(defaults.healthCheckTimeout().multipliedBy(3)))
                .isLessThanOrEqualTo(Duration.ofSeconds(25));
    }

    @Test
    void theReconnectDelayIsFiveSecondsOrALongerRetryInterval() {
        assertThat(ElectorOptions.builder()
                        .retryInterval(Duration.ofSeconds(7))
                        .build()
                        .maxReconnectDelay())
                .isEqualTo(Duration.ofSeconds(7));
    }

    @ParameterizedTest
    @CsvSource({"PT1M, PT6S", "PT15S, PT1.5S", "PT5S, PT0.5S", "PT2S, PT0.5S"})
    void theSafetyMarginIsATenthOfTheLeaseAndAtLeastHalfASecond(Duration lease, Duration margin) {
        ElectorOptions options = ElectorOptions.builder()
                .leaseDuration(lease)
                .healthCheckInterval(Duration.ofMillis(500))
                .healthCheckTimeout(Duration.ofMillis(500))
                .build();
        assertThat(options.safetyMargin()).isEqualTo(margin);
        assertThat(options.trustWindow()).isEqualTo(lease.minus(margin));
    }

    @Test
    void theCoolDownIsTwiceTheRetryInterval() {
        assertThat(ElectorOptions.builder()
                        .retryInterval(Duration.ofMillis(700))
                        .build()
                        .coolDown())
                .isEqualTo(Duration.ofMillis(1400));
    }

    @Test
    void theConstantsAreTheDefaults() {
        ElectorOptions fromConstants = ElectorOptions.builder()
                .leaseDuration(ElectorOptions.DEFAULT_LEASE_DURATION)
                .healthCheckInterval(ElectorOptions.DEFAULT_HEALTH_CHECK_INTERVAL)
                .healthCheckTimeout(ElectorOptions.DEFAULT_HEALTH_CHECK_TIMEOUT)
                .retryInterval(ElectorOptions.DEFAULT_RETRY_INTERVAL)
                .retryJitter(ElectorOptions.DEFAULT_RETRY_JITTER)
                .maxReconnectDelay(ElectorOptions.DEFAULT_MAX_RECONNECT_DELAY)
                .revokeTimeout(ElectorOptions.DEFAULT_REVOKE_TIMEOUT)
                .build();
        assertThat(fromConstants).hasToString(ElectorOptions.defaults().toString());
    }

    static final Iterable<String> DURATION_NAMES = DURATIONS.keySet();

    @ParameterizedTest
    @FieldSource("DURATION_NAMES")
    void aDurationOutsideOfOneMillisecondToOneDayIsRefusedByName(String name) {
        for (Duration wrong : List.of(
                Duration.ZERO,
                Duration.ofMillis(-1),
                Duration.ofNanos(999_999),
                Duration.ofDays(1).plusNanos(1),
                Duration.ofSeconds(Long.MAX_VALUE),
                Duration.ofSeconds(Long.MIN_VALUE))) {
            ElectorOptions.Builder builder = DURATIONS.get(name).apply(ElectorOptions.builder(), wrong);
            assertThatIllegalArgumentException()
                    .isThrownBy(builder::build)
                    .withMessage(name + " must be at least 1 ms and at most 1 day, but is " + wrong);
        }
    }

    @ParameterizedTest
    @ValueSource(doubles = {-0.01, 1, 1.5, Double.NaN, Double.POSITIVE_INFINITY})
    void aJitterOutsideOfItsRangeIsRefused(double jitter) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> ElectorOptions.builder().retryJitter(jitter).build())
                .withMessage("retryJitter must be at least 0 and less than 1, but is " + jitter);
    }

    @Test
    void aReconnectDelayBelowTheRetryIntervalIsRefused() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> ElectorOptions.builder()
                        .retryInterval(Duration.ofSeconds(7))
                        .maxReconnectDelay(Duration.ofSeconds(5))
                        .build())
                .withMessage("maxReconnectDelay (5000ms) must not be less than retryInterval (7000ms)");
    }

    @Test
    void aLeaderThatMayMissAGoodCheckIsRefusedWithAllItsNumbers() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> ElectorOptions.builder()
                        .leaseDuration(Duration.ofSeconds(6))
                        .build())
                .withMessageContainingAll(
                        "healthCheckInterval (3000ms)",
                        "healthCheckTimeout (3000ms)",
                        "leaseDuration (6000ms)",
                        "safetyMargin (600ms)",
                        "= 5400ms");
    }

    @Test
    void aCheckMustBeOverBeforeTheTrustWindowIs() {
        ElectorOptions.Builder builder = ElectorOptions.builder()
                .leaseDuration(Duration.ofSeconds(10))
                .safetyMargin(Duration.ofSeconds(2))
                .healthCheckTimeout(Duration.ofSeconds(4));
        assertThatIllegalArgumentException().isThrownBy(builder.healthCheckInterval(Duration.ofSeconds(4))::build);
        assertThat(builder.healthCheckInterval(Duration.ofMillis(3_999)).build().trustWindow())
                .isEqualTo(Duration.ofSeconds(8));
    }

    @Test
    void aMarginAsLongAsTheLeaseIsRefused() {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> ElectorOptions.builder()
                        .safetyMargin(ElectorOptions.DEFAULT_LEASE_DURATION)
                        .build())
                .withMessageContaining("= 0ms");
    }

    @ParameterizedTest
    @ValueSource(strings = {"PT-0.001S", "PT24H0.001S", "PT2562047788015215H"})
    void aTakeoverDelayOutsideOfItsRangeIsRefused(Duration delay) {
        assertThatIllegalArgumentException()
                .isThrownBy(() -> TakeoverDelay.of(delay))
                .withMessage("takeoverDelay must be between 0 and 1 day, but is " + delay);
    }

    /** No value is a default, and no two are the same. */
    private static ElectorOptions.Builder unusual() {
        return ElectorOptions.builder()
                .leaseDuration(Duration.ofMillis(20_001))
                .safetyMargin(Duration.ofMillis(2_002))
                .healthCheckInterval(Duration.ofMillis(4_003))
                .healthCheckTimeout(Duration.ofMillis(5_004))
                .retryInterval(Duration.ofMillis(1_005))
                .retryJitter(0.25)
                .acquisitionMode(AcquisitionMode.QUEUE)
                .queueSlice(Duration.ofMillis(3_009))
                .maxReconnectDelay(Duration.ofMillis(6_006))
                .revokeTimeout(Duration.ofMillis(7_007))
                .coolDown(Duration.ofMillis(8_008))
                .takeoverDelay(TakeoverDelay.of(Duration.ofSeconds(9)))
                .unenforcedLeaseAccepted(true)
                .remoteResignation(false);
    }

    @Test
    void aSliceInTheQueueIsTwoSecondsOrAQuarterOfTheLease() {
        assertThat(ElectorOptions.defaults().queueSlice()).isEqualTo(Duration.ofSeconds(2));
        assertThat(TestCandidate.FAST.queueSlice()).isEqualTo(Duration.ofMillis(750));
    }

    @Test
    void aSliceInTheQueueOfMoreThanHalfTheLeaseIsRefused() {
        assertThatThrownBy(() -> ElectorOptions.builder()
                        .leaseDuration(Duration.ofSeconds(10))
                        .queueSlice(Duration.ofMillis(5_001))
                        .build())
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("queueSlice (5001ms)")
                .hasMessageContaining("leaseDuration (10000ms)");
    }

    @Test
    void theTextHasAllValuesInEffect() {
        assertThat(unusual().build())
                .hasToString(
                        "leaseDuration=20001ms safetyMargin=2002ms trustWindow=17999ms healthCheckInterval=4003ms"
                                + " healthCheckTimeout=5004ms retryInterval=1005ms retryJitter=0.25"
                                + " acquisitionMode=QUEUE queueSlice=3009ms maxReconnectDelay=6006ms revokeTimeout=7007ms coolDown=8008ms takeoverDelay=PT9S unenforcedLeaseAccepted=true remoteResignation=false");
        assertThat(ElectorOptions.defaults().toString()).contains("takeoverDelay=AUTO");
        assertThat(TakeoverDelay.NONE).hasToString("NONE");
    }

    @Test
    void aBuilderFromOptionsBuildsTheSameOptions() {
        ElectorOptions options = unusual().build();
        assertThat(options.toBuilder().build()).usingRecursiveComparison().isEqualTo(options);
    }

    @Test
    void aBuilderFromOptionsKeepsWhatWasLeftToItsDefault() {
        ElectorOptions options = ElectorOptions.defaults().toBuilder()
                .leaseDuration(Duration.ofMinutes(1))
                .retryInterval(Duration.ofSeconds(4))
                .build();
        assertThat(options.safetyMargin()).isEqualTo(Duration.ofSeconds(6));
        assertThat(options.coolDown()).isEqualTo(Duration.ofSeconds(8));
    }

    @Test
    void theLongestOptionsCanBeBuiltFromThemselves() {
        ElectorOptions options = ElectorOptions.builder()
                .retryInterval(Duration.ofDays(1))
                .maxReconnectDelay(Duration.ofDays(1))
                .build();
        assertThat(options.toBuilder().build()).hasToString(options.toString());
    }

    @Test
    void aBuilderFromOptionsLeavesThemAsTheyAre() {
        ElectorOptions options = unusual().build();
        String before = options.toString();
        assertThat(options.toBuilder().retryJitter(0).build().retryJitter()).isZero();
        assertThat(options).hasToString(before);
    }
}
