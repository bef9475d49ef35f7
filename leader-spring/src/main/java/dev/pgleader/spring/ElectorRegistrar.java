package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.spring.LeaderProperties.ElectionProperties;
import java.util.Map;
import java.util.Set;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.beans.factory.support.AutowireCandidateQualifier;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.context.annotation.ImportBeanDefinitionRegistrar;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotationMetadata;

/** Defines one {@link LeaderElector} bean for each configured election. */
final class ElectorRegistrar implements ImportBeanDefinitionRegistrar {

    static final String FACTORY = "pgLeaderElectorFactory";
    private static final String SUFFIX = "LeaderElector";

    private final Environment environment;

    ElectorRegistrar(Environment environment) {
        this.environment = environment;
    }

    @Override
    public void registerBeanDefinitions(AnnotationMetadata importing, BeanDefinitionRegistry registry) {
        Binder binder = Binder.get(environment);
        String key = binder.bind("pgleader.key", String.class).orElse(null);
        Map<String, ElectionProperties> elections = binder.bind(
                        "pgleader.elections", Bindable.mapOf(String.class, ElectionProperties.class))
                .orElseGet(Map::of);
        Set<String> names =
                LeaderProperties.candidatures(key, elections, environment).keySet();
        for (String name : names) {
            boolean isDefault = !elections.containsKey(name);
            registry.registerBeanDefinition(isDefault ? "leaderElector" : name + SUFFIX, definition(name, isDefault));
        }
    }

    private static RootBeanDefinition definition(String name, boolean primary) {
        RootBeanDefinition definition = new RootBeanDefinition(LeaderElector.class);
        definition.setFactoryBeanName(FACTORY);
        definition.setFactoryMethodName("create");
        definition.getConstructorArgumentValues().addIndexedArgumentValue(0, name);
        // The lifecycle and the group see it off.
        definition.setDestroyMethodName("");
        definition.setPrimary(primary);
        definition.addQualifier(new AutowireCandidateQualifier(Election.class, name));
        definition.addQualifier(new AutowireCandidateQualifier(Qualifier.class, name));
        return definition;
    }
}
