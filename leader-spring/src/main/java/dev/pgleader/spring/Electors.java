package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.ListableBeanFactory;

/** The elector beans of a context by the name of their election; looked up when they are first needed. */
final class Electors {

    private final ListableBeanFactory beanFactory;
    private volatile @Nullable Map<String, LeaderElector> byElection;

    Electors(ListableBeanFactory beanFactory) {
        this.beanFactory = beanFactory;
    }

    /** Those of this context, without those of its ancestors: they are for this context to start and to stop. */
    Collection<LeaderElector> own() {
        return beanFactory.getBeansOfType(LeaderElector.class).values();
    }

    /** All of them, those of ancestors of the context too, by name. */
    Map<String, LeaderElector> all() {
        Map<String, LeaderElector> known = byElection;
        if (known == null) {
            Map<String, LeaderElector> found = new LinkedHashMap<>();
            beanFactory.getBeanProvider(LeaderElector.class).orderedStream().forEach(elector -> {
                LeaderElector other = found.put(elector.name(), elector);
                if (other != null) {
                    throw new LeaderConfigurationException(
                            "There are two LeaderElector beans with the name \"" + elector.name() + "\", for "
                                    + other.key() + " and " + elector.key() + ".",
                            "Give one of them another name.");
                }
            });
            known = found;
            byElection = known;
        }
        return known;
    }

    /**
     * The elector that {@code use} means.
     *
     * @param election its name; empty for the only one or the primary one
     * @param use what names it, for the message
     * @return empty if this application takes part in no election
     * @throws LeaderConfigurationException if there is no such election
     */
    Optional<LeaderElector> find(String election, String use) {
        Map<String, LeaderElector> known = all();
        if (known.isEmpty()) {
            return Optional.empty();
        }
        if (election.isEmpty()) {
            LeaderElector unique =
                    beanFactory.getBeanProvider(LeaderElector.class).getIfUnique();
            if (unique == null) {
                throw new LeaderConfigurationException(
                        use + " names no election, and there are several: " + String.join(", ", known.keySet()) + ".",
                        "Name one of them in the annotation.");
            }
            return Optional.of(unique);
        }
        LeaderElector named = known.get(election);
        if (named == null) {
            throw new LeaderConfigurationException(
                    use + " names the election \"" + election + "\", which doesn't exist.",
                    "Name one of " + String.join(", ", known.keySet()) + ", or configure it: pgleader.elections."
                            + election + ".key=my-service/" + election);
        }
        return Optional.of(named);
    }
}
