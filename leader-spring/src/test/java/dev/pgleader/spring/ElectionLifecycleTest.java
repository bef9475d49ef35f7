package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.aop.framework.Advised;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.Banner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.ContextRefreshedEvent;
import org.springframework.context.event.EventListener;

@ExtendWith(OutputCaptureExtension.class)
class ElectionLifecycleTest {

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    @Configuration(proxyBeanMethods = false)
    @ImportAutoConfiguration({
        AopAutoConfiguration.class,
        DataSourceAutoConfiguration.class,
        LeaderAutoConfiguration.class,
        LeaderOnlyAutoConfiguration.class
    })
    static class Application {}

    /** Notes what it's told, together with what the elector says at that moment, also to another thread. */
    static final class Journal implements LeadershipListener {

        final List<String> entries = new CopyOnWriteArrayList<>();
        private final BooleanSupplier leads;

        Journal(BooleanSupplier leads) {
            this.leads = leads;
        }

        @Override
        public void onElected(Leadership leadership) {
            note("elected " + leadership.term());
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            note("revoked " + leadership.term() + " " + reason);
        }

        void note(String what) {
            boolean elsewhere =
                    CompletableFuture.supplyAsync(leads::getAsBoolean).join();
            entries.add(what
                    + (leads.getAsBoolean() && elsewhere ? " leading" : "")
                    + (leads.getAsBoolean() == elsewhere ? "" : " confused"));
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class WithJournal {

        @Bean
        Journal journal(LeaderElector elector) {
            return new Journal(elector::isLeader);
        }

        @Bean
        Events events(Journal journal) {
            return new Events(journal);
        }
    }

    static class Events {

        private final Journal journal;

        Events(Journal journal) {
            this.journal = journal;
        }

        @EventListener
        void on(LeaderElectedEvent event) {
            journal.note("event " + event.election() + " " + event.term());
        }

        @EventListener
        void on(LeaderRevokedEvent event) {
            journal.note("event " + event.election() + " " + event.term() + " " + event.reason());
        }
    }

    private static ConfigurableApplicationContext start(String key, Class<?>... configurations) {
        Class<?>[] sources = new Class<?>[configurations.length + 1];
        sources[0] = Application.class;
        System.arraycopy(configurations, 0, sources, 1, configurations.length);
        SpringApplication application = new SpringApplication(sources);
        application.setWebApplicationType(WebApplicationType.NONE);
        application.setBannerMode(Banner.Mode.OFF);
        String[] properties = TestServer.properties("pgleader.key=" + key, "pgleader.instance-id=" + key);
        return application.run(
                Arrays.stream(properties).map(property -> "--" + property).toArray(String[]::new));
    }

    private static void awaitLeader(ConfigurableApplicationContext context) {
        await().atMost(PATIENCE)
                .until(() -> context.getBean(LeaderElector.class).isLeader());
    }

    @Test
    @DisplayName("X14, C31: the first term is told to listeners and events, and all see the state that they are told")
    void theFirstTermIsToldToListenersAndEvents() {
        String key = TestServer.uniqueName("x14");
        try (var context = start(key, WithJournal.class)) {
            Journal journal = context.getBean(Journal.class);
            await().atMost(PATIENCE)
                    .untilAsserted(() -> assertThat(journal.entries)
                            .containsExactly("elected 1 leading", "event " + key + " 1 leading"));
            context.getBean(LeaderElector.class).resign().join();
            assertThat(journal.entries.subList(2, 4))
                    .containsExactly("event " + key + " 1 RESIGNED", "revoked 1 RESIGNED");
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class WithFailingEventListener {

        @EventListener
        void on(LeaderElectedEvent event) {
            throw new IllegalStateException("no interest in " + event);
        }

        @EventListener
        void on(LeaderRevokedEvent event) {
            throw new AssertionError("no interest in " + event);
        }
    }

    @Test
    @DisplayName("X05: what an event listener throws is logged, and changes neither this term nor the next")
    void whatAnEventListenerThrowsChangesNothing(CapturedOutput output) {
        String key = TestServer.uniqueName("x05");
        try (var context = start(key, WithJournal.class, WithFailingEventListener.class)) {
            LeaderElector elector = context.getBean(LeaderElector.class);
            Journal journal = context.getBean(Journal.class);
            awaitLeader(context);
            await().atMost(PATIENCE).until(() -> output.getOut().contains("no interest in LeaderElectedEvent"));
            assertThat(elector.isLeader()).isTrue();
            elector.resign().join();
            assertThat(output.getOut()).contains("no interest in LeaderRevokedEvent");
            await().atMost(PATIENCE).until(() -> journal.entries.contains("elected 2 leading"));
        }
    }

    /** Wants the database and the other beans when it gives up. */
    static class Orderly implements LeadershipListener {

        private final HikariDataSource dataSource;
        final List<String> revocations = new CopyOnWriteArrayList<>();

        Orderly(HikariDataSource dataSource) {
            this.dataSource = dataSource;
        }

        @Override
        public void onElected(Leadership leadership) {}

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
            try (var connection = dataSource.getConnection()) {
                revocations.add(reason + (connection.isValid(5) ? " with database" : " without database"));
            }
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class WithOrderly {

        @Bean
        Orderly orderly(HikariDataSource dataSource) {
            return new Orderly(dataSource);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"false", "true"})
    @DisplayName("C39: the callbacks end, and the lock is free, before the pool closes; closing twice does no harm")
    void theLockIsFreeBeforeThePoolCloses(String lazy, CapturedOutput output) {
        String key = TestServer.uniqueName("c39");
        System.setProperty("spring.main.lazy-initialization", lazy);
        ConfigurableApplicationContext context;
        try {
            context = start(key, WithOrderly.class);
        } finally {
            System.clearProperty("spring.main.lazy-initialization");
        }
        Orderly orderly = context.getBean(Orderly.class);
        awaitLeader(context);
        context.close();
        context.close();
        assertThat(orderly.revocations).containsExactly("CLOSED with database");
        assertThat(TestServer.holders(key)).isEmpty();
        assertThat(output.getOut())
                .doesNotContain("ERROR", "Exception")
                .containsSubsequence("[" + key + "] Closed", "Shutdown initiated");
    }

    @Configuration(proxyBeanMethods = false)
    static class FailsLate {

        @Autowired
        LeaderElector elector;

        @EventListener
        void on(ContextRefreshedEvent event) {
            await().atMost(PATIENCE).until(elector::isLeader);
            throw new IllegalStateException("started half-way");
        }
    }

    @Test
    @DisplayName("C39: a start that fails half-way leaves no lock, no session and no thread")
    void aFailedStartLeavesNothing() {
        String key = TestServer.uniqueName("failed");
        assertThatThrownBy(() -> start(key, WithOrderly.class, FailsLate.class))
                .hasStackTraceContaining("started half-way");
        assertThat(TestServer.holders(key)).isEmpty();
        await().atMost(PATIENCE).until(() -> TestServer.sessions(key).isEmpty());
        await().atMost(PATIENCE).until(() -> threadsOf(key).isEmpty());
    }

    private static List<String> threadsOf(String key) {
        return Thread.getAllStackTraces().keySet().stream()
                .map(Thread::getName)
                .filter(name -> name.contains("pg-leader") && (name.contains(key) || name.contains("application")))
                .toList();
    }

    @Test
    @DisplayName("X19: one session for each context; 20 restarts leave no session and no thread")
    void restartsLeaveNothing() {
        String key = TestServer.uniqueName("x19");
        ApplicationContextRunner application = new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LeaderAutoConfiguration.class))
                .withPropertyValues(TestServer.properties(
                        "pgleader.key=" + key,
                        "pgleader.instance-id=" + key,
                        "pgleader.datasource.url=" + TestServer.url(),
                        "pgleader.datasource.username=" + TestServer.USER));
        for (int i = 0; i < 20; i++) {
            application.run(context -> {
                LeaderElector elector = context.getBean(LeaderElector.class);
                await().atMost(PATIENCE).until(elector::isLeader);
                assertThat(TestServer.sessions(key)).hasSize(1);
            });
            assertThat(TestServer.holders(key)).isEmpty();
        }
        await().atMost(PATIENCE).until(() -> TestServer.sessions(key).isEmpty());
        await().atMost(PATIENCE).until(() -> threadsOf(key).isEmpty());
    }

    @Test
    @DisplayName("X12: a context that is stopped and started, or paused and restarted, takes part again each time")
    void aContextMayStopAndStartAgain() {
        String key = TestServer.uniqueName("again");
        try (var context = start(key, WithJournal.class)) {
            for (int i = 0; i < 3; i++) {
                awaitLeader(context);
                context.stop();
                assertThat(TestServer.holders(key)).isEmpty();
                context.start();
                awaitLeader(context);
                context.pause();
                assertThat(TestServer.holders(key)).isEmpty();
                context.restart();
            }
            awaitLeader(context);
            Journal journal = context.getBean(Journal.class);
            await().atMost(PATIENCE)
                    .untilAsserted(() -> assertThat(journal.entries).contains("elected 7 leading"));
            assertThat(journal.entries.stream().filter(entry -> entry.startsWith("elected")))
                    .hasSize(7);
            assertThat(journal.entries.stream().filter(entry -> entry.startsWith("revoked")))
                    .hasSize(6);
        }
    }

    /** Blocks in its stop until told otherwise, in the phase of which many beans are. */
    static class Blocking implements SmartLifecycle {

        final CountDownLatch stopping = new CountDownLatch(1);
        final CountDownLatch mayStop = new CountDownLatch(1);
        private volatile boolean running;

        @Override
        public void start() {
            running = true;
        }

        @Override
        public void stop() {
            stopping.countDown();
            try {
                mayStop.await(60, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            running = false;
        }

        @Override
        public boolean isRunning() {
            return running;
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class WithBlocking {

        @Bean
        Blocking aBlocking() {
            return new Blocking();
        }

        @Bean
        Blocking zBlocking() {
            return new Blocking();
        }
    }

    @Test
    @DisplayName("C36: leadership is given up though other beans of the same phase block the shutdown")
    void leadershipIsGivenUpThoughOthersBlock() {
        String key = TestServer.uniqueName("blocked");
        var context = start(key, WithBlocking.class);
        awaitLeader(context);
        List<Blocking> blocking =
                List.copyOf(context.getBeansOfType(Blocking.class).values());
        CompletableFuture<Void> closing = CompletableFuture.runAsync(context::close);
        await().atMost(PATIENCE).until(() -> blocking.stream().anyMatch(bean -> bean.stopping.getCount() == 0));
        await().atMost(PATIENCE).until(() -> TestServer.holders(key).isEmpty());
        assertThat(closing).isNotDone();
        blocking.forEach(bean -> bean.mayStop.countDown());
        assertThat(closing).succeedsWithin(PATIENCE);
    }

    @Configuration(proxyBeanMethods = false)
    static class WithSlowListener {

        static final CountDownLatch MAY_RETURN = new CountDownLatch(1);

        @Bean
        LeadershipListener slow() {
            return new LeadershipListener() {
                @Override
                public void onElected(Leadership leadership) {}

                @Override
                public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
                    MAY_RETURN.await();
                }
            };
        }

        @Bean
        Blocking webServer() {
            return new Blocking() {
                @Override
                public int getPhase() {
                    return SmartLifecycle.DEFAULT_PHASE - 1024;
                }
            };
        }
    }

    @Test
    void whatTheCallbacksMayNeedStopsAfterThem() {
        String key = TestServer.uniqueName("needed");
        var context = start(key, WithSlowListener.class);
        awaitLeader(context);
        Blocking webServer = context.getBean(Blocking.class);
        webServer.mayStop.countDown();
        CompletableFuture<Void> closing = CompletableFuture.runAsync(context::close);
        LeaderElector elector = context.getBean(LeaderElector.class);
        await().atMost(PATIENCE).until(() -> !elector.isLeader());
        assertThat(TestServer.holders(key)).hasSize(1);
        assertThat(webServer.isRunning()).isTrue();
        WithSlowListener.MAY_RETURN.countDown();
        assertThat(closing).succeedsWithin(PATIENCE);
        assertThat(webServer.isRunning()).isFalse();
    }

    /** Does something once, the next time that it's elected, revoked or called. */
    static class Ending {

        final Set<String> seen = ConcurrentHashMap.newKeySet();
        final AtomicReference<Runnable> what = new AtomicReference<>();
        final CompletableFuture<Duration> took = new CompletableFuture<>();
        volatile String where = "";

        @EventListener
        void on(LeaderElectedEvent event) {
            seen("elected");
        }

        @EventListener
        void on(LeaderRevokedEvent event) {
            seen("revoked");
        }

        @LeaderOnly
        public void call() {
            seen("call");
        }

        private void seen(String here) {
            seen.add(here);
            Runnable task = here.equals(where) ? what.getAndSet(null) : null;
            if (task != null) {
                long begin = System.nanoTime();
                task.run();
                took.complete(Duration.ofNanos(System.nanoTime() - begin));
            }
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class WithEnding {

        @Bean
        Ending ending() {
            return new Ending();
        }
    }

    private static Ending target(ConfigurableApplicationContext context) {
        try {
            return (Ending)
                    ((Advised) context.getBean(Ending.class)).getTargetSource().getTarget();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"elected", "revoked", "call"})
    @DisplayName("R37: a context that is closed, stopped or exited in a callback or a leader-only call ends soon")
    void aContextMayBeEndedInACallback(String where) {
        List<Consumer<ConfigurableApplicationContext>> ends = List.of(
                ConfigurableApplicationContext::close,
                ConfigurableApplicationContext::stop,
                context -> SpringApplication.exit(context));
        for (Consumer<ConfigurableApplicationContext> end : ends) {
            String key = TestServer.uniqueName("r37");
            try (var context = start(key, WithEnding.class)) {
                awaitLeader(context);
                LeaderElector elector = context.getBean(LeaderElector.class);
                Ending ending = target(context);
                await().atMost(PATIENCE).until(() -> ending.seen.contains("elected"));
                ending.where = where;
                ending.what.set(() -> end.accept(context));
                if (where.equals("call")) {
                    var unused = CompletableFuture.runAsync(context.getBean(Ending.class)::call);
                } else {
                    var unused = elector.resign();
                }
                assertThat(ending.took)
                        .as("%s in %s", end, where)
                        .succeedsWithin(PATIENCE)
                        .satisfies(took -> assertThat(took).isLessThan(Duration.ofSeconds(2)));
                await().atMost(PATIENCE).until(() -> TestServer.holders(key).isEmpty());
            }
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class WithCountingListener {

        @Bean
        CountingListener counting() {
            return new CountingListener();
        }
    }

    static class CountingListener implements LeadershipListener {

        final List<String> told = new CopyOnWriteArrayList<>();

        @Override
        public void onElected(Leadership leadership) {
            told.add("elected");
        }

        @Override
        public void onRevoked(Leadership leadership, RevocationReason reason) {
            told.add("revoked " + reason);
        }

        @EventListener
        void on(LeaderElectedEvent event) {
            told.add("event");
        }
    }

    @Test
    @DisplayName("N08: a child context starts, tells and stops only what is its own")
    void aChildContextLeavesItsParentAlone() {
        String key = TestServer.uniqueName("n08");
        try (var parent = start(key, WithCountingListener.class)) {
            awaitLeader(parent);
            LeaderElector elector = parent.getBean(LeaderElector.class);
            CountingListener ofParent = parent.getBean(CountingListener.class);
            await().atMost(PATIENCE).until(() -> ofParent.told.size() == 2);
            CountingListener ofChild;
            try (var child = new AnnotationConfigApplicationContext()) {
                child.setParent(parent);
                child.register(Application.class, WithCountingListener.class);
                child.refresh();
                ofChild = child.getBean(CountingListener.class);
                assertThat(child.getBean(LeaderElector.class)).isSameAs(elector);
                await().atMost(PATIENCE).until(() -> ofChild.told.equals(List.of("elected")));
                elector.resign().join();
                awaitLeader(parent);
                await().atMost(PATIENCE).until(() -> ofParent.told.size() == 5);
                await().atMost(PATIENCE).until(() -> ofChild.told.size() == 3);
            }
            assertThat(elector.isLeader()).isTrue();
            await().atMost(PATIENCE).until(() -> ofChild.told.contains("revoked LISTENER_REMOVED"));
            elector.resign().join();
            awaitLeader(parent);
            await().atMost(PATIENCE).until(() -> ofParent.told.size() == 8);
            assertThat(ofParent.told.subList(0, 5))
                    .containsExactly("elected", "event", "revoked RESIGNED", "elected", "event");
            assertThat(ofChild.told).hasSize(4);
        }
    }
}
