package dev.pgleader.recipe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderStatus;
import io.micrometer.core.instrument.MeterRegistry;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootVersion;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.scheduling.annotation.EnableScheduling;

class LeaderConfigurationTest {

    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static EmbeddedPostgres server;

    @EnableScheduling
    @EnableAutoConfiguration
    @Configuration(proxyBeanMethods = false)
    @Import({LeaderConfiguration.class, NightlyJob.class})
    static class Application {}

    @BeforeAll
    static void startServer() throws IOException {
        server = EmbeddedPostgres.start();
    }

    @AfterAll
    static void stopServer() throws IOException {
        server.close();
    }

    private static ConfigurableApplicationContext start() {
        return SpringApplication.run(
                Application.class,
                "--spring.application.name=orders",
                "--spring.datasource.url=" + server.getJdbcUrl("postgres", "postgres"),
                "--spring.datasource.username=postgres",
                "--spring.jmx.enabled=false");
    }

    private static double leaderMeter(ConfigurableApplicationContext context) {
        return context.getBean(MeterRegistry.class)
                .get("pgleader.leader")
                .gauge()
                .value();
    }

    @Test
    @DisplayName("Spring Boot 3.5: the recipe leads, is healthy and measured, and hands over when its job has ended")
    void theRecipeLeadsAndHandsOver() {
        assertThat(SpringBootVersion.getVersion()).startsWith("3.5.");
        try (ConfigurableApplicationContext first = start();
                ConfigurableApplicationContext second = start()) {
            LeaderElector leader = first.getBean(LeaderElector.class);
            LeaderElector follower = second.getBean(LeaderElector.class);
            await().atMost(PATIENCE).until(() -> leader.isLeader() || follower.isLeader());
            handOver(leader.isLeader() ? first : second, leader.isLeader() ? second : first);
        }
    }

    private static void handOver(ConfigurableApplicationContext first, ConfigurableApplicationContext second) {
        LeaderElector leader = first.getBean(LeaderElector.class);
        LeaderElector follower = second.getBean(LeaderElector.class);
        var health =
                first.getBean("leaderHealthIndicator", HealthIndicator.class).health();
        assertThat(health.getStatus()).isEqualTo(Status.UP);
        assertThat(health.getDetails()).containsEntry("role", LeaderStatus.Role.LEADER);
        assertThat(leaderMeter(first)).isEqualTo(1);
        assertThat(leaderMeter(second)).isZero();

        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch end = new CountDownLatch(1);
        CompletableFuture<Boolean> nextLedMeanwhile = new CompletableFuture<>();
        var job = CompletableFuture.runAsync(() -> leader.runIfLeader(term -> {
            begun.countDown();
            awaitUninterruptibly(end);
            nextLedMeanwhile.complete(follower.isLeader());
        }));
        awaitUninterruptibly(begun);
        var closing = CompletableFuture.runAsync(first::close);
        await().atMost(PATIENCE).until(() -> leader.status().role() == LeaderStatus.Role.RESIGNING);
        assertThat(follower.isLeader()).isFalse();
        end.countDown();
        assertThat(job).succeedsWithin(PATIENCE);
        assertThat(nextLedMeanwhile).isCompletedWithValue(false);
        await().atMost(PATIENCE).until(follower::isLeader);
        assertThat(closing).succeedsWithin(PATIENCE);
        assertThat(leader.status().role()).isEqualTo(LeaderStatus.Role.STOPPED);
    }

    private static void awaitUninterruptibly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
