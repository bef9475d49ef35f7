package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.LeaderStatus.Role;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.time.Duration;
import java.util.NoSuchElementException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a user does with an elector, on a real server that behaves. */
@Timeout(300)
class LeaderElectorTest {

    private static final PostgresServer SERVER = PostgresServer.shared();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    private final long bits = freshKeyBits();
    private final LockKey key = LockKey.of(bits);

    @Test
    void oneOfTwoLeadsAndTheOtherTakesOverWhenItCloses() throws Exception {
        try (TestCandidate first = TestCandidate.startLeader("first", direct(SERVER), key);
                TestCandidate second = TestCandidate.start("second", direct(SERVER), key)) {
            int holder = first.backendPid();
            assertThat(LOCKS.holders(bits)).containsExactly(holder);
            assertThat(second.backendPid()).isNotEqualTo(holder);
            assertThat(second.elector().isLeader()).isFalse();

            first.elector().close();

            assertThat(first.elector().isLeader()).isFalse();
            second.awaitElected(1);
            assertThat(LOCKS.holders(bits)).containsExactly(second.backendPid());
            first.assertCallbacksInOrder();
            assertThat(first.events()).hasSize(2);
        }
        assertThat(LOCKS.holders(bits)).isEmpty();
    }

    @Test
    void statusTellsWhatIsNeededOnAHealthPage() {
        try (TestCandidate leader = TestCandidate.startLeader("leader", direct(SERVER), key);
                TestCandidate follower = TestCandidate.start("follower", direct(SERVER), key)) {
            await().atMost(PATIENCE)
                    .ignoreException(NoSuchElementException.class)
                    .untilAsserted(() -> {
                        LeaderStatus status = leader.elector().status();
                        assertThat(status.role()).isEqualTo(Role.LEADER);
                        assertThat(status.isLeader()).isTrue();
                        assertThat(status.terms()).isEqualTo(1);
                        assertThat(status.leaderSince()).isPresent();
                        assertThat(status.sinceLastCheck().orElseThrow()).isLessThan(FAST.trustWindow());
                        assertThat(status.problem()).isEmpty();
                        LeaderStatus.Session session = status.session().orElseThrow();
                        assertThat(session.database()).isEqualTo(PostgresServer.DEFAULT_DATABASE);
                        assertThat(session.leaseEnforced()).isTrue();
                        assertThat(LOCKS.holders(bits)).containsExactly(session.backendPid());

                        LeaderStatus other = follower.elector().status();
                        assertThat(other.role()).isEqualTo(Role.FOLLOWER);
                        assertThat(other.leaderSince()).isEmpty();
                        LeaderInfo known = other.knownLeader().orElseThrow();
                        assertThat(known.instanceId()).isEqualTo("leader");
                        assertThat(known.backendPid()).isEqualTo(session.backendPid());
                        assertThat(known.since()).as("it led before").isEmpty();
                    });
        }
    }

    @Test
    void currentLeaderIsReadableFromAnyInstance() throws Exception {
        try (TestCandidate follower =
                TestCandidate.start("follower", direct(SERVER), key, builder -> builder.paused(true))) {
            await().atMost(PATIENCE)
                    .until(() -> follower.elector().status().session().isPresent());
            assertThat(follower.elector().currentLeader().get(20, TimeUnit.SECONDS))
                    .isEmpty();
            try (TestCandidate leader = TestCandidate.startLeader("the-leader", direct(SERVER), key)) {
                LeaderInfo info = follower.elector()
                        .currentLeader()
                        .get(20, TimeUnit.SECONDS)
                        .orElseThrow();
                assertThat(info.instanceId()).isEqualTo("the-leader");
                assertThat(info.backendPid()).isEqualTo(leader.backendPid());
                assertThat(leader.elector()
                                .currentLeader()
                                .get(20, TimeUnit.SECONDS)
                                .map(LeaderInfo::backendPid))
                        .contains(leader.backendPid());
            }
        }
    }

    @Test
    void verifyAsksTheDatabaseNow() throws Exception {
        try (TestCandidate leader = TestCandidate.startLeader("leader", direct(SERVER), key);
                TestCandidate follower = TestCandidate.start("follower", direct(SERVER), key)) {
            long before = System.nanoTime();
            assertThat(leader.elector().verify().get(20, TimeUnit.SECONDS)).isTrue();
            Duration sinceCheck = leader.elector().status().sinceLastCheck().orElseThrow();
            assertThat(sinceCheck.toNanos()).isLessThanOrEqualTo(System.nanoTime() - before);
            assertThat(follower.elector().verify().get(20, TimeUnit.SECONDS)).isFalse();
        }
    }

    @Test
    void resignLetsAnotherLeadAndStaysACandidate() throws Exception {
        try (TestCandidate first = TestCandidate.startLeader("first", direct(SERVER), key);
                TestCandidate second = TestCandidate.start("second", direct(SERVER), key)) {
            second.backendPid();
            first.elector().resign().get(20, TimeUnit.SECONDS);
            assertThat(first.awaitRevoked(1).reason()).isEqualTo(RevocationReason.RESIGNED);
            second.awaitElected(1);
            second.elector().close();
            first.awaitElected(2);
            first.assertCallbacksInOrder();
        }
    }

    @Test
    void aResignationCanBeAskedForFromAnyInstanceAndInSql() throws Exception {
        try (TestCandidate first = TestCandidate.startLeader("first", direct(SERVER), key);
                TestCandidate second = TestCandidate.start("second", direct(SERVER), key)) {
            second.backendPid();
            second.elector().requestResignation().get(20, TimeUnit.SECONDS);
            assertThat(first.awaitRevoked(1).reason()).isEqualTo(RevocationReason.RESIGNED);
            second.awaitElected(1);

            try (Connection operator = SERVER.connect()) { // Whose role the leader looks up while it's there.
                Sql.execute(operator, "SELECT pg_notify('pgleader', 'resign " + key + "')");
                assertThat(second.awaitRevoked(1).reason()).isEqualTo(RevocationReason.RESIGNED);
            }
        }
    }

    @Test
    void aPausedInstanceGivesLeadershipUpAndDoesNotCompete() throws Exception {
        try (TestCandidate candidate = TestCandidate.startLeader("only", direct(SERVER), key)) {
            candidate.elector().pause().get(20, TimeUnit.SECONDS);
            candidate.awaitRevoked(1);
            try (TestCandidate other = TestCandidate.startLeader("other", direct(SERVER), key)) {
                other.elector().close();
            }
            assertThat(candidate.elector().status().paused()).isTrue();
            assertThat(LOCKS.holders(bits)).isEmpty();
            candidate.elector().resume();
            candidate.awaitElected(2);
        }
    }

    @Test
    void campaignsOnlyWhenItMay() {
        AtomicInteger asked = new AtomicInteger();
        AtomicReference<Boolean> ready = new AtomicReference<>(false);
        try (TestCandidate candidate = TestCandidate.start(
                "gated",
                direct(SERVER),
                key,
                builder -> builder.campaignCondition(() -> {
                    if (asked.incrementAndGet() == 1) {
                        throw new IllegalStateException("not even that is ready");
                    }
                    return ready.get();
                }))) {
            await().atMost(PATIENCE).until(() -> asked.get() > 3);
            assertThat(candidate.elector().status().sinceLastAttempt()).isEmpty();
            ready.set(true);
            candidate.awaitElected(1);
        }
    }

    @Test
    void aListenerAddedLateIsToldAndARemovedOneIsToldTheEnd() {
        try (TestCandidate leader = TestCandidate.startLeader("leader", direct(SERVER), key)) {
            BlockingQueue<String> told = new LinkedBlockingQueue<>();
            Registration registration = leader.elector().addListener(new LeadershipListener() {
                @Override
                public void onElected(Leadership leadership) {
                    told.add("elected " + leadership.term());
                }

                @Override
                public void onRevoked(Leadership leadership, RevocationReason reason) {
                    told.add("revoked " + reason);
                }
            });
            await().atMost(PATIENCE).untilAsserted(() -> assertThat(told).containsExactly("elected 1"));
            registration.close();
            registration.close();
            await().atMost(PATIENCE)
                    .untilAsserted(() -> assertThat(told).containsExactly("elected 1", "revoked LISTENER_REMOVED"));
            assertThat(leader.elector().isLeader()).isTrue();
        }
    }

    @Test
    void waitsForLeadershipAsLongAsItIsTold() throws Exception {
        try (TestCandidate leader = TestCandidate.startLeader("leader", direct(SERVER), key);
                TestCandidate follower = TestCandidate.start("follower", direct(SERVER), key)) {
            assertThat(leader.elector().awaitLeadership(Duration.ZERO)).isPresent();
            assertThat(follower.elector().awaitLeadership(Duration.ofMillis(50)))
                    .isEmpty();
            leader.elector().close();
            Leadership term = follower.elector().awaitLeadership(PATIENCE).orElseThrow();
            assertThat(term.isValid()).isTrue();
            term.ensureValid();
            assertThat(term.remaining()).isPositive().isLessThanOrEqualTo(FAST.trustWindow());
        }
    }

    @Test
    void runIfLeaderRunsOnlyOnTheLeader() {
        try (TestCandidate leader = TestCandidate.startLeader("leader", direct(SERVER), key);
                TestCandidate follower = TestCandidate.start("follower", direct(SERVER), key)) {
            AtomicReference<Leadership> given = new AtomicReference<>();
            assertThat(leader.elector().runIfLeader(given::set)).isTrue();
            assertThat(given.get().term()).isEqualTo(1);
            assertThat(follower.elector().runIfLeader(given::set)).isFalse();
        }
    }

    @Test
    void workWhileLeaderIsInterruptedAndHasEndedBeforeTheLockIsFree() throws Exception {
        try (TestCandidate leader = TestCandidate.startLeader("leader", direct(SERVER), key)) {
            CountDownLatch started = new CountDownLatch(1);
            CountDownLatch interrupted = new CountDownLatch(1);
            CountDownLatch mayEnd = new CountDownLatch(1);
            leader.elector().runWhileLeader(leadership -> {
                started.countDown();
                try {
                    new CountDownLatch(1).await();
                } catch (InterruptedException e) {
                    interrupted.countDown();
                    mayEnd.await();
                }
            });
            assertThat(started.await(10, TimeUnit.SECONDS)).isTrue();
            var resigned = leader.elector().resign();
            assertThat(interrupted.await(10, TimeUnit.SECONDS)).isTrue();
            assertThat(leader.elector().isLeader()).isFalse();
            assertThat(leader.elector().status().role()).isEqualTo(Role.RESIGNING);
            assertThat(LOCKS.holders(bits)).containsExactly(leader.backendPid());
            mayEnd.countDown();
            resigned.get(10, TimeUnit.SECONDS);
            assertThat(LOCKS.holders(bits)).isEmpty();
            leader.awaitElected(2);
        }
    }

    @Test
    void workThatFailsStepsDown() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        try (TestCandidate leader = TestCandidate.startLeader("leader", direct(SERVER), key)) {
            leader.elector().runWhileLeader(leadership -> {
                if (runs.incrementAndGet() == 1) {
                    throw new IllegalStateException("the work of the first term fails");
                }
                new CountDownLatch(1).await();
            });
            assertThat(leader.awaitRevoked(1).reason()).isEqualTo(RevocationReason.CALLBACK_FAILED);
            leader.awaitElected(2);
            await().atMost(PATIENCE).until(() -> runs.get() == 2);
            leader.assertCallbacksInOrder();
        }
    }

    @Test
    void workThatFailsAgainAndAgainWaitsLongerEachTime() {
        try (TestCandidate leader = TestCandidate.start("leader", direct(SERVER), key)) {
            leader.elector().runWhileLeader(leadership -> {
                throw new IllegalStateException("the work never goes well");
            });
            long third =
                    leader.awaitElected(4).atNanos() - leader.awaitRevoked(3).atNanos();
            assertThat(Duration.ofNanos(third)).isGreaterThan(FAST.coolDown().multipliedBy(3));
        }
    }

    @Test
    void stopsAndStartsAgain() throws Exception {
        try (TestCandidate candidate = TestCandidate.startLeader("only", direct(SERVER), key)) {
            for (int term = 2; term <= 4; term++) {
                candidate.elector().stop();
                assertThat(LOCKS.holders(bits)).isEmpty();
                assertThat(candidate.elector().status().role()).isEqualTo(Role.STOPPED);
                assertThat(candidate.elector().resign()).failsWithin(Duration.ofSeconds(20));
                candidate.elector().start();
                candidate.awaitElected(term);
            }
            candidate.assertCallbacksInOrder();
        }
    }

    @Test
    void aClosedElectorStaysClosed() {
        TestCandidate candidate = TestCandidate.startLeader("only", direct(SERVER), key);
        candidate.close();
        candidate.close();
        assertThat(candidate.elector().isLeader()).isFalse();
        assertThatThrownBy(() -> candidate.elector().start())
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("closed");
        assertThat(candidate.events()).hasSize(2);
    }

    @Test
    void closeAndResignMayBeCalledInsideACallback() {
        TestCandidate closing = TestCandidate.start("closing", direct(SERVER), key, builder -> {});
        try (closing) {
            closing.elector().addListener(new LeadershipListener() {
                @Override
                public void onElected(Leadership leadership) {
                    closing.elector().close();
                }

                @Override
                public void onRevoked(Leadership leadership, RevocationReason reason) {
                    closing.elector().close();
                }
            });
            closing.awaitRevoked(1);
            LOCKS.awaitFree(bits, PATIENCE);
            await().atMost(PATIENCE).until(() -> closing.elector().status().role() == Role.STOPPED);
        }
    }

    @Test
    void twoDatabasesAreTwoElections() throws Exception { // C17
        String database = "election_" + ProcessHandle.current().pid();
        SERVER.createDatabase(database);
        ConnectionSource elsewhere =
                ConnectionSource.of(SERVER.url(database), SERVER.superuser(), SERVER.superuserPassword());
        try (TestCandidate here = TestCandidate.startLeader("here", direct(SERVER), key);
                TestCandidate there = TestCandidate.startLeader("there", elsewhere, key);
                TestCandidate third = TestCandidate.start("third", direct(SERVER), key)) {
            third.backendPid();
            assertThat(here.elector().isLeader()).isTrue();
            assertThat(there.elector().status().session().orElseThrow().database())
                    .isEqualTo(database);
            assertThat(third.elector().currentLeader().get(20, TimeUnit.SECONDS).map(LeaderInfo::instanceId))
                    .contains("here");
            assertThat(third.elector().isLeader()).isFalse();
        }
    }

    @Test
    void whatIsMissingOrWrongIsRefusedAtBuild() {
        assertThatThrownBy(() -> LeaderElector.builder().key("k").build()).hasMessageContaining("connectTo");
        assertThatThrownBy(
                        () -> LeaderElector.builder().connectTo(direct(SERVER)).build())
                .hasMessageContaining("key(...)");
        assertThatThrownBy(() -> LeaderElector.builder().key(" ")).hasMessageContaining("blank");
        assertThatThrownBy(() -> LeaderElector.builder().instanceId("a b")).hasMessageContaining("\"a b\"");
        assertThatThrownBy(() -> LeaderElector.builder().instanceId("x".repeat(54)))
                .hasMessageContaining("53");
        assertThatThrownBy(() -> LeaderElector.builder().name("")).hasMessageContaining("blank");
    }
}
