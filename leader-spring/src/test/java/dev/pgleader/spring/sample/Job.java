package dev.pgleader.spring.sample;

import dev.pgleader.spring.LeaderOnly;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Profile;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/** A job of ten steps that only the leader runs, and that says when; the clock is the same in all processes of a machine. */
@Component
@Profile("job")
@EnableScheduling
class Job {

    private static final int STEPS = 10;

    private final long stepMillis;

    Job(@Value("${test.step-millis:100}") long stepMillis) {
        this.stepMillis = stepMillis;
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
