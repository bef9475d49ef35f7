package dev.pgleader.spring;

import dev.pgleader.ElectorOptions;
import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderElectorGroup;
import dev.pgleader.lock.ConnectionSource;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcConnectionDetails;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.ImportRuntimeHints;
import org.springframework.core.env.Environment;

/**
 * Has the application take part in the elections of {@code pgleader.*}, from the end of its start on until it stops.
 *
 * <p>Each election has a {@link LeaderElector} bean, to be told apart by {@link Election @Election}; all of them belong to one
 * {@link LeaderElectorGroup}, that is, to one connection. Each bean here gives way to one of the same type that the
 * application defines: {@link ElectorOptions}, {@link ConnectionSource}, {@link LeaderElectorGroup}, or the {@link
 * LeaderElector}s themselves, which are then started and stopped in place of those of {@code pgleader.*}.
 */
@AutoConfiguration(after = DataSourceAutoConfiguration.class)
@EnableConfigurationProperties(LeaderProperties.class)
@ImportRuntimeHints(LeaderRuntimeHints.class)
public final class LeaderAutoConfiguration {

    @Bean
    static TakeoverDelayConverter pgLeaderTakeoverDelayConverter() {
        return new TakeoverDelayConverter();
    }

    @Bean
    Electors pgLeaderElectors(ListableBeanFactory beanFactory) {
        return new Electors(beanFactory);
    }

    @Bean
    LeadershipCallbacks pgLeaderCallbacks(
            ConfigurableListableBeanFactory beanFactory, ApplicationContext context, Electors electors) {
        return new LeadershipCallbacks(beanFactory, context, electors);
    }

    @Bean
    ElectionLifecycle pgLeaderLifecycle(
            ApplicationContext context,
            ListableBeanFactory beanFactory,
            Electors electors,
            LeadershipCallbacks callbacks,
            Environment environment) {
        return new ElectionLifecycle(context, beanFactory, electors, callbacks, LeaderMode.of(environment));
    }

    /** What is needed where the application doesn't make its electors itself. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnMissingBean(LeaderElector.class)
    @Import(ElectorRegistrar.class)
    static final class ConfiguredElections {

        @Bean
        @ConditionalOnMissingBean
        ElectorOptions pgLeaderElectorOptions(LeaderProperties properties) {
            try {
                return properties.toOptions();
            } catch (IllegalArgumentException e) {
                throw new LeaderConfigurationException(
                        String.valueOf(e.getMessage()), "Change the values that the message names.", e);
            }
        }

        @Bean(ElectorRegistrar.FACTORY)
        ElectorFactory pgLeaderElectorFactory(
                LeaderElectorGroup group,
                LeaderProperties properties,
                ObjectProvider<LeaderElectorCustomizer> customizers,
                Environment environment) {
            return new ElectorFactory(group, properties, customizers, environment);
        }

        /** What is needed where the application doesn't make the group itself. */
        @Configuration(proxyBeanMethods = false)
        @ConditionalOnMissingBean(LeaderElectorGroup.class)
        static final class ConfiguredGroup {

            @Bean
            @ConditionalOnMissingBean
            @Conditional(LeaderMode.Elects.class)
            ConnectionSource pgLeaderConnectionSource(
                    LeaderProperties properties,
                    ObjectProvider<JdbcConnectionDetails> details,
                    ConfigurableListableBeanFactory beanFactory) {
                return new ConnectionSources(properties.datasource(), details.getIfUnique(), beanFactory).choose();
            }

            @Bean
            LeaderElectorGroup leaderElectorGroup(
                    ObjectProvider<ConnectionSource> source,
                    ElectorOptions options,
                    LeaderProperties properties,
                    Environment environment) {
                LeaderElectorGroup.Builder builder = LeaderElectorGroup.builder()
                        .name(LeaderProperties.applicationName(environment).orElse("application"))
                        .options(options);
                if (LeaderMode.of(environment) == LeaderMode.ELECT) {
                    builder.connectTo(source.getObject());
                } else {
                    builder.sessions(NoDatabase.grantingAll());
                }
                String instanceId = properties.instanceId();
                if (instanceId != null) {
                    setting("pgleader.instance-id", () -> builder.instanceId(instanceId));
                }
                setting("pgleader.spread", () -> properties.toSpread().ifPresent(builder::spread));
                try {
                    return builder.build();
                } catch (IllegalStateException e) {
                    throw new LeaderConfigurationException(
                            String.valueOf(e.getMessage()),
                            "Set pgleader.acquisition-mode to poll, or pgleader.spread.enabled to false.",
                            e);
                }
            }

            private static void setting(String property, Runnable set) {
                try {
                    set.run();
                } catch (IllegalArgumentException e) {
                    throw new LeaderConfigurationException(
                            "The value of " + property + " can't be used: " + e.getMessage(),
                            "Change " + property + ".",
                            e);
                }
            }
        }
    }
}
