package dev.pgleader.recipe;

import dev.pgleader.LeaderElector;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

@Component
class NightlyJob {

    private final LeaderElector elector;

    NightlyJob(LeaderElector elector) {
        this.elector = elector;
    }

    @Scheduled(cron = "0 0 3 * * *")
    void nightly() {
        elector.runIfLeader(term -> System.out.println("runs on one instance"));
    }
}
