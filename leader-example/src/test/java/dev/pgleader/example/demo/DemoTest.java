package dev.pgleader.example.demo;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class DemoTest {

    @Test
    void killsTheLeaderAndHandsOver() throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        new Demo(new PrintStream(printed, true, StandardCharsets.UTF_8)).run(DemoArguments.parse());
        assertThat(printed.toString(StandardCharsets.UTF_8).lines())
                .anyMatch(line -> line.matches("node-\\d leads"))
                .anyMatch(line -> line.matches("kill -9 node-\\d"))
                .anyMatch(line -> line.matches("node-\\d resigns"))
                .endsWith("All instances have ended")
                .filteredOn(line -> line.matches("node-\\d leads, after \\d+ ms without a leader"))
                .hasSize(2);
    }

    @Test
    void refusesWhatItDoesNotKnow() {
        assertThatThrownBy(() -> DemoArguments.parse("--port", "1"))
                .hasMessageContaining("--port")
                .hasMessageContaining("--url");
        assertThatThrownBy(() -> DemoArguments.parse("--url")).hasMessageContaining("needs a value");
        assertThatThrownBy(() -> DemoArguments.parse("--user", "me")).hasMessageContaining("needs a --url");
    }

    @Test
    void keepsThePasswordToItself() {
        DemoArguments arguments = DemoArguments.parse("--url", "jdbc:postgresql:x", "--password", "secret");
        assertThat(arguments).hasToString("DemoArguments[url=Optional[jdbc:postgresql:x], user=postgres]");
    }
}
