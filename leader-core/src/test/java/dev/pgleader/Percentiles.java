package dev.pgleader;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.Collection;
import java.util.List;
import java.util.Locale;

/** What was measured, for an assertion and for the report; printed when it's made. */
final class Percentiles {

    private final String what;
    private final List<Long> sortedMicros;

    Percentiles(String what, Collection<Long> micros) {
        this.what = what;
        this.sortedMicros = micros.stream().sorted().toList();
        System.out.println(this);
    }

    /** The smallest measured time that {@code percent} of them don't exceed. */
    Duration at(int percent) {
        int rank = (int) Math.ceil(percent / 100.0 * sortedMicros.size());
        return Duration.of(sortedMicros.get(Math.max(rank, 1) - 1), ChronoUnit.MICROS);
    }

    @Override
    public String toString() {
        return String.format(
                Locale.ROOT,
                "%s, %d rounds: min %.1f, p50 %.1f, p90 %.1f, p99 %.1f, max %.1f ms",
                what,
                sortedMicros.size(),
                millis(0),
                millis(50),
                millis(90),
                millis(99),
                millis(100));
    }

    double millis(int percent) {
        return at(percent).toNanos() / 1e6;
    }
}
