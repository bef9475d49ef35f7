package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.LeaderElectorGroup;
import dev.pgleader.spring.LeaderProperties.Candidature;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.core.env.Environment;

/** Makes the elector beans. */
final class ElectorFactory {

    private final LeaderElectorGroup group;
    private final LeaderProperties properties;
    private final ObjectProvider<LeaderElectorCustomizer> customizers;
    private final Environment environment;

    ElectorFactory(
            LeaderElectorGroup group,
            LeaderProperties properties,
            ObjectProvider<LeaderElectorCustomizer> customizers,
            Environment environment) {
        this.group = group;
        this.properties = properties;
        this.customizers = customizers;
        this.environment = environment;
    }

    LeaderElector create(String election) {
        Candidature candidature = properties.candidatures(environment).get(election);
        if (candidature == null) {
            throw new LeaderConfigurationException(
                    "The election \"" + election + "\" was configured when the application was built, and isn't now.",
                    "The names of the elections are fixed at build time where the application is processed ahead of time:"
                            + " configure the same ones, or build it anew.");
        }
        LeaderElectorGroup.MemberBuilder builder =
                group.elector(candidature.key()).name(election).paused(candidature.paused());
        customizers.orderedStream().forEach(customizer -> customizer.customize(election, builder));
        return builder.build();
    }
}
