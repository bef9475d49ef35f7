package dev.pgleader.spring;

import static dev.pgleader.spring.LeaderAutoConfigurationTest.analysis;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.spring.test.TestLeaderAutoConfiguration;
import dev.pgleader.spring.test.TestLeaderElectors;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.aop.framework.Advised;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.core.PriorityOrdered;
import org.springframework.core.annotation.AliasFor;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

class LeaderOnlyTest {

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final ApplicationContextRunner application = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    AopAutoConfiguration.class,
                    TestLeaderAutoConfiguration.class,
                    LeaderAutoConfiguration.class,
                    LeaderOnlyAutoConfiguration.class))
            .withPropertyValues("pgleader.key=service");

    static class Returns {

        final AtomicInteger runs = new AtomicInteger();

        @LeaderOnly
        public void nothing() {
            runs.incrementAndGet();
        }

        @LeaderOnly
        protected String text() {
            return "done";
        }

        @LeaderOnly
        Integer number() {
            return 1;
        }

        @LeaderOnly
        public Optional<String> optional() {
            return Optional.of("done");
        }

        @LeaderOnly
        public OptionalInt optionalInt() {
            return OptionalInt.of(1);
        }

        @LeaderOnly
        public OptionalLong optionalLong() {
            return OptionalLong.of(1);
        }

        @LeaderOnly
        public OptionalDouble optionalDouble() {
            return OptionalDouble.of(1);
        }

        @LeaderOnly
        public Future<String> future() {
            return CompletableFuture.completedFuture("done");
        }

        @LeaderOnly
        public CompletionStage<String> stage() {
            return CompletableFuture.completedFuture("done");
        }

        @LeaderOnly
        public CompletableFuture<String> completable() {
            return CompletableFuture.completedFuture("done");
        }

        @LeaderOnly
        public Iterable<String> iterable() {
            return List.of("done");
        }

        @LeaderOnly
        public Collection<String> collection() {
            return List.of("done");
        }

        @LeaderOnly
        public List<String> list() {
            return List.of("done");
        }

        @LeaderOnly
        public Set<String> set() {
            return Set.of("done");
        }

        @LeaderOnly
        public Map<String, String> map() {
            return Map.of("done", "done");
        }

        @LeaderOnly
        public Stream<String> stream() {
            return Stream.of("done");
        }

        public String everywhere() {
            return "everywhere";
        }
    }

    @Test
    void aSkippedCallReturnsWhatTheTableSays() throws Exception {
        application.withBean(Returns.class).run(context -> {
            Returns bean = context.getBean(Returns.class);
            bean.nothing();
            assertThat(bean.text()).isNull();
            assertThat(bean.number()).isNull();
            assertThat(bean.optional()).isEmpty();
            assertThat(bean.optionalInt()).isEmpty();
            assertThat(bean.optionalLong()).isEmpty();
            assertThat(bean.optionalDouble()).isEmpty();
            assertThat(bean.future()).isDone();
            assertThat(bean.future().get()).isNull();
            assertThat(bean.stage().toCompletableFuture().get()).isNull();
            assertThat(bean.completable().get()).isNull();
            assertThat(bean.iterable()).isEmpty();
            assertThat(bean.collection()).isEmpty();
            assertThat(bean.list()).isEmpty();
            assertThat(bean.set()).isEmpty();
            assertThat(bean.map()).isEmpty();
            assertThat(bean.stream()).isEmpty();
            assertThat(bean.everywhere()).isEqualTo("everywhere");
        });
    }

    @Test
    void theLeaderMakesTheCallUntilItIsRevoked() {
        application.withBean(Returns.class).run(context -> {
            Returns bean = context.getBean(Returns.class);
            TestLeaderElectors electors = context.getBean(TestLeaderElectors.class);
            electors.grant();
            assertThat(bean.text()).isEqualTo("done");
            assertThat(bean.number()).isEqualTo(1);
            assertThat(bean.optional()).hasValue("done");
            assertThat(bean.completable().get()).isEqualTo("done");
            assertThat(bean.list()).containsExactly("done");
            electors.loseSession();
            assertThat(bean.text()).isNull();
        });
    }

    @Test
    void whereThisInstanceTakesNoPartItIsNeverTheLeader() {
        application
                .withBean(Returns.class)
                .withPropertyValues("pgleader.enabled=false")
                .run(context ->
                        assertThat(context.getBean(Returns.class).text()).isNull());
    }

    @Retention(RetentionPolicy.RUNTIME)
    @LeaderOnly
    @interface OnceInTheCluster {

        @AliasFor(annotation = LeaderOnly.class, attribute = "value")
        String election();
    }

    interface Guarded {

        @LeaderOnly("billing")
        String byInterfaceMethod();
    }

    @LeaderOnly("${reports.election}")
    interface GuardedAsAWhole {

        String byInterface();
    }

    static class Mixed implements Guarded, GuardedAsAWhole {

        @Override
        public String byInterfaceMethod() {
            return "done";
        }

        @Override
        public String byInterface() {
            return "done";
        }

        @OnceInTheCluster(election = "billing")
        public String byMetaAnnotation() {
            return "done";
        }

        public String free() {
            return "done";
        }
    }

    @LeaderOnly("billing")
    static class GuardedClass {

        public String byClass() {
            return "done";
        }

        private int helper() {
            return 1;
        }

        @Override
        public String toString() {
            return "guarded " + helper();
        }
    }

    static class GuardedSubclass extends GuardedClass {

        public String inSubclass() {
            return "done";
        }
    }

    @Test
    void theAnnotationIsFoundAtMethodsClassesInterfacesAndOtherAnnotations() {
        application
                .withBean(Mixed.class)
                .withBean(GuardedClass.class)
                .withBean(GuardedSubclass.class)
                .withPropertyValues(
                        "pgleader.elections.billing.key=billing",
                        "pgleader.elections.reports.key=reports",
                        "reports.election=reports")
                .run(context -> {
                    Mixed mixed = context.getBean(Mixed.class);
                    GuardedClass guarded = context.getBean("leaderOnlyTest.GuardedClass", GuardedClass.class);
                    GuardedSubclass subclass = context.getBean(GuardedSubclass.class);
                    assertThat(mixed.free()).isEqualTo("done");
                    assertThat(mixed.byInterfaceMethod()).isNull();
                    assertThat(mixed.byInterface()).isNull();
                    assertThat(mixed.byMetaAnnotation()).isNull();
                    assertThat(guarded.byClass()).isNull();
                    assertThat(subclass.byClass()).isNull();
                    assertThat(subclass.inSubclass()).isNull();
                    assertThat(guarded).hasToString("guarded 1");

                    TestLeaderElectors electors = context.getBean(TestLeaderElectors.class);
                    electors.grant("billing");
                    assertThat(mixed.byInterfaceMethod()).isEqualTo("done");
                    assertThat(mixed.byMetaAnnotation()).isEqualTo("done");
                    assertThat(mixed.byInterface()).isNull();
                    assertThat(guarded.byClass()).isEqualTo("done");
                    assertThat(subclass.inSubclass()).isEqualTo("done");
                    electors.grant("reports");
                    assertThat(mixed.byInterface()).isEqualTo("done");
                });
    }

    @Configuration(proxyBeanMethods = false)
    @EnableScheduling
    static class Schedule {

        final AtomicInteger leaderRuns = new AtomicInteger();
        final AtomicInteger allRuns = new AtomicInteger();

        @Autowired
        @Lazy
        Schedule self;

        @LeaderOnly
        @Scheduled(fixedDelay = 5)
        void onTheLeader() {
            leaderRuns.incrementAndGet();
        }

        @Scheduled(fixedDelay = 5)
        void everywhere() {
            allRuns.incrementAndGet();
            self.onTheLeader();
        }
    }

    /** Reads the fields of the object behind the proxy. */
    private static Schedule target(Schedule proxy) throws Exception {
        return (Schedule) ((Advised) proxy).getTargetSource().getTarget();
    }

    @Test
    @DisplayName(
            "X02: a scheduled leader-only method never runs on a follower, nor through a reference to its own bean")
    void aScheduledMethodRunsOnTheLeaderAlone() {
        application.withUserConfiguration(Schedule.class).run(context -> {
            Schedule schedule = target(context.getBean(Schedule.class));
            TestLeaderElectors electors = context.getBean(TestLeaderElectors.class);
            await().atMost(PATIENCE).until(() -> schedule.allRuns.get() > 5);
            assertThat(schedule.leaderRuns).hasValue(0);
            electors.grant();
            await().atMost(PATIENCE).until(() -> schedule.leaderRuns.get() > 5);
            electors.revoke();
            // One run may have begun before.
            int runs = schedule.allRuns.get();
            await().atMost(PATIENCE).until(() -> schedule.allRuns.get() > runs + 1);
            int leaderRuns = schedule.leaderRuns.get();
            await().atMost(PATIENCE).until(() -> schedule.allRuns.get() > runs + 6);
            assertThat(schedule.leaderRuns).hasValue(leaderRuns);
        });
    }

    static class CircularA {

        @Autowired
        CircularB other;

        @LeaderOnly
        public String work() {
            return "done";
        }
    }

    static class CircularB {

        @Autowired
        CircularA other;
    }

    @Test
    @DisplayName("X02: beans that refer to each other get the proxy")
    void circularReferencesGetTheProxy() {
        application
                .withAllowCircularReferences(true)
                .withBean(CircularA.class)
                .withBean(CircularB.class)
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(context.getBean(CircularB.class).other.work()).isNull();
                });
    }

    static class NeedsWorker implements BeanPostProcessor {

        final Returns worker;

        NeedsWorker(Returns worker) {
            this.worker = worker;
        }
    }

    /** Is made before the one that makes proxies. */
    static final class NeedsWorkerFirst extends NeedsWorker implements PriorityOrdered {

        NeedsWorkerFirst(Returns worker) {
            super(worker);
        }

        @Override
        public int getOrder() {
            return HIGHEST_PRECEDENCE;
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Early {

        @Bean
        static Returns worker() {
            return new Returns();
        }

        @Bean
        static NeedsWorker early(Returns worker) {
            return new NeedsWorker(worker);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class TooEarly {

        @Bean
        static Returns worker() {
            return new Returns();
        }

        @Bean
        static NeedsWorkerFirst tooEarly(Returns worker) {
            return new NeedsWorkerFirst(worker);
        }
    }

    @Test
    @DisplayName("X02: a bean that is created before its proxy could be is refused when the application starts")
    void aBeanThatIsCreatedTooEarlyIsRefused() {
        application
                .withUserConfiguration(Early.class)
                .run(context -> assertThat(
                                context.getBean(NeedsWorker.class).worker.text())
                        .isNull());
        application
                .withUserConfiguration(TooEarly.class)
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("of the bean \"worker\"", "created too early", "BeanPostProcessor"));
        application
                .withInitializer(context -> context.getBeanFactory().registerSingleton("byHand", new Returns()))
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("@LeaderOnly can't work at", "of the bean \"byHand\"", "has no proxy before it"));
    }

    static class Primitive {
        @LeaderOnly
        public long count() {
            return 1;
        }
    }

    static class Private {
        @LeaderOnly
        @SuppressWarnings("UnusedMethod")
        private void work() {}
    }

    static class Static {
        @LeaderOnly
        public static void work() {}
    }

    static class FinalMethod {
        @LeaderOnly
        public final void work() {}
    }

    static final class FinalClass {
        @LeaderOnly
        public void work() {}
    }

    @LeaderOnly
    static class ClassWithPrimitive {
        public boolean check() {
            return true;
        }
    }

    record Refused(Class<?> type, String why, String action) {}

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5})
    void whatAProxyCannotGuardIsRefusedWhenTheApplicationStarts(int index) {
        Refused refused = List.of(
                        new Refused(Primitive.class, "returns long", "Return Optional<Long> or void"),
                        new Refused(Private.class, "is private", "neither private"),
                        new Refused(Static.class, "is static", "neither private nor static"),
                        new Refused(FinalMethod.class, "is final", "nor final"),
                        new Refused(FinalClass.class, "is final", "Make the class non-final"),
                        new Refused(ClassWithPrimitive.class, "returns boolean", "Optional<Boolean>"))
                .get(index);
        application
                .withBean("worker", refused.type())
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("@LeaderOnly can't work at " + refused.type().getName())
                        .contains("of the bean \"worker\"", refused.why(), refused.action()));
    }

    @Test
    void aMethodThatTheProxyOfItsInterfacesDoesNotHaveIsRefused() {
        application
                .withPropertyValues(
                        "spring.aop.proxy-target-class=false",
                        "reports.election=service",
                        "pgleader.key=service",
                        "pgleader.elections.billing.key=billing")
                .withBean(Mixed.class)
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("byMetaAnnotation", "only the interfaces", "spring.aop.proxy-target-class"));
    }

    static class UnknownElection {
        @LeaderOnly("biling")
        public void work() {}
    }

    @Test
    void anUnknownOrUnnamedElectionIsRefused() {
        application
                .withBean(UnknownElection.class)
                .withPropertyValues("pgleader.elections.billing.key=billing")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("names the election \"biling\", which doesn't exist", "service, billing"));
        new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(
                        TestLeaderAutoConfiguration.class,
                        LeaderAutoConfiguration.class,
                        LeaderOnlyAutoConfiguration.class))
                .withPropertyValues("pgleader.elections.a.key=a", "pgleader.elections.b.key=b")
                .withBean(Returns.class)
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("names no election, and there are several: a, b"));
    }
}
