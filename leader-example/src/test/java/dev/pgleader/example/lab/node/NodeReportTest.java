package dev.pgleader.example.lab.node;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.pgleader.AcquisitionMode;
import dev.pgleader.RevocationReason;
import java.time.Duration;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class NodeReportTest {

    static Stream<NodeReport> reports() {
        return Stream.of(
                new NodeReport.Ready(),
                new NodeReport.Connected(),
                new NodeReport.Disconnected("the server is gone"),
                new NodeReport.Granted(),
                new NodeReport.Elected(3),
                new NodeReport.Revoked(3, RevocationReason.SESSION_LOST),
                new NodeReport.Trust(true),
                new NodeReport.Trust(false),
                new NodeReport.JobBegan(7),
                new NodeReport.JobHalfDone(7),
                new NodeReport.MailSent(7, 3),
                new NodeReport.EntryCommitted(7),
                new NodeReport.EntryRefused(7, "it was rolled back"),
                new NodeReport.RunStep(2, 3, 5, 9),
                new NodeReport.RunAbandoned(2));
    }

    @ParameterizedTest
    @MethodSource("reports")
    void isReadAsItWasWritten(NodeReport report) {
        assertThat(NodeReport.parse(report.toLine())).isEqualTo(report);
    }

    @Test
    void coversEachKindOfReport() {
        assertThat(reports().map(Object::getClass).distinct())
                .hasSize(NodeReport.class.getPermittedSubclasses().length);
    }

    @Test
    void isOneLineWhateverTheMessage() {
        NodeReport report = new NodeReport.Disconnected("ERROR: no\n  Detail: really no\n");
        assertThat(report.toLine()).isEqualTo("disconnected ERROR: no Detail: really no");
    }

    @Test
    void isNothingElse() {
        assertThatThrownBy(() -> NodeReport.parse("hello world")).hasMessageContaining("hello world");
    }

    @Test
    void aNodeUnderstandsItsCommandLine() {
        NodeConfiguration configuration = new NodeConfiguration(
                "node-1",
                5432,
                new LabSettings(
                        Duration.ofSeconds(2), Duration.ofMillis(200), Duration.ofMillis(600), AcquisitionMode.POLL));
        assertThat(NodeConfiguration.parse(configuration.toArguments().toArray(String[]::new)))
                .isEqualTo(configuration);
    }

    @Test
    void theShortestLeaseIsOneThatAnElectorAccepts() {
        LabSettings shortest = new LabSettings(
                LabSettings.SHORTEST_LEASE, LabSettings.SHORTEST_RETRY, LabSettings.SHORTEST_JOB, AcquisitionMode.POLL);
        assertThat(shortest.electorOptions().leaseDuration()).isEqualTo(LabSettings.SHORTEST_LEASE);
        assertThatThrownBy(() -> new LabSettings(
                        Duration.ofMillis(999), Duration.ofMillis(50), Duration.ofMillis(100), AcquisitionMode.POLL))
                .hasMessage("The lease must be between 1000 and 60000 ms, but is 999 ms");
    }
}
