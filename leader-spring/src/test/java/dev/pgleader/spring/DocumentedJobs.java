package dev.pgleader.spring;

import dev.pgleader.LeadershipListener;
import java.util.List;
import java.util.Optional;
import org.springframework.context.Lifecycle;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

@Component
class DocumentedJobs {

    // tag: nightly
    @LeaderOnly
    @Scheduled(cron = "0 0 3 * * *")
    void nightly() {
        System.out.println("runs on one instance");
    }
    // end

    // tag: bills
    @LeaderOnly("billing")
    Optional<String> sendBills() {
        return Optional.of("sent");
    }
    // end
}

@Configuration
class DocumentedLifecycles {

    // tag: lifecycles
    @Bean
    @LeaderLifecycle("billing")
    SmartLifecycle billingConsumer() {
        DocumentedConsumer consumer = new DocumentedConsumer();
        consumer.setAutoStartup(false);
        return consumer;
    }

    /** Containers that a registry makes are no beans: a listener starts and stops them. */
    @Bean
    @Election("billing")
    LeadershipListener billingContainers() {
        Lifecycle container = new DocumentedConsumer();
        return new LeaderLifecycleListener(List.of(container));
    }
    // end
}

/** Stands for the containers of messaging libraries. */
class DocumentedConsumer implements SmartLifecycle {

    private volatile boolean running;
    private boolean autoStartup = true;

    void setAutoStartup(boolean value) {
        autoStartup = value;
    }

    @Override
    public void start() {
        running = true;
    }

    @Override
    public void stop() {
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
}
