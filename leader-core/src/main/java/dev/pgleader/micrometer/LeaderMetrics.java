package dev.pgleader.micrometer;

import dev.pgleader.ElectionObserver;
import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.RevocationReason;
import dev.pgleader.lock.LockSessionException.Fault;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.TimeGauge;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.time.Duration;
import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * The meters of one elector. All of them exist from {@link #bindTo} on, whatever has happened yet, and hold on to the elector,
 * so that they don't vanish with it. Each has the tag {@code elector}, the elector's name.
 *
 * <table>
 * <caption>Meters</caption>
 * <tr><th>Name</th><th>Kind</th><th>Unit</th><th>Further tags</th><th>Meaning</th></tr>
 * <tr><td>{@code pgleader.leader}</td><td>gauge</td><td>0 or 1</td><td></td>
 *     <td>whether this instance leads: {@link LeaderElector#isLeader()} at the time of reading</td></tr>
 * <tr><td>{@code pgleader.check.age}</td><td>gauge</td><td>seconds</td><td></td>
 *     <td>time since the last good check began; NaN before the first</td></tr>
 * <tr><td>{@code pgleader.elections}</td><td>counter</td><td>terms</td><td></td><td>terms that began</td></tr>
 * <tr><td>{@code pgleader.revocations}</td><td>counter</td><td>terms</td><td>{@code reason}: a {@link RevocationReason}</td>
 *     <td>terms that ended</td></tr>
 * <tr><td>{@code pgleader.term}</td><td>timer</td><td>seconds</td><td></td><td>how long the terms lasted that ended</td></tr>
 * <tr><td>{@code pgleader.attempts}</td><td>timer</td><td>seconds</td><td>{@code result}: granted, taken</td>
 *     <td>tries for the lock that the server answered</td></tr>
 * <tr><td>{@code pgleader.checks}</td><td>timer</td><td>seconds</td><td></td><td>checks of the session that succeeded</td></tr>
 * <tr><td>{@code pgleader.sessions}</td><td>timer</td><td>seconds</td><td></td><td>openings of a session</td></tr>
 * <tr><td>{@code pgleader.failures}</td><td>counter</td><td>failures</td><td>{@code fault}: a {@link Fault}</td>
 *     <td>sessions that couldn't be opened or were given up</td></tr>
 * <tr><td>{@code pgleader.callback.failures}</td><td>counter</td><td>failures</td><td></td>
 *     <td>callbacks of listeners that threw</td></tr>
 * </table>
 */
public final class LeaderMetrics implements MeterBinder {

    private final LeaderElector elector;
    private final Tags tags;

    /**
     * The meters of {@code elector}.
     *
     * @param extraTags further tags of all its meters
     */
    public LeaderMetrics(LeaderElector elector, Iterable<Tag> extraTags) {
        this.elector = elector;
        this.tags = Tags.of("elector", elector.name()).and(extraTags);
    }

    /** The meters of {@code elector}. */
    public LeaderMetrics(LeaderElector elector) {
        this(elector, Tags.empty());
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        Gauge.builder("pgleader.leader", elector, each -> each.isLeader() ? 1 : 0)
                .description("Whether this instance leads")
                .tags(tags)
                .strongReference(true)
                .register(registry);
        TimeGauge.builder("pgleader.check.age", elector, TimeUnit.SECONDS, LeaderMetrics::checkAgeSeconds)
                .description("Time since the last good check began")
                .tags(tags)
                .strongReference(true)
                .register(registry);
        elector.addObserver(new Meters(registry, tags));
    }

    private static double checkAgeSeconds(LeaderElector elector) {
        return elector.status().sinceLastCheck().map(age -> age.toNanos() / 1e9).orElse(Double.NaN);
    }

    private static final class Meters implements ElectionObserver {

        private final Counter elections;
        private final Map<RevocationReason, Counter> revocations = new EnumMap<>(RevocationReason.class);
        private final Timer terms;
        private final Timer granted;
        private final Timer taken;
        private final Timer checks;
        private final Timer sessions;
        private final Map<Fault, Counter> failures = new EnumMap<>(Fault.class);
        private final Counter callbackFailures;

        Meters(MeterRegistry registry, Tags tags) {
            elections = Counter.builder("pgleader.elections")
                    .description("Terms that began")
                    .tags(tags)
                    .register(registry);
            for (RevocationReason reason : RevocationReason.values()) {
                Counter counter = Counter.builder("pgleader.revocations")
                        .description("Terms that ended")
                        .tags(tags)
                        .tag("reason", reason.name())
                        .register(registry);
                revocations.put(reason, counter);
            }
            for (Fault fault : Fault.values()) {
                Counter counter = Counter.builder("pgleader.failures")
                        .description("Sessions that couldn't be opened or were given up")
                        .tags(tags)
                        .tag("fault", fault.name())
                        .register(registry);
                failures.put(fault, counter);
            }
            terms = timer(registry, "pgleader.term", "How long the terms lasted that ended", tags);
            granted = timer(registry, "pgleader.attempts", "Tries for the lock", tags.and("result", "granted"));
            taken = timer(registry, "pgleader.attempts", "Tries for the lock", tags.and("result", "taken"));
            checks = timer(registry, "pgleader.checks", "Checks of the session that succeeded", tags);
            sessions = timer(registry, "pgleader.sessions", "Openings of a session", tags);
            callbackFailures = Counter.builder("pgleader.callback.failures")
                    .description("Callbacks of listeners that threw")
                    .tags(tags)
                    .register(registry);
        }

        private static Timer timer(MeterRegistry registry, String name, String description, Tags tags) {
            return Timer.builder(name).description(description).tags(tags).register(registry);
        }

        @Override
        public void sessionOpened(Duration took) {
            sessions.record(took);
        }

        @Override
        public void sessionFailed(Fault fault, String message) {
            count(failures, fault);
        }

        @Override
        public void attempted(boolean wasGranted, Duration took) {
            (wasGranted ? granted : taken).record(took);
        }

        @Override
        public void checked(Duration took) {
            checks.record(took);
        }

        @Override
        public void elected(Leadership leadership) {
            elections.increment();
        }

        @Override
        public void revoked(Leadership leadership, RevocationReason reason, Duration lasted) {
            count(revocations, reason);
            terms.record(lasted);
        }

        @Override
        public void callbackFailed(Throwable failure) {
            callbackFailures.increment();
        }

        private static <K> void count(Map<K, Counter> counters, K key) {
            Counter counter = counters.get(key);
            if (counter != null) {
                counter.increment();
            }
        }
    }
}
