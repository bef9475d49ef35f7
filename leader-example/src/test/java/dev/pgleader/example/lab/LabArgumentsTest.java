package dev.pgleader.example.lab;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LabArgumentsTest {

    @Test
    void hasDefaults() {
        assertThat(LabArguments.parse()).isEqualTo(new LabArguments(8080, 3, 48));
        assertThat(LabArguments.parse("--nodes", "5", "--port", "8081")).isEqualTo(new LabArguments(8081, 5, 48));
    }

    @ParameterizedTest
    @CsvSource({"--port, 65536", "--port, -1", "--port, http", "--nodes, 0", "--nodes, 10", "--node-heap, 1"})
    void refusesNonsenseWithTheValueAndTheRange(String option, String value) {
        assertThatThrownBy(() -> LabArguments.parse(option, value))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(option + " needs a number between ")
                .hasMessageContaining("but is " + value)
                .hasMessageContaining("usage: ");
    }

    @Test
    void refusesWhatItDoesNotKnow() {
        assertThatThrownBy(() -> LabArguments.parse("--help")).hasMessageContaining("Unknown option --help; usage: ");
        assertThatThrownBy(() -> LabArguments.parse("--port")).hasMessageContaining("needs a value");
    }
}
