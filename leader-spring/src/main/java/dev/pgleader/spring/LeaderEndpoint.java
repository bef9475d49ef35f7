package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.Access;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;
import org.springframework.boot.actuate.endpoint.annotation.WriteOperation;

/**
 * The actuator endpoint {@code leader}: tells of the elections, and changes this instance's part in them where {@code
 * management.endpoint.leader.access=unrestricted}. Never asks the database.
 */
@Endpoint(id = "leader", defaultAccess = Access.READ_ONLY)
public final class LeaderEndpoint {

    /** What this instance can be told to do. */
    public enum Action {
        /** Give leadership up, and let others go first for the cool-down. */
        RESIGN,
        /** Give leadership up, and sit the election out until told to resume. */
        PAUSE,
        /** Compete again. */
        RESUME
    }

    /**
     * The elections.
     *
     * @param elections what this instance knows of each, by name
     */
    public record Elections(Map<String, ElectionDescription> elections) {}

    private final Supplier<Collection<LeaderElector>> electors;

    /** An endpoint for these electors, which are looked up at each call. */
    public LeaderEndpoint(Supplier<Collection<LeaderElector>> electors) {
        this.electors = electors;
    }

    /** All elections, as this instance sees them. */
    @ReadOperation
    public Elections elections() {
        Map<String, ElectionDescription> elections = new LinkedHashMap<>();
        electors.get().forEach(elector -> elections.put(elector.name(), ElectionDescription.of(elector)));
        return new Elections(elections);
    }

    /**
     * Has this instance do something, and returns at once: leadership is given up when its callbacks have returned.
     *
     * @param action what to do
     * @param election where; may be left out if there is one election
     */
    @WriteOperation
    public Elections act(Action action, @Nullable String election) {
        LeaderElector elector = find(election);
        switch (action) {
            case RESIGN -> {
                var unused = elector.resign();
            }
            case PAUSE -> {
                var unused = elector.pause();
            }
            case RESUME -> elector.resume();
        }
        return elections();
    }

    private LeaderElector find(@Nullable String election) {
        Map<String, LeaderElector> byName = new LinkedHashMap<>();
        electors.get().forEach(elector -> byName.put(elector.name(), elector));
        LeaderElector only = election == null && byName.size() == 1
                ? byName.values().iterator().next()
                : null;
        LeaderElector meant = election == null ? only : byName.get(election);
        if (meant == null) {
            String names = String.join(", ", byName.keySet());
            throw new InvalidEndpointRequestException(
                    "There is no election " + election + " among " + names, "election must be one of " + names);
        }
        return meant;
    }
}
