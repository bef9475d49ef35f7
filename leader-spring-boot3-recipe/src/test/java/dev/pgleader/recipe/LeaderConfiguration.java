package dev.pgleader.recipe;

import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderStatus;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.micrometer.LeaderMetrics;
import javax.sql.DataSource;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

@Configuration(proxyBeanMethods = false)
class LeaderConfiguration {

    @Bean
    LeaderElector leaderElector(DataSource dataSource, @Value("${spring.application.name}") String key) {
        return LeaderElector.builder()
                .connectTo(ConnectionSource.of(dataSource))
                .key(key)
                .build();
    }

    /** Its phase is the highest: it starts last and stops first. */
    @Bean
    SmartLifecycle leaderLifecycle(LeaderElector elector) {
        return new SmartLifecycle() {
            @Override
            public void start() {
                elector.start();
            }

            @Override
            public void stop() {
                elector.stop();
            }

            @Override
            public boolean isRunning() {
                return elector.status().role() != LeaderStatus.Role.STOPPED;
            }
        };
    }

    @Bean
    HealthIndicator leaderHealthIndicator(LeaderElector elector) {
        return () -> {
            LeaderStatus status = elector.status();
            Health.Builder health = status.problem()
                    .filter(problem -> problem.since().toSeconds() >= 60)
                    .map(problem -> Health.down().withDetail("problem", problem.message()))
                    .orElseGet(Health::up);
            return health.withDetail("role", status.role()).build();
        };
    }

    @Bean
    LeaderMetrics leaderMetrics(LeaderElector elector) {
        return new LeaderMetrics(elector);
    }
}
