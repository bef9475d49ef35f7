package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderElectorGroup;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.context.ApplicationContext;
import org.springframework.context.ApplicationListener;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.event.ContextClosedEvent;
import org.springframework.core.Ordered;

/**
 * Has the electors take part in their elections from the end of the context's start on, and leave first of all when it stops.
 *
 * <p>The highest phase isn't enough for that: other beans have it too, and one whose stop blocks may come first. So a closing
 * context begins it with its event, before any lifecycle, on a thread of its own; the lifecycle then waits for it, and so does
 * whatever has a lower phase: the web server and all that callbacks may need.
 */
final class ElectionLifecycle
        implements SmartLifecycle, SmartInitializingSingleton, ApplicationListener<ContextClosedEvent>, Ordered {

    private static final Logger LOG = LoggerFactory.getLogger(ElectionLifecycle.class);

    private final ApplicationContext context;
    private final ListableBeanFactory beanFactory;
    private final Electors electors;
    private final LeadershipCallbacks callbacks;
    private final LeaderMode mode;

    private final Object lock = new Object();
    private boolean started;
    private CompletableFuture<Void> stopped = CompletableFuture.completedFuture(null);

    ElectionLifecycle(
            ApplicationContext context,
            ListableBeanFactory beanFactory,
            Electors electors,
            LeadershipCallbacks callbacks,
            LeaderMode mode) {
        this.context = context;
        this.beanFactory = beanFactory;
        this.electors = electors;
        this.callbacks = callbacks;
        this.mode = mode;
    }

    /** Before the first election, and with all beans there. */
    @Override
    public void afterSingletonsInstantiated() {
        callbacks.register();
    }

    @Override
    public void start() {
        synchronized (lock) {
            if (started) {
                return;
            }
            started = true;
        }
        callbacks.stopWhatMustNotRunYet();
        if (mode == LeaderMode.NEVER_LEADER) {
            LOG.warn("pgleader.enabled is false or pgleader.mode is never-leader: this instance takes part in no"
                    + " election, and what is leader-only never runs here");
            return;
        }
        if (mode == LeaderMode.ALWAYS_LEADER) {
            LOG.warn(
                    "pgleader.mode is always-leader: THIS INSTANCE LEADS WITHOUT ASKING ANYBODY, and so does every other"
                            + " one that is configured so. For development and tests only");
        }
        electors.own().forEach(LeaderElector::start);
    }

    @Override
    public void stop() {
        CompletableFuture<Void> leaving = leave();
        if (!isCalledByWhatItWaitsFor()) {
            leaving.join();
        }
    }

    @Override
    public void stop(Runnable callback) {
        CompletableFuture<Void> leaving = leave();
        if (isCalledByWhatItWaitsFor()) {
            callback.run();
        } else {
            var unused = leaving.whenComplete((result, failure) -> callback.run());
        }
    }

    /** A callback or a leader-only call that closes the context: the electors have left only when it has returned. */
    private boolean isCalledByWhatItWaitsFor() {
        return electors.own().stream().anyMatch(LeaderElector::isInCallback);
    }

    /** True also while it stops: else nobody would wait for that. */
    @Override
    public boolean isRunning() {
        synchronized (lock) {
            return started || !stopped.isDone();
        }
    }

    @Override
    public int getPhase() {
        return Integer.MAX_VALUE;
    }

    @Override
    public void onApplicationEvent(ContextClosedEvent event) {
        if (event.getApplicationContext() == context) {
            var unused = leave();
            callbacks.unregister();
        }
    }

    /** First among the listeners of the event. */
    @Override
    public int getOrder() {
        return Ordered.HIGHEST_PRECEDENCE;
    }

    /** Has all electors leave at the same time; returns at once. */
    private CompletableFuture<Void> leave() {
        synchronized (lock) {
            if (started) {
                started = false;
                stopped = CompletableFuture.allOf(departures().stream()
                        .map(ElectionLifecycle::onThreadOfItsOwn)
                        .toArray(CompletableFuture<?>[]::new));
            }
            return stopped;
        }
    }

    /** What leaves the election, and how. */
    private record Departure(String who, Runnable stop) {}

    /** One for each group, and one for each elector that belongs to no group bean. */
    private List<Departure> departures() {
        Collection<LeaderElectorGroup> groups = beanFactory
                .getBeansOfType(LeaderElectorGroup.class, false, false)
                .values();
        List<Departure> departures = new ArrayList<>();
        groups.forEach(group -> departures.add(new Departure(group.toString(), group::stop)));
        for (LeaderElector elector : electors.own()) {
            if (groups.stream().noneMatch(group -> group.electors().contains(elector))) {
                departures.add(new Departure(elector.toString(), elector::stop));
            }
        }
        return departures;
    }

    private static CompletableFuture<Void> onThreadOfItsOwn(Departure departure) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        Runnable task = () -> {
            try {
                departure.stop().run();
            } catch (Throwable e) {
                LOG.error("{} couldn't be stopped; it gives its lock up when its session ends", departure.who(), e);
            } finally {
                done.complete(null);
            }
        };
        Thread thread = new Thread(task, "pg-leader-stop");
        thread.setDaemon(true);
        thread.start();
        return done;
    }
}
