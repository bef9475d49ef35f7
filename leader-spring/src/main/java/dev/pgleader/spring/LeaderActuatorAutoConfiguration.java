package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.micrometer.LeaderMetrics;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.time.Duration;
import java.util.Collection;
import java.util.function.Supplier;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.boot.actuate.autoconfigure.endpoint.condition.ConditionalOnAvailableEndpoint;
import org.springframework.boot.actuate.autoconfigure.info.ConditionalOnEnabledInfoContributor;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.info.InfoContributor;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.HealthContributor;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Shows the elections in health, info, metrics and an endpoint of their own, each where the application has such a thing. */
@AutoConfiguration(after = {LeaderAutoConfiguration.class, LeaderOnlyAutoConfiguration.class})
@ConditionalOnBean(ElectionLifecycle.class)
public final class LeaderActuatorAutoConfiguration {

    private static Supplier<Collection<LeaderElector>> electors(ListableBeanFactory beanFactory) {
        Electors electors = new Electors(beanFactory);
        return () -> electors.all().values();
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HealthContributor.class, ConditionalOnEnabledHealthIndicator.class})
    @ConditionalOnEnabledHealthIndicator("leader")
    static final class HealthConfiguration {

        @Bean
        @ConditionalOnMissingBean(name = "leaderHealthContributor")
        HealthContributor leaderHealthContributor(Electors electors, LeaderProperties properties) {
            Duration threshold = properties.health().threshold();
            Collection<LeaderElector> all = electors.all().values();
            return all.size() == 1
                    ? new LeaderHealthIndicator(all.iterator().next(), threshold)
                    : CompositeHealthContributor.fromMap(
                            electors.all(), elector -> new LeaderHealthIndicator(elector, threshold));
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({InfoContributor.class, ConditionalOnEnabledInfoContributor.class})
    @ConditionalOnEnabledInfoContributor("leader")
    static final class InfoConfiguration {

        @Bean
        @ConditionalOnMissingBean
        LeaderInfoContributor leaderInfoContributor(ListableBeanFactory beanFactory) {
            return new LeaderInfoContributor(electors(beanFactory));
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({Endpoint.class, ConditionalOnAvailableEndpoint.class})
    @ConditionalOnAvailableEndpoint(LeaderEndpoint.class)
    static final class EndpointConfiguration {

        @Bean
        @ConditionalOnMissingBean
        LeaderEndpoint leaderEndpoint(ListableBeanFactory beanFactory) {
            return new LeaderEndpoint(electors(beanFactory));
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterBinder.class)
    static final class MetricsConfiguration {

        @Bean
        @ConditionalOnMissingBean(name = "leaderMetrics")
        MeterBinder leaderMetrics(Electors electors) {
            return registry -> electors.own().forEach(elector -> new LeaderMetrics(elector).bindTo(registry));
        }

        @Bean
        @ConditionalOnBean(LeaderOnlyCalls.class)
        @ConditionalOnMissingBean(name = "leaderOnlyMetrics")
        MeterBinder leaderOnlyMetrics(LeaderOnlyCalls calls) {
            return new LeaderOnlyMetrics(calls);
        }
    }
}
