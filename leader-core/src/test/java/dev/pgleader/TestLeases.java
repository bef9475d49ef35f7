package dev.pgleader;

/** Leases for tests. */
final class TestLeases {

    private TestLeases() {}

    /** One that runs out by the monotonic clock of {@code ticker} so many nanoseconds from now. */
    static Lease of(Ticker ticker, long nanos) {
        return new Lease(ticker, new Ticker.Moment(ticker.nanos(), ticker.wallMillis() + 1_000), nanos);
    }
}
