package dev.pgleader.spring.test;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderElectorGroup;
import dev.pgleader.TakeoverDelay;
import dev.pgleader.spring.NoDatabase;
import java.time.Duration;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Primary;

/** What {@link AutoConfigureTestLeader} imports. */
@AutoConfiguration(beforeName = "dev.pgleader.spring.LeaderAutoConfiguration")
public final class TestLeaderAutoConfiguration {

    @Bean
    static NoDatabase pgLeaderTestDatabase() {
        return NoDatabase.grantingWhatItIsTold();
    }

    /** A lease as long as anybody may halt a test in a debugger. */
    @Bean
    @Primary
    static ElectorOptions pgLeaderTestOptions() {
        return ElectorOptions.builder()
                .leaseDuration(Duration.ofDays(1))
                .safetyMargin(Duration.ofSeconds(1))
                .retryInterval(Duration.ofMillis(10))
                .coolDown(Duration.ofMillis(1))
                .takeoverDelay(TakeoverDelay.NONE)
                .build();
    }

    @Bean
    static LeaderElectorGroup leaderElectorGroup(NoDatabase database, ElectorOptions options) {
        return LeaderElectorGroup.builder()
                .sessions(database)
                .name("test")
                .instanceId("test")
                .options(options)
                .build();
    }

    @Bean
    static TestLeaderElectors testLeaderElectors(NoDatabase database, ObjectProvider<LeaderElector> electors) {
        return new TestLeaderElectors(database, electors);
    }
}
