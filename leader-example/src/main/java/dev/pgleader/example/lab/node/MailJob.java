package dev.pgleader.example.lab.node;

import dev.pgleader.Leadership;
import java.time.Duration;

/**
 * The job with an effect outside of the database. It takes its time, as a call of some other service does, and can't be
 * interrupted: what was asked before is no longer known when the mail goes out.
 */
final class MailJob {

    private final Duration duration;
    private final ReportWriter reports;

    MailJob(Duration duration, ReportWriter reports) {
        this.duration = duration;
        this.reports = reports;
    }

    /** Asks whether the term is valid, and only then. */
    boolean run(long number, Leadership leadership) {
        if (!leadership.isValid()) {
            return false;
        }
        reports.report(new NodeReport.JobBegan(number));
        Work.take(duration.dividedBy(2));
        reports.report(new NodeReport.JobHalfDone(number));
        Work.take(duration.dividedBy(2));
        reports.report(new NodeReport.MailSent(number, leadership.term()));
        return true;
    }
}
