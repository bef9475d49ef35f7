package dev.pgleader.spring;

import org.springframework.aop.config.AopConfigUtils;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.ImportBeanDefinitionRegistrar;
import org.springframework.context.annotation.Role;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotationMetadata;

/**
 * Makes {@link LeaderOnly} work. Also where this instance takes part in no election ({@code pgleader.enabled=false}): there
 * leader-only methods never run.
 */
@AutoConfiguration(after = AopAutoConfiguration.class)
@Import(LeaderOnlyAutoConfiguration.ProxyCreatorRegistrar.class)
public final class LeaderOnlyAutoConfiguration {

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static LeaderOnlyMethods pgLeaderOnlyMethods() {
        return new LeaderOnlyMethods();
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static LeaderOnlyCalls pgLeaderOnlyCalls(
            ConfigurableListableBeanFactory beanFactory, Environment environment, LeaderOnlyMethods methods) {
        return new LeaderOnlyCalls(beanFactory, environment, methods);
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static LeaderOnlyAdvisor pgLeaderOnlyAdvisor(LeaderOnlyMethods methods, LeaderOnlyCalls calls) {
        return new LeaderOnlyAdvisor(methods, calls);
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static LeaderOnlyCheck pgLeaderOnlyCheck(
            ConfigurableListableBeanFactory beanFactory, LeaderOnlyMethods methods, LeaderOnlyCalls calls) {
        return new LeaderOnlyCheck(beanFactory, methods, calls);
    }

    /** Sees to it that proxies are made, also with {@code spring.aop.auto=false}. */
    static final class ProxyCreatorRegistrar implements ImportBeanDefinitionRegistrar {

        @Override
        public void registerBeanDefinitions(AnnotationMetadata importing, BeanDefinitionRegistry registry) {
            AopConfigUtils.registerAutoProxyCreatorIfNecessary(registry);
        }
    }
}
