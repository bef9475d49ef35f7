package dev.pgleader.spring;

import java.util.Arrays;
import java.util.List;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotatedTypeMetadata;

/** How it is decided who leads: {@code pgleader.mode}. */
public enum LeaderMode {
    /** By the lock in PostgreSQL. */
    ELECT,
    /** This instance leads, without a database and without asking anybody: for development and tests on one machine. */
    ALWAYS_LEADER,
    /** This instance never leads, and connects nowhere. */
    NEVER_LEADER;

    private static final String PRODUCTION_PROFILES = "pgleader.production-profiles";

    /**
     * What is configured; {@link #NEVER_LEADER} with {@code pgleader.enabled=false}.
     *
     * @throws LeaderConfigurationException if every instance would lead in production
     */
    static LeaderMode of(Environment environment) {
        Binder binder = Binder.get(environment);
        if (!binder.bind("pgleader.enabled", Boolean.class).orElse(true)) {
            return NEVER_LEADER;
        }
        LeaderMode mode = binder.bind("pgleader.mode", LeaderMode.class).orElse(ELECT);
        List<String> production = binder.bind(PRODUCTION_PROFILES, Bindable.listOf(String.class))
                .orElse(LeaderProperties.PRODUCTION_PROFILES);
        List<String> active = Arrays.stream(environment.getActiveProfiles())
                .filter(production::contains)
                .toList();
        if (mode == ALWAYS_LEADER && !active.isEmpty()) {
            throw new LeaderConfigurationException(
                    "pgleader.mode is always-leader, with which every instance leads, and the profile "
                            + String.join(", ", active) + " is one for production.",
                    "Set pgleader.mode to elect there; or, if the profile isn't for production, change "
                            + PRODUCTION_PROFILES + ", which names those that are.");
        }
        return mode;
    }

    /** Holds where the lock decides. */
    static final class Elects implements Condition {

        @Override
        public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
            return of(context.getEnvironment()) == ELECT;
        }
    }
}
