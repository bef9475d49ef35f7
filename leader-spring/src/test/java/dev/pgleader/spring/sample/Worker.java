package dev.pgleader.spring.sample;

import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.spring.LeaderOnly;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.Profile;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** Says on the standard output what happens to it; for tests with several JVMs. */
@Component
@Profile("worker")
@EnableScheduling
class Worker implements LeadershipListener {

    /** How long it takes to give the work up. */
    private static final long REVOCATION_MILLIS = 500;

    private final DataSource dataSource;
    private final LeaderElector elector;

    Worker(DataSource dataSource, LeaderElector elector) {
        this.dataSource = dataSource;
        this.elector = elector;
    }

    @LeaderOnly
    @Scheduled(fixedDelay = 20)
    void work() {
        System.out.println("worked");
    }

    @Override
    public void onElected(Leadership leadership) {
        System.out.println("elected");
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) throws Exception {
        new CountDownLatch(1).await(REVOCATION_MILLIS, TimeUnit.MILLISECONDS);
        String key = elector.key().toString().substring("bigint:".length());
        try (Connection connection = dataSource.getConnection();
                Statement statement = connection.createStatement();
                ResultSet holders = statement.executeQuery("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                        + " AND granted AND ((classid::bigint << 32) | objid::bigint) = " + key)) {
            holders.next();
            System.out.println("revoked " + reason + ", lock held " + holders.getInt(1));
        }
    }

    /** Doesn't let the application end for a minute. */
    @Component
    @Profile("stuck")
    static class Stuck implements SmartLifecycle {

        private volatile boolean running;

        @Override
        public void start() {
            running = true;
        }

        @Override
        public void stop() {
            System.out.println("stuck");
            blockForAMinute();
            running = false;
        }

        @Override
        public boolean isRunning() {
            return running;
        }
    }

    /** Has a request that a graceful shutdown waits for. */
    @RestController
    @Profile("stuck")
    static class Slow {

        @GetMapping("/slow")
        String slow() {
            System.out.println("requested");
            blockForAMinute();
            return "done";
        }
    }

    private static void blockForAMinute() {
        try {
            new CountDownLatch(1).await(1, TimeUnit.MINUTES);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
