package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import dev.pgleader.Simulation.Flaw;
import dev.pgleader.Simulation.Invariant;
import dev.pgleader.Simulation.Mode;
import dev.pgleader.Simulation.Rules;
import dev.pgleader.Simulation.Violation;
import dev.pgleader.SimulationFaults.Kind;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.slf4j.LoggerFactory;

/**
 * Thousands of random histories of nodes, networks and servers that fail, in which all promises hold; and tests of this
 * test, which break one thing that the promises rest on and have the simulation find out.
 *
 * <p>{@code -Dsimulation.seeds=N -Dsimulation.firstSeed=S} lives through other histories, {@code -Dsimulation.seed=S} through one.
 */
class SimulationTest {

    private static final Logger LOG = (Logger) LoggerFactory.getLogger("dev.pgleader");
    private static final long HISTORIES = Long.getLong("simulation.seeds", 4_000);
    private static final long FIRST_SEED = Long.getLong("simulation.firstSeed", 1);
    private static final @Nullable Long ONLY_SEED = Long.getLong("simulation.seed");

    private static final long ENOUGH_FOR_STATISTICS = 1_000;

    /** Enough histories for each of the broken worlds to show. */
    private static final long HISTORIES_OF_BROKEN_WORLD = 400;

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
        LongStream seeds =
                ONLY_SEED == null ? LongStream.range(FIRST_SEED, FIRST_SEED + HISTORIES) : LongStream.of(ONLY_SEED);
        seeds.parallel().forEach(seed -> statistics.addAll(live(seed, Rules.asPromised())));
        System.out.println("Simulation: " + statistics);
        assertThat(statistics.get("history")).isEqualTo(seeds().count());
        if (ONLY_SEED == null && HISTORIES >= ENOUGH_FOR_STATISTICS) {
            assertThat(Kind.values())
                    .allSatisfy(
                            fault -> assertThat(statistics.get(fault.name())).isGreaterThan(HISTORIES / 10));
            assertThat(Mode.values())
                    .allSatisfy(mode -> assertThat(statistics.get("history, " + mode.name()))
                            .isGreaterThan(HISTORIES / 10));
            assertThat(statistics.get("term")).isGreaterThan(4 * HISTORIES);
            assertThat(statistics.get("lease expired")).isGreaterThan(HISTORIES / 2);
            assertThat(statistics.get("delayed takeover")).isGreaterThan(2 * HISTORIES);
            assertThat(statistics.get("ambiguous grant")).isGreaterThan(HISTORIES / 10);
        }
    }

    private static LongStream seeds() {
        return ONLY_SEED == null ? LongStream.range(FIRST_SEED, FIRST_SEED + HISTORIES) : LongStream.of(ONLY_SEED);
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

    /** Case R06 and its kind: what strangers say, what gets lost, and clocks of the server cost nobody a term. */
    @Test
    void noHintThatGoesWrongEndsTerm() {
        Rules rules = Rules.asPromised().withOnly(SimulationFaults.HARMLESS);
        assertThat(rules.areHarmless()).isTrue();
        LongStream.rangeClosed(1, HISTORIES / 8).parallel().forEach(seed -> live(seed, rules));
    }

    // ---- does it bite?

    @ParameterizedTest
    @EnumSource
    void findsTwoLeadersIfServerEndsSilentSessionsTooEarly(Mode mode) {
        assertFinds(Invariant.ONE_LEADER, Rules.asPromised().with(mode).withLeaseFactor(0.7));
    }

    @Test
    void findsTwoLeadersIfClocksDifferByMoreThanTheSafetyMargin() {
        assertFinds(Invariant.ONE_LEADER, Rules.asPromised().withClockSpread(0.2));
    }

    @Test
    void findsTwoLeadersIfNobodyWaitsAfterRestartOrPromotion() {
        assertFinds(Invariant.ONE_LEADER, Rules.asPromised().withTakeoverDelay(0));
    }

    @Test
    void findsLockReleasedBeforeCallbackReturned() {
        assertFinds(Invariant.RELEASE_AFTER_CALLBACKS, Rules.asPromised().with(Flaw.DRAINED_AT_ONCE));
    }

    @Test
    void findsLockThatNobodyFreesIfServerKeepsSessionsForEver() {
        assertFinds(Invariant.LIVENESS, Rules.asPromised().with(Flaw.ETERNAL_SESSIONS));
    }

    /** Case R12. */
    @Test
    void findsTwoLeadersIfLeaseRunsByTheMonotonicClockAloneInSuspend() {
        Rules suspends = Rules.asPromised().withOnly(EnumSet.of(Kind.SUSPEND, Kind.SUSPEND_IN_CODE));
        assertFinds(Invariant.ONE_LEADER, suspends.with(Flaw.MONOTONIC_LEASE));
    }

    @Test
    void findsTwoLeadersIfLeaseRunsByWallClockThatIsSetBack() {
        Rules steps = Rules.asPromised().withOnly(EnumSet.of(Kind.CLIENT_CLOCK, Kind.CUT));
        assertFinds(Invariant.ONE_LEADER, steps.with(Flaw.WALL_CLOCK_LEASE));
    }

    /** Case R10. */
    @Test
    void findsTwoLeadersIfServerIsKnownByItsUptimeAndItsClockIsSet() {
        Rules steps = Rules.asPromised().withOnly(EnumSet.of(Kind.SERVER_CLOCK, Kind.CRASH_SERVER, Kind.CUT));
        assertFinds(Invariant.ONE_LEADER, steps.with(Flaw.UPTIME_ONLY));
    }

    @Test
    void findsTwoLeadersIfCrashOfBackendGoesUnnoticed() {
        Rules crashes = Rules.asPromised().withOnly(EnumSet.of(Kind.CRASH_BACKEND, Kind.CUT));
        assertFinds(Invariant.ONE_LEADER, crashes.with(Flaw.START_TIME_ONLY));
    }

    /** Case R06. */
    @Test
    void findsTermThatStrangerEndsIfAnybodyMayAskForResignation() {
        Rules requests = Rules.asPromised().withOnly(EnumSet.of(Kind.FORGED_REQUEST));
        assertFinds(Invariant.NO_STRANGER_ENDS_TERM, requests.with(Flaw.ANYBODY_COMMANDS));
    }

    /** Case N01. */
    @Test
    void findsTermThatFullQueueEndsIfRefusedNoticeCostsTheSession() {
        Rules refusals =
                Rules.asPromised().withOnly(EnumSet.of(Kind.NOTICES_REFUSED, Kind.REQUEST_RESIGNATION, Kind.RESIGN));
        assertFinds(Invariant.NO_STRANGER_ENDS_TERM, refusals.with(Flaw.REFUSAL_ENDS_SESSION));
    }

    @Test
    void findsNobodyLeadingIfCandidatesRelyOnNoticesThatGetLost() {
        Rules losses = Rules.asPromised().with(Mode.POLL).withOnly(EnumSet.of(Kind.NOTICES_LOST, Kind.RESIGN));
        assertFinds(Invariant.LIVENESS, losses.with(Flaw.LOOKS_ONLY_WHEN_TOLD));
    }

    private static void assertFinds(Invariant broken, Rules rules) {
        boolean found = LongStream.rangeClosed(1, HISTORIES_OF_BROKEN_WORLD)
                .parallel()
                .mapToObj(seed -> violation(seed, rules))
                .filter(Objects::nonNull)
                .anyMatch(violation -> violation.invariant == broken);
        assertThat(found).as("%s is found in the world of %s", broken, rules).isTrue();
    }

    private static @Nullable Violation violation(long seed, Rules rules) {
        try {
            live(seed, rules);
            return null;
        } catch (Violation e) {
            return e;
        }
    }

    private static SimulationStatistics live(long seed, Rules rules) {
        try (Simulation simulation = new Simulation(seed, rules)) {
            simulation.run();
            return simulation.statistics;
        }
    }
}
