package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.Registration;
import dev.pgleader.RevocationReason;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.ApplicationEvent;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.Lifecycle;
import org.springframework.context.SmartLifecycle;

/**
 * Ties what the application has to the electors: listener beans first, in their order, then lifecycle beans, then events. A
 * revocation goes the other way round.
 */
final class LeadershipCallbacks {

    private static final Logger LOG = LoggerFactory.getLogger(LeadershipCallbacks.class);

    private final ConfigurableListableBeanFactory beanFactory;
    private final ApplicationEventPublisher publisher;
    private final Electors electors;
    private final List<LeaderLifecycleListener> lifecycleListeners = new ArrayList<>();
    /** What this context has added to electors that outlive it. */
    private final List<Registration> atElectorsOfOthers = new ArrayList<>();

    LeadershipCallbacks(
            ConfigurableListableBeanFactory beanFactory, ApplicationEventPublisher publisher, Electors electors) {
        this.beanFactory = beanFactory;
        this.publisher = publisher;
        this.electors = electors;
    }

    void register() {
        addListenerBeans();
        addLifecycleBeans();
        // A context publishes to its ancestors, too, so only that of the elector does.
        electors.own().forEach(elector -> elector.addListener(new EventPublication(elector, publisher)));
    }

    private void add(LeaderElector elector, LeadershipListener listener) {
        Registration registration = elector.addListener(listener);
        if (!electors.own().contains(elector)) {
            atElectorsOfOthers.add(registration);
        }
    }

    /** Has electors of ancestors of this context forget it: they go on. */
    void unregister() {
        atElectorsOfOthers.forEach(Registration::close);
    }

    private void addListenerBeans() {
        IdentityHashMap<LeadershipListener, String> names = new IdentityHashMap<>();
        beanFactory.getBeansOfType(LeadershipListener.class).forEach((name, listener) -> names.put(listener, name));
        // Those of an ancestor are told by the ancestor.
        List<LeadershipListener> inOrder = beanFactory
                .getBeanProvider(LeadershipListener.class)
                .orderedStream()
                .filter(names::containsKey)
                .toList();
        for (LeadershipListener listener : inOrder) {
            String name = names.get(listener);
            Election election = name == null ? null : beanFactory.findAnnotationOnBean(name, Election.class);
            if (election == null) {
                electors.all().values().forEach(elector -> add(elector, listener));
            } else {
                electors.find(election.value(), "@Election at the bean \"" + name + "\"")
                        .ifPresent(elector -> add(elector, listener));
            }
        }
    }

    private void addLifecycleBeans() {
        Map<LeaderElector, List<Lifecycle>> byElector = new LinkedHashMap<>();
        for (String name : beanFactory.getBeanNamesForAnnotation(LeaderLifecycle.class)) {
            LeaderLifecycle annotation = beanFactory.findAnnotationOnBean(name, LeaderLifecycle.class);
            if (annotation == null) {
                continue;
            }
            Lifecycle lifecycle = requireLifecycle(name, beanFactory.getBean(name));
            String election = String.valueOf(beanFactory.resolveEmbeddedValue(annotation.value()));
            electors.find(election, "@LeaderLifecycle at the bean \"" + name + "\"")
                    .ifPresent(elector -> byElector
                            .computeIfAbsent(elector, key -> new ArrayList<>())
                            .add(lifecycle));
        }
        byElector.forEach((elector, lifecycles) -> {
            LeaderLifecycleListener listener = new LeaderLifecycleListener(lifecycles);
            lifecycleListeners.add(listener);
            add(elector, listener);
        });
    }

    private static Lifecycle requireLifecycle(String name, Object bean) {
        if (!(bean instanceof Lifecycle lifecycle)) {
            throw new LeaderConfigurationException(
                    "The bean \"" + name + "\" has @LeaderLifecycle, but its class "
                            + bean.getClass().getName() + " isn't a " + Lifecycle.class.getName() + ".",
                    "Implement Lifecycle, or take a LeadershipListener bean to start and stop it.");
        }
        if (lifecycle instanceof SmartLifecycle smart && smart.isAutoStartup()) {
            throw new LeaderConfigurationException(
                    "The bean \"" + name
                            + "\" has @LeaderLifecycle, and yet would start by itself on every instance: its"
                            + " isAutoStartup() is true.",
                    "Have isAutoStartup() return false, for instance with setAutoStartup(false).");
        }
        return lifecycle;
    }

    /** A context that is started again starts all lifecycle beans, those for the leader too. */
    void stopWhatMustNotRunYet() {
        lifecycleListeners.forEach(LeaderLifecycleListener::stop);
    }

    /** Event listeners only watch: what they throw must not cost leadership, nor keep it. */
    private static final class EventPublication implements LeadershipListener {

        private final LeaderElector elector;
        private final ApplicationEventPublisher publisher;

        EventPublication(LeaderElector elector, ApplicationEventPublisher publisher) {
            this.elector = elector;
            this.publisher = publisher;
        }

        @Override
        public void onElected(Leadership leadership) {
            publish(new LeaderElectedEvent(elector, leadership));
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            publish(new LeaderRevokedEvent(elector, leadership, reason));
        }

        private void publish(ApplicationEvent event) {
            try {
                publisher.publishEvent(event);
            } catch (RuntimeException | Error e) {
                LOG.error("An event listener failed with {}", event, e);
            }
        }

        @Override
        public String toString() {
            return "application events";
        }
    }
}
