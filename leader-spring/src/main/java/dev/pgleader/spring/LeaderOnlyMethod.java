package dev.pgleader.spring;

import dev.pgleader.ElectionObserver;
import dev.pgleader.LeaderCall;
import dev.pgleader.LeaderElector;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One {@link LeaderOnly} method, with the number of its calls. Thread-safe. */
final class LeaderOnlyMethod {

    private static final Logger LOG = LoggerFactory.getLogger(LeaderOnly.class);

    /** A call that is being made. */
    final class Call implements AutoCloseable {
        private final LeaderCall inCore;
        private final long begin = System.nanoTime();
        private final AtomicBoolean ended = new AtomicBoolean();

        Call(LeaderCall inCore) {
            this.inCore = inCore;
        }

        LeaderCall inCore() {
            return inCore;
        }

        /** The thread that began it is done with it; the call ends when it is closed. */
        void detach() {
            inCore.detach();
        }

        @Override
        public void close() {
            if (ended.compareAndSet(false, true)) {
                runNanos.add(System.nanoTime() - begin);
                run.increment();
                inCore.close();
            }
        }
    }

    private final String name;
    private final @Nullable LeaderElector elector;
    private final boolean interruptible;
    private final LongAdder run = new LongAdder();
    private final LongAdder runNanos = new LongAdder();
    private final LongAdder skipped = new LongAdder();
    private final LongAdder cutOff = new LongAdder();
    private final AtomicBoolean toldOfGap = new AtomicBoolean();

    /** @param elector null if this instance takes part in no election */
    LeaderOnlyMethod(String name, @Nullable LeaderElector elector, boolean interruptible) {
        this.name = name;
        this.elector = elector;
        this.interruptible = interruptible;
    }

    /** Counts the calls that still run when their term's lock is gone. */
    void watchCutOffs() {
        if (elector != null) {
            var unused = elector.addObserver(new ElectionObserver() {
                @Override
                public void callsCutOff(List<String> calls) {
                    cutOff.add(calls.stream().filter(name::equals).count());
                }
            });
        }
    }

    /** Begins a call; empty if it is to be skipped. */
    Optional<Call> begin() {
        Optional<LeaderCall> begun = elector == null ? Optional.empty() : elector.beginCall(name, interruptible);
        if (begun.isEmpty()) {
            skipped.increment();
            tellOfSkip();
        } else {
            toldOfGap.set(false);
        }
        return begun.map(Call::new);
    }

    private void tellOfSkip() {
        if (elector != null && elector.status().knownLeader().isEmpty()) {
            if (toldOfGap.compareAndSet(false, true)) {
                LOG.info(
                        "Skipped {}: this instance doesn't lead {}, and it isn't known that another one does. A call that"
                                + " nobody makes isn't made up for; see \"What nobody runs\" in pg-leader's spring.md",
                        name,
                        elector.name());
            }
        } else {
            toldOfGap.set(false);
            LOG.trace("Skipped {}: this instance doesn't lead", name);
        }
    }

    String name() {
        return name;
    }

    /** The election that it depends on; empty if this instance takes part in none. */
    String election() {
        return elector == null ? "" : elector.name();
    }

    double callsRun() {
        return run.sum();
    }

    double nanosRun() {
        return runNanos.sum();
    }

    double callsSkipped() {
        return skipped.sum();
    }

    double callsCutOff() {
        return cutOff.sum();
    }

    @Override
    public String toString() {
        return name;
    }
}
