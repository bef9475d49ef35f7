package dev.pgleader.spring.sample;

import dev.pgleader.LeaderElector;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.spring.LeaderOnly;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Profile;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;

/** A job of ten steps that only the leader runs, and that says when; the clock is the same in all processes of a machine. */
@RestController
@Profile("job")
@EnableScheduling
class Job implements LeadershipListener {

    private static final int STEPS = 10;

    private final LeaderElector elector;
    private final long stepMillis;

    Job(LeaderElector elector, @Value("${test.step-millis:100}") long stepMillis) {
        this.elector = elector;
        this.stepMillis = stepMillis;
    }

    @Override
    public void onElected(Leadership leadership) {
        System.out.println("elected " + System.nanoTime());
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {}

    @PostMapping("/resign")
    public void resign() {
        var unused = elector.resign();
    }

    @LeaderOnly
    @Scheduled(fixedDelay = 20)
    public void run() throws InterruptedException {
        System.out.println("begin " + System.nanoTime());
        for (int step = 1; step <= STEPS; step++) {
            System.out.println("step " + step);
            new CountDownLatch(1).await(stepMillis, TimeUnit.MILLISECONDS);
        }
        System.out.println("end " + System.nanoTime());
    }
}
