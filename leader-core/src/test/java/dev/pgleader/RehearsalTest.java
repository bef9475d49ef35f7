package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;
import static org.slf4j.event.Level.DEBUG;

import dev.pgleader.testkit.LogCapture;
import org.junit.jupiter.api.Test;

/** An election played through before the first one, so that a JVM's first hand-over takes no longer than later ones. */
class RehearsalTest {

    @Test
    void aWholeTermIsRehearsed() {
        Candidate.Standing standing = Rehearsal.play().standing();
        assertThat(standing.terms()).isEqualTo(1);
        assertThat(standing.lastRevocation()).isEqualTo(RevocationReason.CLOSED);
        assertThat(standing.role()).isEqualTo(LeaderStatus.Role.STOPPED);
        assertThat(standing.run().ended()).isCompleted();
    }

    @Test
    void nothingIsLoggedOfItAndAllOfWhatFollows() {
        try (LogCapture log = LogCapture.of(ElectionLoop.class.getPackageName(), DEBUG)) {
            Log.withoutLog(Rehearsal::play);
            assertThat(log.events()).noneMatch(event -> event.message().contains("[rehearsal]"));
            Rehearsal.play();
            assertThat(log.events()).anyMatch(event -> event.message().equals("[rehearsal] Elected, term 1"));
        }
    }
}
