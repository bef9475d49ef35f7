package dev.pgleader.spring;

import static dev.pgleader.spring.LeaderAutoConfigurationTest.analysis;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.spring.test.TestLeaderAutoConfiguration;
import dev.pgleader.spring.test.TestLeaderElectors;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.Lifecycle;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;

class LeadershipCallbacksTest {

    private final ApplicationContextRunner application = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    TestLeaderAutoConfiguration.class,
                    LeaderAutoConfiguration.class,
                    LeaderOnlyAutoConfiguration.class))
            .withPropertyValues("pgleader.elections.billing.key=billing", "pgleader.elections.reports.key=reports");

    /** Where all beans of a test write down what happens to them. */
    static final class Journal {
        final List<String> entries = new CopyOnWriteArrayList<>();
    }

    record Noting(String name, Journal journal) implements LeadershipListener {

        @Override
        public void onElected(Leadership leadership) {
            journal.entries.add(name + " elected");
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            journal.entries.add(name + " revoked " + reason);
        }
    }

    static class Container implements SmartLifecycle {

        private final String name;
        private final int phase;
        private final boolean autoStartup;
        private final Journal journal;
        private volatile boolean running;

        Container(String name, int phase, boolean autoStartup, Journal journal) {
            this.name = name;
            this.phase = phase;
            this.autoStartup = autoStartup;
            this.journal = journal;
        }

        @Override
        public void start() {
            journal.entries.add(name + " starts");
            running = true;
        }

        @Override
        public void stop() {
            journal.entries.add(name + " stops");
            running = false;
        }

        @Override
        public boolean isRunning() {
            return running;
        }

        @Override
        public boolean isAutoStartup() {
            return autoStartup;
        }

        @Override
        public int getPhase() {
            return phase;
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Callbacks {

        @Bean
        Journal journal() {
            return new Journal();
        }

        @Bean
        @Order(2)
        @Election("billing")
        LeadershipListener ofBilling(Journal journal) {
            return new Noting("ofBilling", journal);
        }

        @Bean
        @Order(1)
        LeadershipListener ofAll(Journal journal) {
            return new Noting("ofAll", journal);
        }

        @Bean
        @LeaderLifecycle("billing")
        Container late(Journal journal) {
            return new Container("late", 2, false, journal);
        }

        @Bean
        @LeaderLifecycle("billing")
        Lifecycle early(Journal journal) {
            return new Container("early", 1, false, journal);
        }
    }

    @Test
    void callbacksAreTiedToTheirElectionsAndRevokedInReverseOrder() {
        application.withUserConfiguration(Callbacks.class).run(context -> {
            Journal journal = context.getBean(Journal.class);
            TestLeaderElectors electors = context.getBean(TestLeaderElectors.class);
            assertThat(journal.entries).isEmpty();
            electors.grant("reports");
            assertThat(journal.entries).containsExactly("ofAll elected");
            journal.entries.clear();
            electors.grant("billing");
            electors.revoke("billing");
            assertThat(journal.entries)
                    .containsExactly(
                            "ofAll elected",
                            "ofBilling elected",
                            "early starts",
                            "late starts",
                            "late stops",
                            "early stops",
                            "ofBilling revoked RESIGNED",
                            "ofAll revoked RESIGNED");
        });
    }

    @Test
    void aContextThatIsStartedAgainLeavesLeaderOnlyBeansStopped() {
        application.withUserConfiguration(Callbacks.class).run(context -> {
            context.stop();
            context.start();
            assertThat(context.getBeansOfType(Container.class).values()).noneMatch(Container::isRunning);
            context.getBean(TestLeaderElectors.class).grant("billing");
            assertThat(context.getBeansOfType(Container.class).values()).allMatch(Container::isRunning);
        });
    }

    @Configuration(proxyBeanMethods = false)
    static class StartsByItself {

        @Bean
        @LeaderLifecycle("billing")
        Container eager() {
            return new Container("eager", 0, true, new Journal());
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class NoLifecycle {

        @Bean
        @LeaderLifecycle("billing")
        Journal mistaken() {
            return new Journal();
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class UnknownElection {

        @Bean
        @Election("biling")
        LeadershipListener misspelt() {
            return new Noting("misspelt", new Journal());
        }
    }

    @Test
    void whatCannotBeTiedIsRefused() {
        application
                .withUserConfiguration(StartsByItself.class)
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("\"eager\"", "would start by itself on every instance", "setAutoStartup(false)"));
        application
                .withUserConfiguration(NoLifecycle.class)
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("\"mistaken\"", "isn't a org.springframework.context.Lifecycle"));
        application
                .withUserConfiguration(UnknownElection.class)
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("@Election at the bean \"misspelt\"", "\"biling\"", "billing, reports"));
    }

    static final class Broken implements Lifecycle {

        @Override
        public void start() {
            throw new IllegalStateException("broken");
        }

        @Override
        public void stop() {
            throw new IllegalStateException("not even that");
        }

        @Override
        public boolean isRunning() {
            return true;
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class OneBreaks {

        @Bean
        @Election("billing")
        LeadershipListener containers(Journal journal) {
            Container first = new Container("first", 0, false, journal);
            Container last = new Container("last", 2, false, journal) {
                @Override
                public void start() {
                    throw new IllegalStateException("no queue");
                }
            };
            return new LeaderLifecycleListener(List.of(new Broken(), last, first));
        }

        @Bean
        Journal journal() {
            return new Journal();
        }
    }

    @Test
    void aContainerThatDoesNotStartHasTheInstanceStepDownAndTheOthersStopped() {
        application.withUserConfiguration(OneBreaks.class).run(context -> {
            TestLeaderElectors electors = context.getBean(TestLeaderElectors.class);
            assertThatThrownBy(() -> electors.grant("billing")).hasMessageContaining("A callback failed");
            electors.revoke("billing");
            assertThat(context.getBean(Journal.class).entries).startsWith("first starts", "first stops");
        });
    }
}
