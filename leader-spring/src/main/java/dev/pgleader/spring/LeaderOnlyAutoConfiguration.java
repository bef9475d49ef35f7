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
    static LeaderOnlyElectors pgLeaderOnlyElectors(ConfigurableListableBeanFactory beanFactory) {
        return new LeaderOnlyElectors(beanFactory);
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static LeaderOnlyAdvisor pgLeaderOnlyAdvisor(LeaderOnlyMethods methods, LeaderOnlyElectors electors) {
        return new LeaderOnlyAdvisor(methods, electors);
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static LeaderOnlyCheck pgLeaderOnlyCheck(
            ConfigurableListableBeanFactory beanFactory, LeaderOnlyMethods methods, LeaderOnlyElectors electors) {
        return new LeaderOnlyCheck(beanFactory, methods, electors);
    }

    /** Sees to it that proxies are made, also with {@code spring.aop.auto=false}. */
    static final class ProxyCreatorRegistrar implements ImportBeanDefinitionRegistrar {

        @Override
        public void registerBeanDefinitions(AnnotationMetadata importing, BeanDefinitionRegistry registry) {
            AopConfigUtils.registerAutoProxyCreatorIfNecessary(registry);
        }
    }
}
