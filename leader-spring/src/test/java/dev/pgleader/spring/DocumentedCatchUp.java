package dev.pgleader.spring;

import org.springframework.context.event.EventListener;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

@Component
class DocumentedCatchUp {

    private final DocumentedReports reports;

    DocumentedCatchUp(DocumentedReports reports) {
        this.reports = reports;
    }

    // tag: catch-up
    @Scheduled(cron = "0 0 3 * * *")
    void atThree() {
        reports.sendIfDue();
    }

    /** The tick of three o'clock may have fallen into a gap between two leaders. */
    @Async
    @EventListener
    public void on(LeaderElectedEvent event) {
        reports.sendIfDue();
    }
    // end
}
