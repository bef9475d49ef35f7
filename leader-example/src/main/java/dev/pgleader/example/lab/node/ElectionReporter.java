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
        var unused = leadership.revoked().thenAccept(reason -> {
            if (!isGivenUp(reason)) {
                reports.report(new NodeReport.Revoked(leadership.term(), reason));
            }
        });
    }

    @Override
    public void onRevoked(Leadership leadership, RevocationReason reason) {
        if (isGivenUp(reason)) {
            reports.report(new NodeReport.Revoked(leadership.term(), reason));
        }
    }

    /**
     * Who loses the leadership says so at once, whatever its work still does. Who gives it up says so when its work has ended:
     * listeners are told in reverse order, this one last, and until then it has the lock and does a leader's work.
     */
    static boolean isGivenUp(RevocationReason reason) {
        return reason == RevocationReason.RESIGNED || reason == RevocationReason.CLOSED;
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
