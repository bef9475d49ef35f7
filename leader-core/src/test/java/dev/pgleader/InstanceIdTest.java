package dev.pgleader;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;

class InstanceIdTest {

    private static final String DEPLOYMENT = "payments-settlement-reconciliation-worker-7d9c5b6f4";

    @DisplayName("N14: two pods of one deployment are told apart, however long its name is")
    @Test
    void endsOfPodNames() {
        String first = InstanceId.of(DEPLOYMENT + "-x2k9p", null, 1, 0xabcd);
        String second = InstanceId.of(DEPLOYMENT + "-q7w4z", null, 1, 0xabcd);

        assertThat(first).endsWith("-x2k9p-1-abcd").hasSize(InstanceId.LONGEST).isNotEqualTo(second);
        assertThat(second).endsWith("-q7w4z-1-abcd").hasSize(InstanceId.LONGEST);
    }

    @DisplayName("N14: where the host's name doesn't resolve, HOSTNAME is taken")
    @Test
    void hostNameOfTheEnvironment() {
        assertThat(InstanceId.of(null, "web-0", 7, 0x1000)).isEqualTo("web-0-7-1000");
        assertThat(InstanceId.of("resolved", "web-0", 7, 0x1000)).isEqualTo("resolved-7-1000");
        assertThat(InstanceId.of(null, null, 7, 0x1000)).isEqualTo("unknown-host-7-1000");
        assertThat(InstanceId.of(null, " ", 7, 0x1000)).isEqualTo("unknown-host-7-1000");
    }

    @Test
    void onlyWhatIsPrintableEverywhere() {
        assertThat(InstanceId.of("böse host\n", null, 4_194_304, 0xffff)).isEqualTo("b_se_host-4194304-ffff");
        assertThat(InstanceId.ofThisProcess())
                .matches("[A-Za-z0-9._-]{1,53}")
                .contains("-" + ProcessHandle.current().pid() + "-");
    }
}
