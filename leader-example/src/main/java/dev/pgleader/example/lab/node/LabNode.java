package dev.pgleader.example.lab.node;

import dev.pgleader.LeaderElector;
import dev.pgleader.lock.ConnectionSource;
import dev.pgleader.lock.LockKey;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

/**
 * The main class of a node. It competes for the leadership, works while it leads, reports on its standard output, obeys on
 * its standard input, and ends when that ends: it doesn't outlive its supervisor.
 */
public final class LabNode {

    private LabNode() {}

    /**
     * Runs a node.
     *
     * @param arguments of {@link NodeConfiguration#toArguments()}
     * @throws IOException if the standard input breaks
     */
    public static void main(String[] arguments) throws IOException {
        NodeConfiguration configuration = NodeConfiguration.parse(arguments);
        // Only reports may go there; what else is printed, such as by the log, is for people.
        PrintStream standardOutput = System.out;
        System.setOut(System.err);
        ReportWriter reports = new ReportWriter(standardOutput);

        LabSettings settings = configuration.settings();
        ElectionReporter reporter = new ElectionReporter(reports);
        LeaderElector elector = LeaderElector.builder()
                .connectTo(ConnectionSource.of(LabDatabase.url(configuration.databasePort()), LabDatabase.NAME, ""))
                .key(LockKey.of(LabDatabase.LEADER_KEY))
                .name("lab")
                .instanceId(configuration.name())
                .options(settings.electorOptions())
                .listener(reporter)
                .observer(reporter)
                .build();
        LongRun longRun = new LongRun(settings.step(), reports);
        elector.runWhileLeader(new LeaderJobs(
                new MailJob(settings.job(), reports),
                new DatabaseJob(configuration, reports),
                longRun,
                settings.job().dividedBy(2)));
        elector.start();
        reports.report(new NodeReport.Ready());
        obey(elector, longRun, reports);
        // The supervisor is gone, and with it the way to the database.
        Runtime.getRuntime().halt(1);
    }

    private static void obey(LeaderElector elector, LongRun longRun, ReportWriter reports) throws IOException {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            switch (NodeCommand.valueOf(line.toUpperCase(Locale.ROOT))) {
                case RESIGN -> {
                    var unused = elector.resign();
                }
                case RUN -> longRun.request();
                case REPORT_TRUST -> reports.report(new NodeReport.Trust(elector.isLeader()));
                case STOP -> {
                    elector.close();
                    System.exit(0);
                }
            }
        }
    }
}
