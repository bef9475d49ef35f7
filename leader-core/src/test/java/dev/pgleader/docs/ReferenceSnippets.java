package dev.pgleader.docs;

import dev.pgleader.AcquisitionMode;
import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderElectorGroup;
import dev.pgleader.LeadershipListener;
import dev.pgleader.Spread;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import dev.pgleader.micrometer.LeaderMetrics;
import io.micrometer.core.instrument.MeterRegistry;
import java.time.Duration;
import java.util.List;

/** What the pages on operations, keys and metrics show. */
final class ReferenceSnippets {

    private ReferenceSnippets() {}

    static ElectorOptions fastOptions() {
        ElectorOptions fast = ElectorOptions.builder()
                .leaseDuration(Duration.ofSeconds(5))
                .healthCheckInterval(Duration.ofSeconds(1))
                .healthCheckTimeout(Duration.ofSeconds(1))
                .retryInterval(Duration.ofMillis(500))
                .build();
        return fast;
    }

    static List<LockKey> keys() {
        LockKey byName = LockKey.named("billing/nightly-run");
        LockKey byNumber = LockKey.of(1933511469906719326L);
        LockKey byPair = LockKey.of(4, 2);
        return List.of(byName, byNumber, byPair);
    }

    static LeaderElectorGroup group(
            ConnectionSource source, LeadershipListener billingListener, LeadershipListener reportsListener) {
        LeaderElectorGroup group =
                LeaderElectorGroup.builder().connectTo(source).build();
        LeaderElector billing =
                group.elector("billing/nightly-run").listener(billingListener).build();
        LeaderElector reports =
                group.elector("reports/mailer").listener(reportsListener).build();
        group.start();
        if (!group.electors().equals(List.of(billing, reports))) {
            throw new IllegalStateException("The group has " + group.electors());
        }
        return group;
    }

    static LeaderElectorGroup spread(ConnectionSource source) {
        LeaderElectorGroup group = LeaderElectorGroup.builder()
                .connectTo(source)
                .name("importers")
                .spread(Spread.evenly())
                .build();
        return group;
    }

    static ElectorOptions queueing() {
        ElectorOptions queueing = ElectorOptions.builder()
                .acquisitionMode(AcquisitionMode.QUEUE)
                .queueSlice(Duration.ofSeconds(2))
                .build();
        return queueing;
    }

    static void bind(LeaderElector elector, MeterRegistry registry) {
        new LeaderMetrics(elector).bindTo(registry);
    }
}
