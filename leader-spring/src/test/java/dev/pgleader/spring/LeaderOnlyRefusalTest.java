package dev.pgleader.spring;

import static dev.pgleader.spring.LeaderAutoConfigurationTest.analysis;
import static org.assertj.core.api.Assertions.assertThat;

import dev.pgleader.spring.test.TestLeaderAutoConfiguration;
import dev.pgleader.spring.test.TestLeaderElectors;
import jakarta.annotation.PostConstruct;
import jakarta.annotation.PreDestroy;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.BeanFactoryAware;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.FactoryBean;
import org.springframework.beans.factory.InitializingBean;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.context.event.ApplicationReadyEvent;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationListener;
import org.springframework.context.Lifecycle;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.ContextClosedEvent;
import org.springframework.context.event.ContextRefreshedEvent;
import org.springframework.context.event.EventListener;
import org.springframework.scheduling.annotation.Scheduled;

/** {@link LeaderOnly} where the container calls a method past the proxy, or once, or where the proxy has none of it. */
class LeaderOnlyRefusalTest {

    private final ApplicationContextRunner application = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    AopAutoConfiguration.class,
                    TestLeaderAutoConfiguration.class,
                    LeaderAutoConfiguration.class,
                    LeaderOnlyAutoConfiguration.class))
            .withPropertyValues("pgleader.key=service");

    static class AfterConstruction {
        @LeaderOnly
        @PostConstruct
        public void work() {}
    }

    static class BeforeDestruction {
        @LeaderOnly
        @PreDestroy
        public void work() {}
    }

    static class Setter {
        @LeaderOnly
        @Autowired
        public void work(BeanFactory anything) {}
    }

    @LeaderOnly
    static class Initializing implements InitializingBean {
        @Override
        public void afterPropertiesSet() {}
    }

    static class Disposable implements DisposableBean {
        @Override
        @LeaderOnly
        public void destroy() {}
    }

    static class AwareBean implements BeanFactoryAware {
        @Override
        @LeaderOnly
        public void setBeanFactory(BeanFactory beanFactory) {}
    }

    @LeaderOnly
    static class Closeable implements AutoCloseable {
        @Override
        public void close() {}
    }

    static class WithInitMethod {
        @LeaderOnly
        public void begin() {}
    }

    @Configuration(proxyBeanMethods = false)
    static class InitMethods {
        @Bean(initMethod = "begin")
        WithInitMethod worker() {
            return new WithInitMethod();
        }
    }

    @Configuration
    static class BeanMethods {
        @Bean
        @LeaderOnly
        public Object worker() {
            return new Object();
        }
    }

    static class Runner implements ApplicationRunner {
        @Override
        @LeaderOnly
        public void run(ApplicationArguments arguments) {}
    }

    static class CommandLine implements CommandLineRunner {
        @Override
        @LeaderOnly
        public void run(String... arguments) {}
    }

    static class AfterSingletons implements SmartInitializingSingleton {
        @Override
        @LeaderOnly
        public void afterSingletonsInstantiated() {}
    }

    static class Started implements Lifecycle {
        @Override
        @LeaderOnly
        public void start() {}

        @Override
        public void stop() {}

        @Override
        public boolean isRunning() {
            return false;
        }
    }

    static class Factory implements FactoryBean<String> {
        @Override
        @LeaderOnly
        public String getObject() {
            return "made";
        }

        @Override
        public Class<?> getObjectType() {
            return String.class;
        }
    }

    static class Ready {
        @LeaderOnly
        @EventListener(ApplicationReadyEvent.class)
        public void work() {}
    }

    static class Refreshed implements ApplicationListener<ContextRefreshedEvent> {
        @Override
        @LeaderOnly
        public void onApplicationEvent(ContextRefreshedEvent event) {}
    }

    static class Closed {
        @LeaderOnly
        @EventListener
        public void work(ContextClosedEvent event) {}
    }

    @LeaderOnly
    static class PrivateSchedule {
        @Scheduled(fixedDelay = 1000)
        @SuppressWarnings("UnusedMethod") // Spring would call it.
        private void work() {}
    }

    @LeaderOnly
    static class FinalSchedule {
        @Scheduled(fixedDelay = 1000)
        final void work() {}
    }

    record Refused(Class<?> type, String why, String action) {
        @Override
        public String toString() {
            return type.getSimpleName();
        }
    }

    static Stream<Refused> refused() {
        String elected = "LeaderElectedEvent";
        return Stream.of(
                new Refused(AfterConstruction.class, "calls it (@PostConstruct) on the bean itself", elected),
                new Refused(BeforeDestruction.class, "calls it (@PreDestroy) on the bean itself", elected),
                new Refused(Setter.class, "calls it (@Autowired) on the bean itself", elected),
                new Refused(Initializing.class, "calls it (InitializingBean) on the bean itself", elected),
                new Refused(Disposable.class, "calls it (DisposableBean) on the bean itself", elected),
                new Refused(AwareBean.class, "calls it (Aware) on the bean itself", elected),
                new Refused(Closeable.class, "calls it (init or destroy method) on the bean itself", elected),
                new Refused(InitMethods.class, "calls it (init or destroy method) on the bean itself", elected),
                new Refused(BeanMethods.class, "calls it (@Bean) on the bean itself", elected),
                new Refused(Runner.class, "is called once (ApplicationRunner)", elected),
                new Refused(CommandLine.class, "is called once (CommandLineRunner)", elected),
                new Refused(AfterSingletons.class, "is called once (SmartInitializingSingleton)", elected),
                new Refused(Started.class, "is called once (Lifecycle)", "@LeaderLifecycle"),
                new Refused(Factory.class, "calls it to make a bean", "methods of the bean"),
                new Refused(Ready.class, "is called once (ApplicationReadyEvent)", elected),
                new Refused(Refreshed.class, "is called once (ContextRefreshedEvent)", elected),
                new Refused(Closed.class, "it would run nowhere", "LeaderRevokedEvent"),
                new Refused(PrivateSchedule.class, "is private", "neither private"),
                new Refused(FinalSchedule.class, "is final", "nor final"));
    }

    @ParameterizedTest
    @MethodSource
    @DisplayName("N06, N07, N15: what would run everywhere or nowhere is refused when the application starts")
    void refused(Refused refused) {
        application
                .withUserConfiguration(refused.type())
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("@LeaderOnly can't work at dev.pgleader.spring.LeaderOnlyRefusalTest")
                        .contains(refused.why(), refused.action()));
    }

    @LeaderOnly
    static class NotPublic {

        private BeanFactory injected;

        Optional<String> packagePrivate() {
            return Optional.of("done");
        }

        protected Optional<String> forSubclasses() {
            return Optional.of("done" + count());
        }

        /** A helper that no proxy can skip, and that nobody else calls. */
        protected int count() {
            return injected == null ? 0 : 1;
        }

        @Autowired
        public void setBeanFactory(BeanFactory beanFactory) {
            injected = beanFactory;
        }
    }

    @Test
    @DisplayName(
            "N07: the annotation of a class covers package-private and protected methods, and leaves injection alone")
    void methodsThatAreNotPublicAreCovered() {
        application.withBean(NotPublic.class).run(context -> {
            NotPublic bean = context.getBean(NotPublic.class);
            assertThat(bean.packagePrivate()).isEmpty();
            assertThat(bean.forSubclasses()).isEmpty();
            context.getBean(TestLeaderElectors.class).grant();
            assertThat(bean.packagePrivate()).hasValue("done");
            assertThat(bean.forSubclasses()).hasValue("done1");
        });
    }

    @Test
    @DisplayName("N18: a blank spring.application.name with a key set is no hindrance")
    void aBlankNameOfTheApplicationIsAsGoodAsNone() {
        new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LeaderAutoConfiguration.class))
                .withPropertyValues(
                        "spring.application.name= ",
                        "pgleader.key=service",
                        "pgleader.datasource.url=jdbc:postgresql://localhost:1/nowhere")
                .run(context -> assertThat(context).hasNotFailed());
        new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LeaderAutoConfiguration.class))
                .withPropertyValues("spring.application.name= ", "pgleader.key= ")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("neither pgleader.key nor spring.application.name is set"));
    }
}
