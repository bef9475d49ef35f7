package dev.pgleader.docs;

import dev.pgleader.LeaderElector;
import dev.pgleader.lock.AdvisoryLocks;
import dev.pgleader.lock.LockKey;
import dev.pgleader.lock.LockOutcome;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;

/** What the page on fencing shows. */
final class FencingSnippets {

    private FencingSnippets() {}

    interface Customers {
        List<String> due();
    }

    interface Mailer {
        void sendReport(String customer);
    }

    static void shortDeeds(LeaderElector elector, Customers customers, Mailer mailer) {
        elector.runWhileLeader(leadership -> {
            for (String customer : customers.due()) {
                leadership.ensureValid();
                mailer.sendReport(customer);
            }
        });
    }

    static boolean closeMonth(AdvisoryLocks locks) throws SQLException {
        LockOutcome<Integer> outcome = locks.tryRunInTransaction(LockKey.named("billing/close-month"), connection -> {
            try (Statement statement = connection.createStatement()) {
                return statement.executeUpdate("UPDATE invoice SET closed = true WHERE NOT closed");
            }
        });
        return outcome.wasRun();
    }
}
