package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import java.lang.reflect.Method;
import java.util.Optional;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;

/** The elector that {@link LeaderOnly} means. Touches no bean before it is asked: proxies are made before most beans. */
final class LeaderOnlyElectors {

    private final ConfigurableListableBeanFactory beanFactory;
    private final Electors electors;

    LeaderOnlyElectors(ConfigurableListableBeanFactory beanFactory) {
        this.beanFactory = beanFactory;
        this.electors = new Electors(beanFactory);
    }

    /** The elector of an election that may have placeholders; empty if this instance takes part in none. */
    Optional<LeaderElector> find(String election, Method method) {
        return electors.find(
                String.valueOf(beanFactory.resolveEmbeddedValue(election)), "@LeaderOnly at " + describe(method));
    }

    static String describe(Method method) {
        return method.getDeclaringClass().getName() + "." + method.getName() + "()";
    }
}
