package dev.pgleader.example.lab.node;

import dev.pgleader.Leadership;
import dev.pgleader.RevocationReason;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/**
 * A job of several steps, of which there must not be two at a time. Who gives up its leadership in order ends it first; who has
 * lost it does no further step.
 */
final class LongRun {

    private static final int STEPS = 5;

    private final Duration step;
    private final ReportWriter reports;
    private final AtomicBoolean requested = new AtomicBoolean();
    private long runs; // by the work's thread only, and there is one at a time

    LongRun(Duration step, ReportWriter reports) {
        this.step = step;
        this.reports = reports;
    }

    /** How long one takes. */
    static Duration duration(Duration step) {
        return step.multipliedBy(STEPS);
    }

    /** From now on, the leader's next work is this. */
    void request() {
        requested.set(true);
    }

    void runIfRequested(Leadership leadership) {
        if (!requested.getAndSet(false)) {
            return;
        }
        long run = ++runs;
        for (int done = 0; ; done++) {
            reports.report(new NodeReport.RunStep(run, done, STEPS, leadership.term()));
            if (done == STEPS) {
                return;
            }
            if (isLost(leadership)) {
                reports.report(new NodeReport.RunAbandoned(run));
                return;
            }
            Work.take(step);
        }
    }

    private static boolean isLost(Leadership leadership) {
        @Nullable
        RevocationReason reason = leadership.revoked().toCompletableFuture().getNow(null);
        return reason != null && !ElectionReporter.isGivenUp(reason);
    }
}
