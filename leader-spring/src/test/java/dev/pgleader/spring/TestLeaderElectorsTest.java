package dev.pgleader.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.pgleader.LeaderElector;
import dev.pgleader.RevocationReason;
import dev.pgleader.spring.test.AutoConfigureTestLeader;
import dev.pgleader.spring.test.TestLeaderElectors;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.SpringBootTest.WebEnvironment;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;

class TestLeaderElectorsTest {

    @Configuration(proxyBeanMethods = false)
    @ImportAutoConfiguration({LeaderAutoConfiguration.class, LeaderOnlyAutoConfiguration.class})
    @Import({DocumentedListener.class, DocumentedJobs.class})
    static class Application {}

    // tag: how a user tests
    @SpringBootTest(
            webEnvironment = WebEnvironment.NONE,
            properties = {"spring.application.name=orders", "pgleader.elections.billing.key=orders/billing"})
    @AutoConfigureTestLeader
    abstract static class OrdersTest {

        @Autowired
        TestLeaderElectors leadership;

        @Autowired
        DocumentedJobs jobs;

        @AfterEach
        void nobodyLeads() {
            leadership.revokeAll();
        }

        @Test
        void billsAreSentByTheLeaderAlone() {
            assertThat(jobs.sendBills()).isEmpty();
            leadership.grant("billing");
            assertThat(jobs.sendBills()).contains("sent");
            leadership.loseSession();
            assertThat(jobs.sendBills()).isEmpty();
        }
    }
    // end

    @Nested
    @SpringBootTest(
            classes = Application.class,
            webEnvironment = WebEnvironment.NONE,
            properties = {"spring.application.name=orders", "pgleader.elections.billing.key=orders/billing"})
    @AutoConfigureTestLeader
    class Documented extends OrdersTest {

        @Autowired
        LeaderElector elector;

        @Autowired
        DocumentedListener listener;

        @Test
        void listenersHaveBeenToldWhenAMethodReturns() {
            listener.told.clear();
            leadership.grant();
            assertThat(elector.isLeader()).isTrue();
            assertThat(listener.told).containsExactly("elected");
            leadership.grant();
            leadership.revoke();
            leadership.revoke();
            assertThat(elector.isLeader()).isFalse();
            leadership.grant("billing");
            assertThat(leadership).hasToString("TestLeaderElectors[billing=LEADER]");
            leadership.loseDatabase();
            assertThat(elector.status().lastRevocation()).isEqualTo(Optional.of(RevocationReason.CHECK_TIMEOUT));
            assertThat(listener.told)
                    .containsExactly("elected", "revoked RESIGNED", "elected", "revoked CHECK_TIMEOUT");
        }

        @Test
        void anElectionThatDoesNotExistIsRefusedWithThoseThatDo() {
            assertThatThrownBy(() -> leadership.grant("biling"))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("\"biling\" among [billing]");
        }

        @Test
        void whatCannotLeadSaysWhy() {
            elector.pause().join();
            try {
                assertThatThrownBy(() -> leadership.grant()).hasMessageContaining("The elector is paused");
            } finally {
                elector.resume();
            }
        }
    }
}
