package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderStatus;
import dev.pgleader.Leadership;
import dev.pgleader.spring.test.TestLeaderAutoConfiguration;
import dev.pgleader.spring.test.TestLeaderElectors;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.aop.framework.Advised;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ApplicationContext;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.publisher.Sinks;

/** A leader-only call is a part of its term, whatever it returns; and what becomes of calls is counted. */
@ExtendWith(OutputCaptureExtension.class)
class LeaderOnlyTermTest {

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final ApplicationContextRunner application = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    AopAutoConfiguration.class,
                    TestLeaderAutoConfiguration.class,
                    LeaderAutoConfiguration.class,
                    LeaderOnlyAutoConfiguration.class,
                    LeaderActuatorAutoConfiguration.class))
            .withPropertyValues("pgleader.key=service");

    @EnableAsync
    static class Jobs {

        final CountDownLatch begun = new CountDownLatch(1);
        final CountDownLatch mayEnd = new CountDownLatch(1);
        final CompletableFuture<String> future = new CompletableFuture<>();
        final Sinks.One<String> sink = Sinks.one();
        final CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
        final AtomicInteger made = new AtomicInteger();

        @LeaderOnly
        public void blocking() throws InterruptedException {
            begun.countDown();
            mayEnd.await();
        }

        @LeaderOnly(onRevoked = LeaderOnly.OnRevoked.INTERRUPT)
        public void interruptible() {
            begun.countDown();
            try {
                interrupted.complete(!mayEnd.await(1, TimeUnit.MINUTES));
            } catch (InterruptedException e) {
                interrupted.complete(true);
            }
        }

        @Async
        @LeaderOnly
        public void async() throws InterruptedException {
            begun.countDown();
            mayEnd.await();
        }

        @LeaderOnly
        public CompletableFuture<String> future() {
            begun.countDown();
            return future;
        }

        @LeaderOnly
        public Mono<String> mono() {
            made.incrementAndGet();
            begun.countDown();
            return sink.asMono();
        }

        @LeaderOnly
        public Flux<String> flux() {
            return Flux.just("a", "b");
        }

        @LeaderOnly
        public Mono<String> failing() {
            return Mono.error(new IllegalStateException("on purpose"));
        }

        @LeaderOnly
        public Optional<Long> term(Leadership leadership) {
            return Optional.of(leadership.term());
        }

        @LeaderOnly
        public void neverCalled() {}
    }

    /** Has the leader resign while a call is under way, and the call end then. */
    private static void requireHeldUntil(ApplicationContext context, Runnable end) throws Exception {
        Jobs jobs = context.getBean(Jobs.class);
        assertThat(target(jobs).begun.await(30, TimeUnit.SECONDS)).isTrue();
        LeaderElector elector = context.getBean(LeaderElector.class);
        CompletableFuture<Void> resigned = elector.resign();
        await().atMost(PATIENCE).until(() -> elector.status().role() == LeaderStatus.Role.RESIGNING);
        assertThat(jobs.future()).isCompletedWithValue(null);
        assertThat(resigned).isNotDone();
        end.run();
        resigned.get(10, TimeUnit.SECONDS);
    }

    private static Jobs target(Jobs proxy) throws Exception {
        return (Jobs) ((Advised) proxy).getTargetSource().getTarget();
    }

    private void run(ThrowingConsumer test) {
        application.withBean(Jobs.class).run(context -> {
            context.getBean(TestLeaderElectors.class).grant();
            Jobs jobs = context.getBean(Jobs.class);
            test.accept(context, jobs, target(jobs));
        });
    }

    private interface ThrowingConsumer {
        void accept(ApplicationContext context, Jobs proxy, Jobs target) throws Exception;
    }

    @Test
    @DisplayName("Rule 9: the term lasts until a blocking, an @Async, a future's or a publisher's call has ended")
    void theTermLastsUntilTheCallHasEnded() {
        run((context, proxy, target) -> {
            var unused = CompletableFuture.runAsync(() -> {
                try {
                    proxy.blocking();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            requireHeldUntil(context, target.mayEnd::countDown);
        });
        run((context, proxy, target) -> {
            proxy.async();
            requireHeldUntil(context, target.mayEnd::countDown);
        });
        run((context, proxy, target) -> {
            assertThat(proxy.future()).isNotDone();
            requireHeldUntil(context, () -> target.future.complete("done"));
        });
        run((context, proxy, target) -> {
            CompletableFuture<String> value = proxy.mono().toFuture();
            requireHeldUntil(context, () -> target.sink.tryEmitValue("done"));
            assertThat(value).isCompletedWithValue("done");
        });
        run((context, proxy, target) -> {
            var subscription = proxy.mono().subscribe();
            requireHeldUntil(context, subscription::dispose);
        });
    }

    @Test
    @DisplayName("Rule 9: a call is interrupted at the end of the term if its annotation or the property says so")
    void aCallIsInterruptedIfTheAnnotationSaysSo() {
        run((context, proxy, target) -> {
            CompletableFuture<Void> call = CompletableFuture.runAsync(proxy::interruptible);
            assertThat(target.begun.await(30, TimeUnit.SECONDS)).isTrue();
            context.getBean(TestLeaderElectors.class).revoke();
            assertThat(target.interrupted.get(10, TimeUnit.SECONDS)).isTrue();
            call.get(10, TimeUnit.SECONDS);
        });
    }

    @Test
    @DisplayName("N17: a reactive method asks at each subscription who leads, and is called only then")
    void aReactiveMethodAsksAtEachSubscription() {
        application.withBean(Jobs.class).run(context -> {
            Jobs proxy = context.getBean(Jobs.class);
            TestLeaderElectors electors = context.getBean(TestLeaderElectors.class);
            Mono<String> mono = proxy.mono();
            Flux<String> flux = proxy.flux();
            assertThat(mono.blockOptional(PATIENCE)).isEmpty();
            assertThat(flux.collectList().block(PATIENCE)).isEmpty();
            assertThat(target(proxy).made).hasValue(0);
            electors.grant();
            target(proxy).sink.tryEmitValue("done");
            assertThat(mono.block(PATIENCE)).isEqualTo("done");
            assertThat(mono.block(PATIENCE)).isEqualTo("done");
            assertThat(target(proxy).made).hasValue(2);
            assertThat(flux.collectList().block(PATIENCE)).containsExactly("a", "b");
            assertThat(proxy.failing().onErrorReturn("failed").block(PATIENCE)).isEqualTo("failed");
            electors.revoke();
            assertThat(mono.blockOptional(PATIENCE)).isEmpty();
        });
    }

    @EnableScheduling
    static class ReactiveSchedule {

        final AtomicInteger runs = new AtomicInteger();

        @LeaderOnly
        @Scheduled(fixedDelay = 5)
        public Mono<Void> tick() {
            return Mono.fromRunnable(runs::incrementAndGet);
        }
    }

    @Test
    @DisplayName("N17: a scheduled reactive method runs on the leader, though the scheduler calls it once")
    void aScheduledReactiveMethodRunsOnTheLeader() {
        application.withBean(ReactiveSchedule.class).run(context -> {
            ReactiveSchedule proxy = context.getBean(ReactiveSchedule.class);
            AtomicInteger runs =
                    ((ReactiveSchedule) ((Advised) proxy).getTargetSource().getTarget()).runs;
            context.getBean(TestLeaderElectors.class).grant();
            await().atMost(PATIENCE).until(() -> runs.get() > 3);
            context.getBean(TestLeaderElectors.class).revoke();
            int until = runs.get();
            context.getBean(TestLeaderElectors.class).grant();
            await().atMost(PATIENCE).until(() -> runs.get() > until);
        });
    }

    @Test
    void aMethodMayHaveItsTermAsAParameter() {
        run((context, proxy, target) -> assertThat(proxy.term(null)).hasValue(1L));
    }

    @Test
    @DisplayName("N15, N16: calls are counted per method from the start, and a call that nobody makes is told once")
    void callsAreCountedAndTheGapIsTold(CapturedOutput output) {
        application.withBean(Jobs.class).withBean(SimpleMeterRegistry.class).run(context -> {
            SimpleMeterRegistry registry = context.getBean(SimpleMeterRegistry.class);
            context.getBeanProvider(MeterBinder.class).forEach(binder -> binder.bindTo(registry));
            assertThat(skipped(registry, "neverCalled")).isZero();
            assertThat(timer(registry, "neverCalled").count()).isZero();
            Jobs proxy = context.getBean(Jobs.class);
            proxy.neverCalled();
            proxy.neverCalled();
            assertThat(skipped(registry, "neverCalled")).isEqualTo(2);
            assertThat(output.getOut()).containsOnlyOnce("Skipped " + Jobs.class.getName() + ".neverCalled");
            assertThat(output.getOut()).contains("it isn't known that another one does");
            context.getBean(TestLeaderElectors.class).grant();
            proxy.neverCalled();
            assertThat(timer(registry, "neverCalled").count()).isEqualTo(1);
            assertThat(timer(registry, "neverCalled").totalTime(TimeUnit.NANOSECONDS))
                    .isPositive();

            var call = CompletableFuture.runAsync(() -> {
                try {
                    proxy.blocking();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            Jobs target = target(proxy);
            assertThat(target.begun.await(30, TimeUnit.SECONDS)).isTrue();
            // The session goes while the call runs.
            CompletableFuture<Void> lost = CompletableFuture.runAsync(
                    () -> context.getBean(TestLeaderElectors.class).loseSession());
            await().atMost(PATIENCE)
                    .until(() -> registry.get("pgleader.calls.cut.off")
                                    .tag("method", Jobs.class.getName() + ".blocking")
                                    .functionCounter()
                                    .count()
                            == 1);
            target.mayEnd.countDown();
            call.get(10, TimeUnit.SECONDS);
            lost.get(10, TimeUnit.SECONDS);
        });
    }

    private static double skipped(SimpleMeterRegistry registry, String method) {
        FunctionCounter counter = registry.get("pgleader.calls.skipped")
                .tag("method", Jobs.class.getName() + "." + method)
                .tag("elector", "service")
                .functionCounter();
        return counter.count();
    }

    private static FunctionTimer timer(SimpleMeterRegistry registry, String method) {
        return registry.get("pgleader.calls")
                .tag("method", Jobs.class.getName() + "." + method)
                .functionTimer();
    }
}
