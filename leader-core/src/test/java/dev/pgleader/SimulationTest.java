package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import dev.pgleader.Simulation.Invariant;
import dev.pgleader.Simulation.Rules;
import dev.pgleader.Simulation.Violation;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

/**
 * Thousands of random histories of nodes, networks and servers that fail, in which all promises hold; and tests of this
 * test, which break one thing that the promises rest on and have the simulation find out.
 *
 * <p>{@code -Dsimulation.seeds=N} lives through N histories, {@code -Dsimulation.seed=S} through one of them.
 */
class SimulationTest {

    private static final Logger LOG = (Logger) LoggerFactory.getLogger("dev.pgleader");
    private static final long SEEDS = Long.getLong("simulation.seeds", 20_000);
    private static final @Nullable Long ONLY_SEED = Long.getLong("simulation.seed");

    /** Enough histories for each of the broken worlds to show. */
    private static final long SEEDS_OF_BROKEN_WORLD = 400;

    private static @Nullable Level usualLevel;

    @BeforeAll
    static void silenceLog() {
        usualLevel = LOG.getLevel();
        LOG.setLevel(Level.OFF);
    }

    @AfterAll
    static void restoreLog() {
        LOG.setLevel(usualLevel);
    }

    @Test
    void promisesHoldInEveryHistory() {
        SimulationStatistics statistics = new SimulationStatistics();
        LongStream seeds = ONLY_SEED == null ? LongStream.rangeClosed(1, SEEDS) : LongStream.of(ONLY_SEED);
        seeds.parallel().forEach(seed -> {
            try (Simulation simulation = new Simulation(seed, Rules.asPromised())) {
                simulation.run();
                statistics.addAll(simulation.statistics);
            }
        });
        System.out.println("Simulation: " + statistics);
        if (ONLY_SEED == null) {
            assertThat(SimulationFaults.Kind.values())
                    .allSatisfy(
                            fault -> assertThat(statistics.get(fault.name())).isGreaterThan(SEEDS / 10));
            assertThat(statistics.get("history")).isEqualTo(SEEDS);
            assertThat(statistics.get("term")).isGreaterThan(4 * SEEDS);
            assertThat(statistics.get("lease expired")).isGreaterThan(SEEDS / 2);
            assertThat(statistics.get("delayed takeover")).isGreaterThan(2 * SEEDS);
            assertThat(statistics.get("ambiguous grant")).isGreaterThan(SEEDS / 10);
        }
    }

    @Test
    void historyDependsOnItsSeedAlone() {
        List<Long> once = hashes();
        assertThat(hashes()).isEqualTo(once).doesNotHaveDuplicates();
    }

    private static List<Long> hashes() {
        return LongStream.rangeClosed(1, 100)
                .parallel()
                .mapToObj(seed -> {
                    try (Simulation simulation = new Simulation(seed, Rules.asPromised())) {
                        simulation.run();
                        return simulation.trace.hash();
                    }
                })
                .toList();
    }

    // ---- does it bite?

    @Test
    void findsTwoLeadersIfServerEndsSilentSessionsTooEarly() {
        assertThat(firstViolation(Rules.asPromised().withLeaseFactor(0.7))).isEqualTo(Invariant.ONE_LEADER);
    }

    @Test
    void findsTwoLeadersIfClocksDifferByMoreThanTheSafetyMargin() {
        assertThat(firstViolation(Rules.asPromised().withClockSpread(0.2))).isEqualTo(Invariant.ONE_LEADER);
    }

    @Test
    void findsTwoLeadersIfNobodyWaitsAfterRestartOrPromotion() {
        assertThat(firstViolation(Rules.asPromised().withTakeoverDelay(TakeoverDelay.NONE)))
                .isEqualTo(Invariant.ONE_LEADER);
    }

    @Test
    void findsLockReleasedBeforeCallbackReturned() {
        assertThat(firstViolation(Rules.asPromised().withDrainingAtOnce()))
                .isEqualTo(Invariant.RELEASE_AFTER_CALLBACKS);
    }

    @Test
    void findsLockThatNobodyFreesIfServerKeepsSessionsForEver() {
        assertThat(firstViolation(Rules.asPromised().withEternalSessions())).isEqualTo(Invariant.LIVENESS);
    }

    private static Invariant firstViolation(Rules broken) {
        return LongStream.rangeClosed(1, SEEDS_OF_BROKEN_WORLD)
                .mapToObj(seed -> violation(seed, broken))
                .filter(Objects::nonNull)
                .findFirst()
                .orElseThrow(() -> new AssertionError("Nothing found"))
                .invariant;
    }

    private static @Nullable Violation violation(long seed, Rules rules) {
        try (Simulation simulation = new Simulation(seed, rules)) {
            simulation.run();
            return null;
        } catch (Violation e) {
            return e;
        }
    }
}
