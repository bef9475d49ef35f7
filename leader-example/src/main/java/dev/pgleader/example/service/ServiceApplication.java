package dev.pgleader.example.service;

import dev.pgleader.lock.AdvisoryLocks;
import javax.sql.DataSource;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.scheduling.annotation.EnableScheduling;

/** One instance of the service. All of them are the same; who leads is decided while they run. */
@SpringBootApplication(proxyBeanMethods = false)
@EnableConfigurationProperties(OrdersProperties.class)
@EnableScheduling
public class ServiceApplication {

    /**
     * Runs an instance until its process is told to end.
     *
     * @param args properties, such as {@code --server.port=8090}
     */
    public static void main(String[] args) {
        SpringApplication.run(ServiceApplication.class, args);
    }

    @Bean
    AdvisoryLocks advisoryLocks(DataSource dataSource) {
        return AdvisoryLocks.on(dataSource);
    }
}
