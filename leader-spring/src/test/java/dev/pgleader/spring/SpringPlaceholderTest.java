package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class SpringPlaceholderTest {

    @Test
    void hasTheDefaultOfCore() {
        assertThat(SpringPlaceholder.attempts(null)).isEqualTo(3);
    }
}
