package dev.pgleader;

import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LogCapture;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.slf4j.event.Level;

/**
 * For tests of the {@link ElectionLoop} that take one turn after the other, in the test's thread; the clock's reading turns
 * negative on the way.
 */
abstract class ElectionTest {

    static final Duration SECOND = Duration.ofSeconds(1);
    static final Duration CHECK_INTERVAL = ElectorOptions.DEFAULT_HEALTH_CHECK_INTERVAL;
    static final Duration LEASE = ElectorOptions.DEFAULT_LEASE_DURATION;
    static final Duration TRUST_WINDOW = ElectorOptions.defaults().trustWindow();
    static final Duration COOL_DOWN = ElectorOptions.defaults().coolDown();
    static final Duration REVOKE_TIMEOUT = ElectorOptions.DEFAULT_REVOKE_TIMEOUT;
    static final Duration RETRY_INTERVAL = ElectorOptions.DEFAULT_RETRY_INTERVAL;

    /** What a release is in the journal: the lock first, while nobody leads, and then the others hear of it. */
    static final List<String> RELEASE = List.of("release [bigint:1], nobody leading", "tell [released bigint:1]");

    private static LogCapture quiet;

    ScriptedElection election = new ScriptedElection();

    /** Thousands of turns would be told on the console. */
    @BeforeAll
    static void quieten() {
        quiet = LogCapture.of(ElectionLoop.class.getPackageName(), Level.ERROR);
    }

    @AfterAll
    static void restore() {
        quiet.close();
    }

    void use(ElectorOptions.Builder options) {
        election = new ScriptedElection(options.build());
    }

    static List<String> withoutTellings(List<String> journal) {
        return journal.stream().filter(entry -> !entry.startsWith("tell")).toList();
    }

    static long count(List<String> journal, String entry) {
        return journal.stream().filter(each -> each.startsWith(entry)).count();
    }

    /** What is wrong with the session. */
    @Nullable
    Fault sessionFault() {
        Problem problem = election.loop.view().problem();
        return problem == null ? null : problem.fault();
    }
}
