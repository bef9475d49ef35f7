package dev.pgleader;

import static dev.pgleader.TestCandidate.FAST;
import static dev.pgleader.TestCandidate.direct;
import static dev.pgleader.TestCandidate.freshKeyBits;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.lock.LockKey;
import dev.pgleader.testkit.PostgresServer;
import dev.pgleader.testkit.TcpProxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How evenly 100 keys settle over the instances, on a real server. */
@Timeout(300)
class SpreadOnServerTest {

    private static final PostgresServer SERVER = PostgresServer.shared();
    private static final int KEYS = 100;
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final long firstKey = freshKeyBits() << 20;
    private final List<LeaderElectorGroup> groups = new ArrayList<>();

    private LeaderElectorGroup add(Spread spread) {
        return add(spread, SERVER.port(), KEYS);
    }

    private LeaderElectorGroup add(Spread spread, int port, int keys) {
        int number = groups.size() + 1;
        LeaderElectorGroup group = LeaderElectorGroup.builder()
                .connectTo(direct(SERVER, port))
                .name("spread-" + firstKey)
                .instanceId("instance-" + number)
                .options(FAST)
                .spread(spread)
                .build();
        for (int i = 0; i < keys; i++) {
            group.elector(LockKey.of(firstKey + i)).build();
        }
        groups.add(group);
        return group;
    }

    @AfterEach
    void closeAll() {
        groups.forEach(LeaderElectorGroup::close);
    }

    private static int led(LeaderElectorGroup group) {
        return (int) group.electors().stream().filter(LeaderElector::isLeader).count();
    }

    private List<Integer> led() {
        return groups.stream().map(SpreadOnServerTest::led).toList();
    }

    private void awaitAllLed() {
        awaitAllLed(KEYS);
    }

    private void awaitAllLed(int keys) {
        await().atMost(PATIENCE)
                .until(() -> led().stream().mapToInt(Integer::intValue).sum() == keys);
    }

    @Test
    void keysSettleEvenlyAtTheStartAndAfterTheEndOfAnInstance() throws Exception {
        Spread spread = Spread.over(Duration.ofSeconds(4));
        TcpProxy network = new TcpProxy(SERVER.port());
        LeaderElectorGroup mortal = add(spread, network.port(), KEYS);
        for (int i = 0; i < 4; i++) {
            add(spread);
        }
        groups.forEach(LeaderElectorGroup::start);
        awaitAllLed();
        List<Integer> atStart = led();
        System.out.println("100 keys on 5 instances: " + atStart);
        // On a quiet machine within 12 to 28; one that pauses has fewer keys, and the others more.
        assertThat(atStart).allSatisfy(share -> assertThat(share).isBetween(5, 50));

        groups.remove(4).close();
        awaitAllLed();
        System.out.println("after an instance was closed: " + led());
        assertThat(led()).allSatisfy(share -> assertThat(share).isBetween(8, 55));

        // As if its process had died: nobody is told, and it doesn't come back.
        network.close();
        groups.remove(mortal);
        awaitAllLed();
        System.out.println("after an instance died: " + led());
        assertThat(led()).allSatisfy(share -> assertThat(share).isBetween(10, 65));
        mortal.close();
    }

    @Test
    void anInstanceThatJoinsLaterGetsItsShareByRebalancing() {
        Spread spread = Spread.over(Duration.ofSeconds(1)).rebalanceEvery(Duration.ofMillis(50));
        int keys = 40;
        add(spread, SERVER.port(), keys).start();
        awaitAllLed(keys);
        add(spread, SERVER.port(), keys).start();
        await().atMost(PATIENCE).until(() -> led().get(1) >= 18);
        awaitAllLed(keys);
        System.out.println(keys + " keys after a second instance joined: " + led());
    }

    @Test
    void withoutRebalancingLeadersStayWhereTheyAre() {
        add(Spread.over(Duration.ofMillis(500))).start();
        awaitAllLed();
        LeaderElectorGroup late = add(Spread.over(Duration.ofMillis(500)));
        late.start();
        await().atMost(PATIENCE)
                .until(() -> late.electors().stream()
                        .allMatch(elector -> elector.status().knownLeader().isPresent()));
        assertThat(led()).containsExactly(KEYS, 0);
    }
}
