package dev.pgleader.example.lab.node;

import dev.pgleader.ElectionObserver;
import dev.pgleader.Leadership;
import dev.pgleader.LeadershipListener;
import dev.pgleader.RevocationReason;
import dev.pgleader.lock.LockSessionException;
import java.time.Duration;

/** Passes on what the elector says of itself. */
final class ElectionReporter implements LeadershipListener, ElectionObserver {

    private final ReportWriter reports;

    ElectionReporter(ReportWriter reports) {
        this.reports = reports;
    }

    @Override
    public void onElected(Leadership leadership) {
        reports.report(new NodeReport.Elected(leadership.term()));
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {
        reports.report(new NodeReport.Revoked(leadership.term(), reason));
    }

    @Override
    public void sessionOpened(Duration took) {
        reports.report(new NodeReport.Connected());
    }

    @Override
    public void sessionFailed(LockSessionException.Fault fault, String message) {
        reports.report(new NodeReport.Disconnected(message));
    }

    @Override
    public void attempted(boolean granted, Duration took) {
        if (granted) {
            reports.report(new NodeReport.Granted());
        }
    }
}
