package dev.pgleader.docs;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
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

    static void bind(LeaderElector elector, MeterRegistry registry) {
        new LeaderMetrics(elector).bindTo(registry);
    }
}
