package dev.pgleader.micrometer;

import dev.pgleader.ElectionObserver;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderStatus;
import dev.pgleader.Leadership;
import dev.pgleader.RevocationReason;
import dev.pgleader.lock.LockSessionException.Fault;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.TimeGauge;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * The meters of one elector. All of them exist from {@link #bindTo} on, whatever has happened yet, until the elector is closed.
 * Each has the tag {@code elector}, the elector's name; where two groups have electors of the same name, give extra tags.
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
 * <tr><td>{@code pgleader.problem}</td><td>gauge</td><td>0 or 1</td><td>{@code kind}: a {@link LeaderStatus.Problem.Kind}</td>
 *     <td>whether the status shows this problem</td></tr>
 * <tr><td>{@code pgleader.events.lost}</td><td>counter</td><td>events</td><td></td>
 *     <td>events that these meters missed, since an observer was too slow</td></tr>
 * </table>
 */
public final class LeaderMetrics implements MeterBinder {

    /** What is bound to which registry, so that an elector that is built anew shows in place of the one before. */
    private static final Map<MeterRegistry, Map<Tags, Binding>> BOUND = new WeakHashMap<>();

    private record Binding(LeaderElector elector, List<Meter> meters) {
        void removeFrom(MeterRegistry registry) {
            meters.forEach(registry::remove);
        }
    }

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

    /**
     * Registers the meters. If an elector that is closed by now had the same meters, these take their place.
     *
     * @throws IllegalStateException if another elector that isn't closed has the same meters in this registry
     */
    @Override
    public void bindTo(MeterRegistry registry) {
        synchronized (BOUND) {
            Map<Tags, Binding> bound = BOUND.computeIfAbsent(registry, each -> new HashMap<>());
            Binding before = bound.get(tags);
            if (before != null && before.elector == elector) {
                return;
            }
            if (before != null && !before.elector.isClosed()) {
                throw new IllegalStateException("Another elector has meters with the tags " + tags
                        + " in this registry: give one of them another name, or extra tags");
            }
            if (before != null) {
                before.removeFrom(registry);
            }
            List<Meter> gauges = registerGauges(registry);
            Meters meters = new Meters(registry, tags, () -> unbind(registry));
            List<Meter> all =
                    Stream.concat(gauges.stream(), meters.all().stream()).toList();
            bound.put(tags, new Binding(elector, all));
            elector.addObserver(meters);
        }
    }

    private List<Meter> registerGauges(MeterRegistry registry) {
        List<Meter> gauges = new ArrayList<>();
        gauges.add(Gauge.builder("pgleader.leader", elector, each -> each.isLeader() ? 1 : 0)
                .description("Whether this instance leads")
                .tags(tags)
                .strongReference(true)
                .register(registry));
        gauges.add(TimeGauge.builder("pgleader.check.age", elector, TimeUnit.SECONDS, LeaderMetrics::checkAgeSeconds)
                .description("Time since the last good check began")
                .tags(tags)
                .strongReference(true)
                .register(registry));
        for (LeaderStatus.Problem.Kind kind : LeaderStatus.Problem.Kind.values()) {
            gauges.add(Gauge.builder("pgleader.problem", elector, each -> has(each, kind) ? 1 : 0)
                    .description("Whether the status shows this problem")
                    .tags(tags)
                    .tag("kind", kind.name())
                    .strongReference(true)
                    .register(registry));
        }
        return gauges;
    }

    private static boolean has(LeaderElector elector, LeaderStatus.Problem.Kind kind) {
        return elector.status()
                .problem()
                .filter(problem -> problem.kind() == kind)
                .isPresent();
    }

    /** The elector is closed: its meters go, unless another one has taken their place. */
    private void unbind(MeterRegistry registry) {
        synchronized (BOUND) {
            Map<Tags, Binding> bound = BOUND.get(registry);
            Binding mine = bound == null ? null : bound.get(tags);
            if (bound != null && mine != null && mine.elector == elector) {
                bound.remove(tags);
                mine.removeFrom(registry);
            }
        }
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
        private final Counter lost;
        private final Runnable onClosed;

        Meters(MeterRegistry registry, Tags tags, Runnable onClosed) {
            this.onClosed = onClosed;
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
            lost = Counter.builder("pgleader.events.lost")
                    .description("Events that these meters missed, since an observer was too slow")
                    .tags(tags)
                    .register(registry);
        }

        List<Meter> all() {
            List<Meter> all = new ArrayList<>(
                    List.of(elections, terms, granted, taken, checks, sessions, callbackFailures, lost));
            all.addAll(revocations.values());
            all.addAll(failures.values());
            return all;
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

        @Override
        public void eventsLost(int count) {
            lost.increment(count);
        }

        @Override
        public void closed() {
            onClosed.run();
        }

        private static <K> void count(Map<K, Counter> counters, K key) {
            Counter counter = counters.get(key);
            if (counter != null) {
                counter.increment();
            }
        }
    }
}
