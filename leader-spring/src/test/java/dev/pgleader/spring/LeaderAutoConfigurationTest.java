package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.awaitility.Awaitility.await;

import com.zaxxer.hikari.HikariDataSource;
import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderElectorGroup;
import dev.pgleader.LeaderStatus;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import javax.sql.DataSource;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcConnectionDetails;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Configuration;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.datasource.lookup.AbstractRoutingDataSource;

@ExtendWith(OutputCaptureExtension.class)
class LeaderAutoConfigurationTest {

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final ApplicationContextRunner withoutDatabase = new ApplicationContextRunner()
            .withConfiguration(AutoConfigurations.of(
                    AopAutoConfiguration.class, LeaderAutoConfiguration.class, LeaderOnlyAutoConfiguration.class));

    private final ApplicationContextRunner bare =
            withoutDatabase.withConfiguration(AutoConfigurations.of(DataSourceAutoConfiguration.class));

    private final ApplicationContextRunner application = bare.withPropertyValues(TestServer.properties());

    private static void awaitLeader(LeaderElector elector) {
        await().atMost(PATIENCE).until(elector::isLeader);
    }

    @Test
    void anApplicationWithANameAndADatabaseHasALeader() {
        String name = TestServer.uniqueName("service");
        application.withPropertyValues("spring.application.name=" + name).run(context -> {
            LeaderElector elector = context.getBean(LeaderElector.class);
            awaitLeader(elector);
            assertThat(elector.key()).isEqualTo(LockKey.named(name));
            assertThat(elector.name()).isEqualTo(name);
            assertThat(TestServer.holders(name)).hasSize(1);
        });
        assertThat(TestServer.holders(name)).isEmpty();
    }

    @Test
    @DisplayName("C21: services of different names both lead in one database; of two of the same name, one does")
    void theNameOfTheApplicationTellsElectionsApart() {
        String orders = TestServer.uniqueName("orders");
        String stock = TestServer.uniqueName("stock");
        application.withPropertyValues("spring.application.name=" + orders).run(first -> {
            LeaderElector leader = first.getBean(LeaderElector.class);
            awaitLeader(leader);
            application.withPropertyValues("spring.application.name=" + stock).run(other -> {
                awaitLeader(other.getBean(LeaderElector.class));
                assertThat(leader.isLeader()).isTrue();
            });
            application.withPropertyValues("spring.application.name=" + orders).run(second -> {
                LeaderElector follower = second.getBean(LeaderElector.class);
                await().atMost(PATIENCE)
                        .until(() -> follower.status().knownLeader().isPresent());
                assertThat(follower.isLeader()).isFalse();
                assertThat(leader.isLeader()).isTrue();
            });
        });
    }

    @Test
    void theKeyOfThePropertyPrevailsOverTheNameOfTheApplication() {
        application
                .withPropertyValues("spring.application.name=service", "pgleader.key=bigint:42")
                .run(context ->
                        assertThat(context.getBean(LeaderElector.class).key()).isEqualTo(LockKey.of(42)));
    }

    @Test
    void severalElectionsShareOneSessionAndAreToldApartByTheirNames() {
        String instance = TestServer.uniqueName("instance");
        application
                .withUserConfiguration(TwoElectors.class)
                .withPropertyValues(
                        "pgleader.instance-id=" + instance,
                        "pgleader.elections.billing.key=" + TestServer.uniqueName("billing"),
                        "pgleader.elections.reports.key=" + TestServer.uniqueName("reports"))
                .run(context -> {
                    TwoElectors electors = context.getBean(TwoElectors.class);
                    awaitLeader(electors.billing);
                    awaitLeader(electors.reports);
                    assertThat(electors.billing.name()).isEqualTo("billing");
                    assertThat(electors.reports.name()).isEqualTo("reports");
                    assertThat(TestServer.sessions(instance)).hasSize(1);
                });
    }

    @Configuration(proxyBeanMethods = false)
    static class TwoElectors {

        @Autowired
        @Election("billing")
        LeaderElector billing;

        @Autowired
        @Qualifier("reports")
        LeaderElector reports;
    }

    @Test
    void theElectionOfTheKeyIsThePrimaryOneBesideNamedOnes() {
        application
                .withPropertyValues(
                        "pgleader.key=main", "pgleader.elections.side.key=side", "pgleader.elections.side.paused=true")
                .run(context -> {
                    assertThat(context.getBean(LeaderElector.class).name()).isEqualTo("main");
                    assertThat(context.getBeansOfType(LeaderElector.class)).hasSize(2);
                    LeaderElector side = context.getBean("sideLeaderElector", LeaderElector.class);
                    await().atMost(PATIENCE).until(() -> side.status().paused());
                });
    }

    @Test
    @DisplayName("C21: without key and name the start fails and says what to set")
    void withoutKeyAndNameTheStartFailsAndSaysWhatToSet() {
        application.run(context -> assertThat(analysis(context.getStartupFailure()))
                .contains("neither pgleader.key nor spring.application.name is set", "pgleader.key=my-service"));
    }

    @Test
    void anElectionWithoutKeyIsRefused() {
        application
                .withPropertyValues("pgleader.elections.billing.paused=true")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains(
                                "The election \"billing\" has no key",
                                "pgleader.elections.billing.key=my-service/billing"));
    }

    @Test
    void aKeyThatIsNoNumberIsRefusedWithItsValue() {
        application
                .withPropertyValues("pgleader.key=bigint:many")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("pgleader.key is \"bigint:many\"", "bigint:<number>"));
    }

    @Test
    void anElectionThatIsNamedLikeTheKeyIsRefused() {
        application
                .withPropertyValues("pgleader.key=billing", "pgleader.elections.billing.key=other")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("two elections named \"billing\"", "Remove pgleader.key"));
    }

    @Test
    void optionsThatContradictEachOtherAreRefusedByTheNamesOfTheirPropertiesWithTheValues() {
        application
                .withPropertyValues("pgleader.key=k", "pgleader.lease-duration=5s")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains(
                                "pgleader.health-check-interval (3000ms) + pgleader.health-check-timeout (3000ms)",
                                "pgleader.lease-duration (5000ms)")
                        .doesNotContain("leaseDuration"));
    }

    @Test
    void anInstanceIdThatPostgresCouldNotShowIsRefusedWithItsValue() {
        application
                .withPropertyValues("pgleader.key=k", "pgleader.instance-id=two words")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("two words", "pgleader.instance-id"));
    }

    @Test
    void aTakeoverDelayIsAWordOrADuration() {
        application
                .withPropertyValues("pgleader.key=k", "pgleader.takeover-delay=20s")
                .run(context -> assertThat(context.getBean(ElectorOptions.class).takeoverDelay())
                        .hasToString("PT20S"));
        application
                .withPropertyValues("pgleader.key=k", "pgleader.takeover-delay=sometimes")
                .run(context -> assertThat(context.getStartupFailure())
                        .hasStackTraceContaining(
                                "Expected auto, none or a duration such as 15s, but found \"sometimes\""));
    }

    @Test
    void spreadIsTakenFromTheProperties() {
        application
                .withPropertyValues(
                        "pgleader.key=" + TestServer.uniqueName("spread"),
                        "pgleader.spread.enabled=true",
                        "pgleader.spread.time=200ms",
                        "pgleader.spread.rebalance-interval=1h")
                .run(context -> awaitLeader(context.getBean(LeaderElector.class)));
        application
                .withPropertyValues("pgleader.key=k", "pgleader.spread.enabled=true", "pgleader.spread.time=2d")
                .run(context ->
                        assertThat(analysis(context.getStartupFailure())).contains("PT48H"));
        application
                .withPropertyValues("pgleader.key=k", "pgleader.spread.enabled=true", "pgleader.acquisition-mode=queue")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("QUEUE", "pgleader.acquisition-mode to poll, or pgleader.spread.enabled to false"));
    }

    @Test
    void aDisabledApplicationTakesNoPartAndConnectsNowhere() {
        for (String off : List.of("pgleader.enabled=false", "pgleader.mode=never-leader")) {
            withoutDatabase
                    .withUserConfiguration(NeedsElector.class)
                    .withPropertyValues(off, "pgleader.elections.billing.key=billing")
                    .run(context -> {
                        assertThat(context).hasNotFailed().doesNotHaveBean(ConnectionSource.class);
                        LeaderElector elector = context.getBean(NeedsElector.class).elector;
                        assertThat(elector.isLeader()).isFalse();
                        assertThat(elector.status().role()).isEqualTo(LeaderStatus.Role.STOPPED);
                    });
            withoutDatabase
                    .withPropertyValues(off)
                    .run(context -> assertThat(context).hasNotFailed().hasSingleBean(LeaderElector.class));
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class NeedsElector {

        @Autowired
        @Election("billing")
        LeaderElector elector;
    }

    @Test
    void anApplicationWithoutPostgresLeadsIfItIsToldToAndSaysSoLoudly(CapturedOutput output) {
        withoutDatabase
                .withBean(JdbcConnectionDetails.class, () -> new Details("jdbc:h2:mem:test"))
                .withPropertyValues("pgleader.mode=always-leader")
                .run(context -> {
                    awaitLeader(context.getBean(LeaderElector.class));
                    assertThat(output.getOut()).contains("THIS INSTANCE LEADS WITHOUT ASKING ANYBODY");
                });
    }

    @Test
    void alwaysToLeadIsRefusedInProduction() {
        withoutDatabase
                .withPropertyValues("pgleader.mode=always-leader", "spring.profiles.active=eu,production")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("pgleader.mode is always-leader", "the profile production", "elect"));
        withoutDatabase
                .withPropertyValues(
                        "pgleader.mode=always-leader",
                        "spring.profiles.active=live",
                        "pgleader.production-profiles=live,staging")
                .run(context ->
                        assertThat(analysis(context.getStartupFailure())).contains("the profile live"));
    }

    @Test
    void anApplicationWithoutDatabaseIsToldWhatToSet() {
        withoutDatabase
                .withPropertyValues("pgleader.key=k")
                .run(context ->
                        assertThat(analysis(context.getStartupFailure())).contains("pgleader.datasource.url"));
    }

    @Test
    void anotherDatabaseThanPostgresIsRefused() {
        withoutDatabase
                .withPropertyValues("pgleader.key=k")
                .withBean(JdbcConnectionDetails.class, () -> new Details("jdbc:h2:mem:test"))
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("doesn't begin with jdbc:postgresql:", "@AutoConfigureTestLeader"));
    }

    @Test
    void aUrlThatIsNoneIsNotRepeated() {
        application
                .withPropertyValues("pgleader.key=k", "pgleader.datasource.url=jdbc:postgresql://me:secret@db/app")
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("The value of pgleader.datasource.url can't be used")
                        .doesNotContain("secret"));
    }

    @Test
    void connectionDetailsPrevailOverPropertiesAndAreAskedAnewForEachSession() {
        String key = TestServer.uniqueName("details");
        Details details = new Details(TestServer.url());
        bare.withPropertyValues(
                        "pgleader.key=" + key, "pgleader.takeover-delay=none", "spring.datasource.url=jdbc:h2:mem:x")
                .withBean(JdbcConnectionDetails.class, () -> details)
                .run(context -> {
                    LeaderElector elector = context.getBean(LeaderElector.class);
                    awaitLeader(elector);
                    int asked = details.askedForPassword.get();
                    TestServer.query("SELECT pg_terminate_backend("
                            + TestServer.holders(key).get(0) + ")");
                    await().atMost(PATIENCE).until(() -> elector.status().terms() == 2);
                    assertThat(details.askedForPassword).hasValueGreaterThan(asked);
                });
    }

    @Test
    void aUrlOfItsOwnLeadsPastThePoolerWithTheCredentialsOfTheApplication() {
        String database = TestServer.uniqueName("direct");
        TestServer.createDatabase(database);
        application
                .withPropertyValues("pgleader.key=k", "pgleader.datasource.url=" + TestServer.url(database))
                .run(context -> {
                    LeaderElector elector = context.getBean(LeaderElector.class);
                    awaitLeader(elector);
                    assertThat(elector.status().session().orElseThrow().database())
                            .isEqualTo(database);
                });
    }

    @Test
    void aDataSourceBeanWorksTooAndWhatItCostsIsLoggedOnce(CapturedOutput output) {
        String key = TestServer.uniqueName("pooled");
        bare.withPropertyValues("pgleader.key=" + key, "pgleader.takeover-delay=none")
                .withBean(DataSource.class, LeaderAutoConfigurationTest::poolOfUnknownSettings)
                .run(context -> {
                    awaitLeader(context.getBean(LeaderElector.class));
                    HikariDataSource pool = context.getBean(HikariDataSource.class);
                    assertThat(pool.getHikariPoolMXBean().getActiveConnections())
                            .isEqualTo(1);
                });
        assertThat(output.getOut()).containsOnlyOnce("one of its connections is in use all the time");
        assertThat(TestServer.holders(key)).isEmpty();
    }

    @Test
    void severalDataSourcesWithoutPrimaryAreRefused() {
        bare.withPropertyValues("pgleader.key=k")
                .withBean("one", DataSource.class, LeaderAutoConfigurationTest::pool)
                .withBean("two", DataSource.class, LeaderAutoConfigurationTest::pool)
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains(
                                "several DataSource beans, one, two",
                                "pgleader.datasource.url",
                                "pgleader.datasource.bean",
                                "@Primary"));
    }

    @Test
    @DisplayName("N09: of two DataSource beans the lock is where the property says")
    void oneOfSeveralDataSourcesIsNamed(CapturedOutput output) {
        String database = TestServer.uniqueName("second");
        TestServer.createDatabase(database);
        ApplicationContextRunner two = bare.withPropertyValues("pgleader.key=k", "pgleader.takeover-delay=none")
                .withBean("one", DataSource.class, LeaderAutoConfigurationTest::pool)
                .withBean("two", DataSource.class, () -> pool(TestServer.url(database)));
        two.withPropertyValues("pgleader.datasource.bean=two").run(context -> {
            LeaderElector elector = context.getBean(LeaderElector.class);
            awaitLeader(elector);
            assertThat(elector.status().session().orElseThrow().database()).isEqualTo(database);
            assertThat(output.getOut()).contains("taken from the DataSource bean \"two\"");
        });
        two.withPropertyValues("pgleader.datasource.bean=three")
                .run(context ->
                        assertThat(analysis(context.getStartupFailure())).contains("is \"three\"", "among one, two"));
    }

    @Test
    @DisplayName("N09: where the pool refuses the server, the elector doesn't log in either")
    void whatIsSetAtThePoolHoldsForTheElectorToo() {
        application
                .withPropertyValues(
                        "pgleader.key=" + TestServer.uniqueName("tls"),
                        "spring.datasource.hikari.data-source-properties.sslmode=verify-full")
                .run(context -> {
                    LeaderElector elector = context.getBean(LeaderElector.class);
                    await().atMost(PATIENCE)
                            .until(() -> elector.status().problem().isPresent());
                    assertThat(elector.status().session()).isEmpty();
                    assertThat(elector.isLeader()).isFalse();
                    HikariDataSource pool = context.getBean(HikariDataSource.class);
                    assertThat(catchThrowable(pool::getConnection)).isNotNull();
                });
    }

    @Test
    @DisplayName("N09: user and driver properties that stand at the pool only")
    void userAndPropertiesOfThePoolAreThoseOfTheElector(CapturedOutput output) {
        String role = TestServer.uniqueName("role");
        TestServer.execute("CREATE ROLE " + role + " LOGIN");
        String instance = TestServer.uniqueName("instance");
        application
                .withPropertyValues(
                        "pgleader.key=" + TestServer.uniqueName("n09"),
                        "pgleader.instance-id=" + instance,
                        "spring.datasource.hikari.username=" + role,
                        "spring.datasource.hikari.data-source-properties.options=-c work_mem=333kB")
                .run(context -> {
                    awaitLeader(context.getBean(LeaderElector.class));
                    assertThat(TestServer.query(
                                    "SELECT usename FROM pg_stat_activity WHERE application_name = 'pg-leader/"
                                            + instance + "'"))
                            .containsExactly(role);
                    assertThat(output.getOut()).contains("[options]");
                });
    }

    @Test
    @DisplayName("N09: a source that leads to several databases, or has one connection, is refused")
    void aSourceThatIsNoRoadIsRefused() {
        bare.withPropertyValues("pgleader.key=k")
                .withBean(DataSource.class, () -> {
                    var routing = new AbstractRoutingDataSource() {
                        @Override
                        protected Object determineCurrentLookupKey() {
                            return "a";
                        }
                    };
                    routing.setTargetDataSources(Map.of("a", pool()));
                    return routing;
                })
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("leads to several databases", "pgleader.datasource.url"));
        bare.withPropertyValues("pgleader.key=k")
                .withBean(DataSource.class, () -> new SingleConnectionDataSource(TestServer.url(), "x", "y", true))
                .run(context -> assertThat(analysis(context.getStartupFailure()))
                        .contains("has a single connection", "pgleader.datasource.bean"));
    }

    @Test
    @DisplayName("C04: the lock takes no connection of the pool, and no leak detector sees it")
    void theLockTakesNoConnectionOfThePool(CapturedOutput output) {
        application
                .withPropertyValues(
                        "pgleader.key=" + TestServer.uniqueName("c04"),
                        "spring.datasource.hikari.maximum-pool-size=2",
                        "spring.datasource.hikari.leak-detection-threshold=2000")
                .run(context -> {
                    awaitLeader(context.getBean(LeaderElector.class));
                    long begin = System.nanoTime();
                    HikariDataSource pool = context.getBean(HikariDataSource.class);
                    try (var first = pool.getConnection();
                            var second = pool.getConnection()) {
                        assertThat(List.of(first, second)).hasSize(2);
                        assertThat(pool.getHikariPoolMXBean().getActiveConnections())
                                .isEqualTo(2);
                    }
                    await().pollDelay(Duration.ofMillis(2500).minusNanos(System.nanoTime() - begin))
                            .until(() -> context.getBean(LeaderElector.class).isLeader());
                    assertThat(pool.getHikariPoolMXBean().getActiveConnections())
                            .isZero();
                });
        assertThat(output.getOut()).doesNotContainIgnoringCase("leak");
    }

    @Test
    void eachBeanGivesWayToOneOfTheApplication() {
        ElectorOptions options =
                ElectorOptions.builder().retryInterval(Duration.ofMillis(77)).build();
        application
                .withPropertyValues("pgleader.key=k")
                .withBean(ElectorOptions.class, () -> options)
                .run(context -> assertThat(
                                context.getBean(LeaderElectorGroup.class).options())
                        .isSameAs(options));

        LeaderElectorGroup group = LeaderElectorGroup.builder()
                .connectTo(ConnectionSource.of(TestServer.url(), TestServer.USER, ""))
                .build();
        application
                .withPropertyValues("pgleader.key=" + TestServer.uniqueName("group"))
                .withBean(LeaderElectorGroup.class, () -> group)
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(group.electors()).containsExactly(context.getBean(LeaderElector.class));
                });
        assertThat(group.electors()).isEmpty();
    }

    @Test
    void anElectorOfTheApplicationIsStartedAndStoppedInPlaceOfTheConfiguredOnes() {
        String key = TestServer.uniqueName("own");
        withoutDatabase
                .withBean(
                        LeaderElector.class,
                        () -> LeaderElector.builder()
                                .connectTo(ConnectionSource.of(TestServer.url(), TestServer.USER, ""))
                                .key(key)
                                .build())
                .run(context -> {
                    assertThat(context).hasNotFailed().doesNotHaveBean(LeaderElectorGroup.class);
                    await().atMost(PATIENCE)
                            .until(() -> context.getBean(LeaderElector.class)
                                    .status()
                                    .session()
                                    .isPresent());
                });
    }

    @Test
    void aCustomizerCompletesEachElector() {
        String key = TestServer.uniqueName("customized");
        application
                .withPropertyValues("pgleader.key=" + key)
                .withBean(LeaderElectorCustomizer.class, () -> (election, builder) -> {
                    assertThat(election).isEqualTo(key);
                    builder.paused(true);
                })
                .run(context -> await().atMost(PATIENCE)
                        .until(() ->
                                context.getBean(LeaderElector.class).status().paused()));
    }

    private static HikariDataSource pool() {
        return pool(TestServer.url());
    }

    /** What its data source does isn't to be seen. */
    private static HikariDataSource poolOfUnknownSettings() {
        PGSimpleDataSource unknown = new PGSimpleDataSource();
        unknown.setUrl(TestServer.url());
        HikariDataSource pool = pool(TestServer.url());
        pool.setDataSource(unknown);
        return pool;
    }

    private static HikariDataSource pool(String url) {
        HikariDataSource pool = new HikariDataSource();
        pool.setJdbcUrl(url);
        pool.setUsername(TestServer.USER);
        pool.setMaximumPoolSize(2);
        pool.setMinimumIdle(0);
        return pool;
    }

    static String analysis(Throwable failure) {
        assertThat(failure).isNotNull();
        FailureAnalysis analysis = new LeaderConfigurationFailureAnalyzer().analyze(failure);
        assertThat(analysis).as("analysis of %s", failure).isNotNull();
        return analysis.getDescription() + "\n" + analysis.getAction();
    }

    private static final class Details implements JdbcConnectionDetails {

        private final String url;
        private final AtomicInteger askedForPassword = new AtomicInteger();

        Details(String url) {
            this.url = url;
        }

        @Override
        public String getUsername() {
            return TestServer.USER;
        }

        @Override
        public String getPassword() {
            askedForPassword.incrementAndGet();
            return "";
        }

        @Override
        public String getJdbcUrl() {
            return url;
        }
    }
}
