package dev.pgleader.example.demo;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class DemoTest {

    @Test
    void succeedsUnlessToldOtherwise() {
        assertThat(Demo.exitCode(null)).isZero();
    }
}
