package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.spring.test.TestLeaderAutoConfiguration;
import dev.pgleader.spring.test.TestLeaderElectors;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.springframework.aop.framework.Advised;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.scheduling.annotation.EnableAsync;

class CatchUpTest {

    private static final Duration PATIENCE = Duration.ofSeconds(30);

    @EnableAsync
    @Configuration(proxyBeanMethods = false)
    @Import({DocumentedCatchUp.class, DocumentedReports.class})
    static class Application {}

    @Test
    @DisplayName("N16: what the documentation advises makes up for a tick that nobody ran, once")
    void aNewLeaderMakesUpForATickInTheGap() {
        String database = TestServer.uniqueName("catch_up");
        TestServer.createDatabase(database);
        JdbcTemplate jdbc =
                new JdbcTemplate(new DriverManagerDataSource(TestServer.url(database), TestServer.USER, ""));
        jdbc.execute("CREATE TABLE report AS SELECT current_date - 1 AS sent_on");
        new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(
                        AopAutoConfiguration.class,
                        TestLeaderAutoConfiguration.class,
                        LeaderAutoConfiguration.class,
                        LeaderOnlyAutoConfiguration.class))
                .withPropertyValues("pgleader.key=service")
                .withBean(JdbcTemplate.class, () -> jdbc)
                .withUserConfiguration(Application.class)
                .run(context -> {
                    TestLeaderElectors electors = context.getBean(TestLeaderElectors.class);
                    DocumentedReports proxy = context.getBean(DocumentedReports.class);
                    AtomicInteger sent = ((DocumentedReports)
                                    ((Advised) proxy).getTargetSource().getTarget())
                            .sent;
                    // The tick in the gap.
                    context.getBean(DocumentedCatchUp.class).atThree();
                    assertThat(sent).hasValue(0);
                    electors.grant();
                    await().atMost(PATIENCE).until(() -> sent.get() == 1);
                    context.getBean(DocumentedCatchUp.class).atThree();
                    assertThat(sent).hasValue(1);
                    electors.revoke();
                    jdbc.update("UPDATE report SET sent_on = current_date - 1");
                    electors.grant();
                    await().atMost(PATIENCE).until(() -> sent.get() == 2);
                });
    }
}
