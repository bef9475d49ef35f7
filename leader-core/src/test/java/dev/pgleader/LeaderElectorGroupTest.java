package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.PATIENCE;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockSessionException.Fault;
import dev.pgleader.testkit.LockTable;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.Sql;
import java.sql.Connection;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Many electors on one connection, on a real server. */
@Timeout(300)
class LeaderElectorGroupTest {

    private static final PostgresServer SERVER = PostgresServer.shared();

    @AutoClose
    private static final LockTable LOCKS = new LockTable(SERVER, PostgresServer.DEFAULT_DATABASE);

    /** What the listeners of a group were told, across all of its electors. */
    private static final class Journal implements LeadershipListener {
        final Queue<String> entries = new ConcurrentLinkedQueue<>();
        private final String elector;

        Journal(String elector) {
            this.elector = elector;
        }

        @Override
        public void onElected(Leadership leadership) {
            entries.add("elected " + elector);
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            entries.add("revoked " + elector + " " + reason);
        }
    }

    private static LeaderElectorGroup group(String name) {
        return group(name, direct(SERVER));
    }

    private static LeaderElectorGroup group(String name, ConnectionSource source) {
        return LeaderElectorGroup.builder()
                .connectTo(source)
                .name(name)
                .instanceId(name)
                .options(FAST)
                .build();
    }

    private static List<LeaderElector> electors(LeaderElectorGroup group, long firstKey, int count) {
        return LongStream.range(firstKey, firstKey + count)
                .mapToObj(key -> group.elector(LockKey.of(key)).build())
                .toList();
    }

    /** Keys that no other test uses, one after another. */
    private static long freshKeys() {
        return freshKeyBits() << 20;
    }

    private static void awaitAllLead(List<LeaderElector> electors) {
        await().atMost(PATIENCE).until(() -> electors.stream().allMatch(LeaderElector::isLeader));
    }

    @Test
    void allElectorsShareOneSessionAndEachHasALeaderOfItsOwn() throws Exception {
        long keys = freshKeys();
        try (LeaderElectorGroup first = group("first");
                LeaderElectorGroup second = group("second")) {
            List<LeaderElector> ofFirst = electors(first, keys, 3);
            first.start();
            awaitAllLead(ofFirst);
            List<LeaderElector> ofSecond = electors(second, keys + 2, 3);
            second.start();
            await().atMost(PATIENCE)
                    .until(() -> ofSecond.get(1).isLeader() && ofSecond.get(2).isLeader());

            assertThat(ofSecond.get(0).isLeader()).isFalse();
            int pid = pid(ofFirst.get(0));
            assertThat(ofFirst).allSatisfy(elector -> assertThat(pid(elector)).isEqualTo(pid));
            for (long key = keys; key < keys + 3; key++) {
                assertThat(LOCKS.holders(key)).containsExactly(pid);
            }
            assertThat(LOCKS.sessions("pg-leader/first")).hasSize(1);

            ofFirst.get(2).resign().get(10, TimeUnit.SECONDS);
            await().atMost(PATIENCE).until(() -> ofSecond.get(0).isLeader());
            assertThat(ofFirst.subList(0, 2)).allMatch(LeaderElector::isLeader);
        }
        assertThat(LOCKS.holders(keys)).isEmpty();
        assertThat(LOCKS.holders(keys + 3)).isEmpty();
    }

    private static int pid(LeaderElector elector) {
        return elector.status().session().orElseThrow().backendPid();
    }

    @Test
    void theLossOfTheSessionRevokesEachKeyAndAllAreElectedAgain() throws Exception {
        long keys = freshKeys();
        List<Journal> journals = new ArrayList<>();
        try (LeaderElectorGroup group = group("losing")) {
            List<LeaderElector> electors = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                Journal journal = new Journal("k" + i);
                journals.add(journal);
                electors.add(
                        group.elector(LockKey.of(keys + i)).listener(journal).build());
            }
            group.start();
            awaitAllLead(electors);
            SERVER.terminateBackend(pid(electors.get(0)));
            await().atMost(PATIENCE)
                    .until(() -> electors.stream()
                            .allMatch(elector ->
                                    elector.isLeader() && elector.status().terms() == 2));
        }
        for (Journal journal : journals) {
            String key = journal.elector;
            assertThat(journal.entries)
                    .containsExactly(
                            "elected " + key,
                            "revoked " + key + " SESSION_LOST",
                            "elected " + key,
                            "revoked " + key + " CLOSED");
        }
    }

    @Test
    void keysComeAndGoWhileOthersLead() throws Exception {
        long keys = freshKeys();
        Journal steady = new Journal("steady");
        try (LeaderElectorGroup group = group("changing")) {
            LeaderElector first =
                    group.elector(LockKey.of(keys)).listener(steady).build();
            group.start();
            awaitAllLead(List.of(first));
            for (int round = 0; round < 3; round++) {
                LeaderElector second = group.elector(LockKey.of(keys + 1)).build();
                assertThat(second.isLeader()).isFalse();
                second.start();
                awaitAllLead(List.of(second));
                assertThat(group.electors()).containsExactly(first, second);
                second.close();
                assertThat(LOCKS.holders(keys + 1)).isEmpty();
                assertThat(group.electors()).containsExactly(first);
            }
            assertThat(first.isLeader()).isTrue();
            assertThat(steady.entries).containsExactly("elected steady");
        }
    }

    @Test
    void anElectorThatIsClosedInItsCallbackIsSucceededByOneWithTheSameKey() {
        LockKey key = LockKey.of(freshKeys());
        AtomicReference<LeaderElector> successor = new AtomicReference<>();
        CountDownLatch revoking = new CountDownLatch(1);
        try (LeaderElectorGroup group = group("succeeding")) {
            AtomicReference<LeaderElector> first = new AtomicReference<>();
            first.set(group.elector(key)
                    .listener(new LeadershipListener() {
                        @Override
                        public void onElected(Leadership leadership) {
                            first.get().close();
                            successor.set(group.elector(key).build());
                            successor.get().start();
                            revoking.countDown();
                        }

                        @Override
                        public void onRevoked(Leadership leadership, RevocationReason reason) {
                            assertThat(successor.get().isLeader()).isFalse();
                        }
                    })
                    .build());
            first.get().start();
            await().atMost(PATIENCE)
                    .until(() -> revoking.getCount() == 0 && successor.get().isLeader());
            assertThat(group.electors()).containsExactly(successor.get());
        }
    }

    @Test
    void callbacksThatHangDelayNoOtherKey() {
        long keys = freshKeys();
        CountDownLatch release = new CountDownLatch(1);
        try (LeaderElectorGroup group = group("hanging")) {
            for (int i = 0; i < 40; i++) {
                group.elector(LockKey.of(keys + i))
                        .listener(new LeadershipListener() {
                            @Override
                            public void onElected(Leadership leadership) throws Exception {
                                release.await();
                            }

                            @Override
                            public void onRevoked(Leadership leadership, RevocationReason reason) {}
                        })
                        .build();
            }
            group.start();
            await().atMost(PATIENCE).until(() -> group.electors().stream().allMatch(LeaderElector::isLeader));

            Journal journal = new Journal("prompt");
            LeaderElector prompt =
                    group.elector(LockKey.of(keys + 40)).listener(journal).build();
            prompt.start();
            await().atMost(PATIENCE).until(() -> journal.entries.contains("elected prompt"));
            prompt.close();
            assertThat(journal.entries).contains("revoked prompt CLOSED");
            release.countDown();
        }
    }

    @Test
    void aGroupClosesItsElectorsAllAtTheSameTime() throws Exception {
        long keys = freshKeys();
        CountDownLatch all = new CountDownLatch(20);
        LeaderElectorGroup group = group("closing");
        for (int i = 0; i < 20; i++) {
            group.elector(LockKey.of(keys + i))
                    .listener(new LeadershipListener() {
                        @Override
                        public void onElected(Leadership leadership) {}

                        @Override
                        public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
                            all.countDown();
                            // Ends only because the other electors are being closed, too.
                            assertThat(all.await(PATIENCE.toMillis(), TimeUnit.MILLISECONDS))
                                    .isTrue();
                        }
                    })
                    .build();
        }
        List<LeaderElector> electors = group.electors();
        group.start();
        awaitAllLead(electors);
        group.close();
        assertThat(all.getCount()).isZero();
        assertThat(LOCKS.holders(keys)).isEmpty();
        assertThat(group.electors()).isEmpty();
        assertThatThrownBy(() -> group.elector("too/late").build())
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("group closing is closed");
        group.close();
    }

    @Test
    void aGroupThatIsStoppedStartsAgain() throws Exception {
        long keys = freshKeys();
        try (LeaderElectorGroup group = group("restarting")) {
            List<LeaderElector> electors = electors(group, keys, 2);
            for (int round = 1; round <= 2; round++) {
                group.start();
                awaitAllLead(electors);
                group.stop();
                assertThat(electors).noneMatch(LeaderElector::isLeader);
                assertThat(LOCKS.holders(keys)).isEmpty();
                // The server's process outlives the connection by a moment.
                await().atMost(PATIENCE)
                        .until(() -> LOCKS.sessions("pg-leader/restarting").isEmpty());
            }
        }
    }

    @Test
    void whatAGroupCannotDoIsRefusedAndTheMessageSaysWhy() {
        assertThatThrownBy(() -> LeaderElectorGroup.builder().build())
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("connectTo");
        assertThatThrownBy(() -> LeaderElectorGroup.builder()
                        .connectTo(direct(SERVER))
                        .options(FAST.toBuilder()
                                .acquisitionMode(AcquisitionMode.QUEUE)
                                .build())
                        .spread(Spread.evenly())
                        .build())
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("QUEUE")
                .hasMessageContaining("spread over 2 retry intervals");
        assertThatThrownBy(() -> LeaderElectorGroup.builder().name(" ")).isInstanceOf(IllegalArgumentException.class);
        try (LeaderElectorGroup group = group("strict")) {
            LeaderElector billing = group.elector("strict/billing").build();
            assertThat(billing.name()).isEqualTo("strict/billing");
            assertThatThrownBy(
                            () -> group.elector("strict/billing").name("other").build())
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("has an elector for " + billing.key() + " already: strict/billing");
            assertThatThrownBy(() ->
                            group.elector("strict/other").name("strict/billing").build())
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("has an elector named strict/billing already");
        }
    }

    @Test
    void aThousandKeysTakeOneConnectionAndAConstantNumberOfThreads() throws Exception {
        long keys = freshKeys();
        try (LeaderElectorGroup leading = group("leading");
                LeaderElectorGroup following = group("following")) {
            List<LeaderElector> leaders = electors(leading, keys, 1_000);
            List<LeaderElector> followers = electors(following, keys, 1_000);
            leading.start();
            awaitAllLead(leaders);
            following.start();
            await().atMost(PATIENCE)
                    .until(() -> followers.stream()
                            .allMatch(
                                    follower -> follower.status().knownLeader().isPresent()));

            assertThat(LOCKS.sessions("pg-leader/leading")).hasSize(1);
            assertThat(LOCKS.sessions("pg-leader/following")).hasSize(1);
            for (String group : List.of("leading", "following")) {
                // The election thread, the watch over the callbacks, and the callbacks.
                await().atMost(PATIENCE).until(() -> threads(group) <= 2 + CallbackThreads.FEW);
            }
            assertThat(followers).noneMatch(LeaderElector::isLeader);
            leading.stop();
            awaitAllLead(followers);
        }
    }

    private static long threads(String group) {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("pg-leader-" + group))
                .count();
    }

    @Test
    void aFullLockTableIsReportedAndCostsNoLeadership() throws Exception { // X15
        long keys = freshKeys();
        try (PostgresServer small = PostgresServer.builder()
                        .setting("max_connections", "10")
                        .setting("max_locks_per_transaction", "10")
                        .launch();
                LeaderElectorGroup group = group("crowded", direct(small));
                Connection application = small.connect()) {
            Set<String> revoked = ConcurrentHashMap.newKeySet();
            List<LeaderElector> first = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                first.add(group.elector(LockKey.of(keys + i))
                        .listener(new LeadershipListener() {
                            @Override
                            public void onElected(Leadership leadership) {}

                            @Override
                            public void onRevoked(Leadership leadership, RevocationReason reason) {
                                revoked.add(leadership + " " + reason);
                            }
                        })
                        .build());
            }
            group.start();
            awaitAllLead(first);
            List<LeaderElector> more = electors(group, keys + 20, 2_000);
            group.start();
            await().atMost(PATIENCE)
                    .until(() -> more.stream()
                            .filter(elector -> !elector.isLeader())
                            .allMatch(elector -> elector.status()
                                    .problem()
                                    .filter(problem -> problem.fault()
                                            .filter(Fault.LOCK_TABLE_FULL::equals)
                                            .isPresent())
                                    .isPresent()));

            assertThat(first).allMatch(LeaderElector::isLeader);
            assertThat(revoked).isEmpty();
            assertThat(more).anyMatch(LeaderElector::isLeader).anyMatch(elector -> !elector.isLeader());
            assertThat(first.get(0).status().problem()).isEmpty();
            // The application has room to work, though at the moment of a try there may be none.
            await().atMost(PATIENCE).ignoreExceptions().until(() -> {
                Sql.execute(application, "CREATE TABLE IF NOT EXISTS work (id int PRIMARY KEY)");
                return true;
            });

            // Those that leave make room for those that wait.
            List<LeaderElector> leaving =
                    more.stream().filter(LeaderElector::isLeader).toList();
            LeaderElector waiting = more.stream()
                    .filter(elector -> !elector.isLeader())
                    .findFirst()
                    .orElseThrow();
            CompletableFuture.allOf(leaving.stream().map(LeaderElector::pause).toArray(CompletableFuture<?>[]::new))
                    .get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            await().atMost(PATIENCE.multipliedBy(2))
                    .until(() -> more.stream().filter(LeaderElector::isLeader).count() >= leaving.size() / 2);
            assertThat(waiting.status().role()).isIn(LeaderStatus.Role.FOLLOWER, LeaderStatus.Role.LEADER);
            assertThat(first).allMatch(LeaderElector::isLeader);
        }
    }
}
