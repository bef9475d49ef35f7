package dev.pgleader.spring;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.concurrent.TimeUnit;

/** Meters of {@link LeaderOnly} methods, each from the start on: a rate needs the zero before the first call. */
final class LeaderOnlyMetrics implements MeterBinder {

    private final LeaderOnlyCalls calls;

    LeaderOnlyMetrics(LeaderOnlyCalls calls) {
        this.calls = calls;
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        calls.watch(method -> bind(method, registry));
    }

    private static void bind(LeaderOnlyMethod method, MeterRegistry registry) {
        Tags tags = Tags.of("elector", method.election(), "method", method.name());
        FunctionTimer.builder(
                        "pgleader.calls",
                        method,
                        each -> (long) each.callsRun(),
                        LeaderOnlyMethod::nanosRun,
                        TimeUnit.NANOSECONDS)
                .description("Calls of a leader-only method that this instance has made")
                .tags(tags)
                .register(registry);
        FunctionCounter.builder("pgleader.calls.skipped", method, LeaderOnlyMethod::callsSkipped)
                .description("Calls of a leader-only method that this instance has skipped, since it didn't lead")
                .tags(tags)
                .register(registry);
        FunctionCounter.builder("pgleader.calls.cut.off", method, LeaderOnlyMethod::callsCutOff)
                .description("Calls of a leader-only method that still ran when the lock was lost or released")
                .tags(tags)
                .register(registry);
    }
}
