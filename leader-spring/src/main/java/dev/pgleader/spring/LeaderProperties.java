package dev.pgleader.spring;

import dev.pgleader.AcquisitionMode;
import dev.pgleader.ElectorOptions;
import dev.pgleader.Spread;
import dev.pgleader.TakeoverDelay;
import dev.pgleader.lock.LockKey;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.core.env.Environment;

/**
 * The configuration of all elections of the application. Immutable.
 *
 * @param enabled Whether this instance takes part in elections. If not, it connects nowhere, and what is leader-only never
 *     runs here.
 * @param mode How it is decided who leads: elect, by the lock in PostgreSQL; always-leader, without a database and without asking
 *     anybody, for development and tests; never-leader, as with enabled=false.
 * @param productionProfiles Profiles with which the mode always-leader is refused.
 * @param key What the instances compete for; unique within the database. By default the application's name, unless
 *     elections are named in pgleader.elections. Takes a name, or bigint:42 or int4:4,2 for a key that is a number.
 * @param elections Further elections by name, each with its key, and paused if this instance is to sit it out until told to resume.
 * @param instanceId Who this instance is among the candidates: up to 53 printable ASCII characters without space. By
 *     default made of host name, process id and a random number.
 * @param datasource Where the lock is, if not where the application's data are.
 * @param leaseDuration After this time without a check the server ends the leader's session, which frees the lock.
 * @param safetyMargin By how much a leader stops trusting itself before the server can give the lock away. By default a
 *     tenth of the lease duration, at least 500 ms.
 * @param healthCheckInterval Time between two checks of the session that holds the lock.
 * @param healthCheckTimeout Bound of each round trip to the server, and of the connect.
 * @param retryInterval Time between two tries of a candidate for the lock.
 * @param retryJitter By which part of itself the retry interval varies at random, in either direction.
 * @param acquisitionMode How a candidate comes by the lock: poll, or queue to wait for it inside the server.
 * @param queueSlice Longest time for which a candidate that queues waits inside the server. By default 2 s, or a quarter of
 *     the lease duration if that is less.
 * @param maxReconnectDelay Longest time between two attempts to connect.
 * @param revokeTimeout Longest time that a voluntary exit waits for the callbacks before the lock is released.
 * @param coolDown How long an instance that resigned lets others go first. By default twice the retry interval.
 * @param takeoverDelay How long a new leader waits after the server restarted or failed over: auto, none or a duration.
 * @param unenforcedLeaseAccepted Whether to lead on a server that refuses idle_session_timeout, where a leader that
 *     vanishes keeps the lock for hours.
 * @param spread How the leaderships of several elections settle over the instances.
 * @param remoteResignation Whether an instance that leads resigns when another session of the same role, or of a superuser, asks for
 *     it.
 * @param leaderOnly How @LeaderOnly methods behave.
 * @param health When the health indicator reports a problem.
 */
@ConfigurationProperties("pgleader")
public record LeaderProperties(
        @DefaultValue("true") boolean enabled,
        @DefaultValue("elect") LeaderMode mode,
        @DefaultValue({"prod", "production"}) List<String> productionProfiles,
        @Nullable String key,
        @DefaultValue Map<String, ElectionProperties> elections,
        @Nullable String instanceId,
        @DefaultValue DatasourceProperties datasource,
        @DefaultValue("15s") Duration leaseDuration,
        @Nullable Duration safetyMargin,
        @DefaultValue("3s") Duration healthCheckInterval,
        @DefaultValue("3s") Duration healthCheckTimeout,
        @DefaultValue("1s") Duration retryInterval,
        @DefaultValue("0.2") double retryJitter,
        @DefaultValue("poll") AcquisitionMode acquisitionMode,
        @Nullable Duration queueSlice,
        @DefaultValue("5s") Duration maxReconnectDelay,
        @DefaultValue("15s") Duration revokeTimeout,
        @Nullable Duration coolDown,
        @DefaultValue("auto") TakeoverDelay takeoverDelay,
        @DefaultValue("false") boolean unenforcedLeaseAccepted,
        @DefaultValue("true") boolean remoteResignation,
        @DefaultValue SpreadProperties spread,
        @DefaultValue LeaderOnlyProperties leaderOnly,
        @DefaultValue HealthProperties health) {

    static final List<String> PRODUCTION_PROFILES = List.of("prod", "production");

    private static final List<String> OPTION_NAMES = List.of(
            "leaseDuration",
            "safetyMargin",
            "healthCheckInterval",
            "healthCheckTimeout",
            "retryInterval",
            "retryJitter",
            "acquisitionMode",
            "queueSlice",
            "maxReconnectDelay",
            "revokeTimeout",
            "coolDown",
            "takeoverDelay");

    /**
     * One of several elections.
     *
     * @param key What the instances compete for; unique within the database. Takes a name, or bigint:42 or int4:4,2 for a
     *     key that is a number.
     * @param paused Whether this instance sits the election out until it is told to resume.
     */
    public record ElectionProperties(
            @Nullable String key, @DefaultValue("false") boolean paused) {}

    /**
     * The database of the lock. What isn't set is taken from the application's connection.
     *
     * @param bean Name of the DataSource bean whose database has the lock, where there are several.
     * @param url JDBC URL of the PostgreSQL that has the lock, for instance past a pooler.
     * @param username User to log in as.
     * @param password Password of that user.
     */
    public record DatasourceProperties(
            @Nullable String bean,
            @Nullable String url,
            @Nullable String username,
            @Nullable String password) {

        @Override
        public String toString() {
            return "DatasourceProperties[username=" + username + "]";
        }
    }

    /**
     * How leaderships spread.
     *
     * @param enabled Whether the leaderships settle evenly over the instances; if not, the first instance takes all.
     * @param time The time after which an instance that is alone leads everywhere. By default twice the retry interval.
     * @param rebalanceInterval How often an instance that leads more than its share resigns one leadership. By default
     *     never.
     */
    public record SpreadProperties(
            @DefaultValue("false") boolean enabled,
            @Nullable Duration time,
            @Nullable Duration rebalanceInterval) {}

    /**
     * How leader-only methods behave.
     *
     * @param onRevoked What to do with calls in flight when the term ends, unless the annotation says so: let-end or interrupt.
     */
    public record LeaderOnlyProperties(
            @DefaultValue("let-end") LeaderOnly.OnRevoked onRevoked) {}

    /**
     * When health turns bad.
     *
     * @param threshold How long the election may go without a database that can be reached and trusted.
     */
    public record HealthProperties(@DefaultValue("60s") Duration threshold) {}

    /**
     * The options of the electors.
     *
     * @throws IllegalArgumentException if values contradict each other; the message has the names of the properties
     */
    public ElectorOptions toOptions() {
        ElectorOptions.Builder builder = ElectorOptions.builder()
                .leaseDuration(leaseDuration)
                .healthCheckInterval(healthCheckInterval)
                .healthCheckTimeout(healthCheckTimeout)
                .retryInterval(retryInterval)
                .retryJitter(retryJitter)
                .acquisitionMode(acquisitionMode)
                .maxReconnectDelay(maxReconnectDelay)
                .revokeTimeout(revokeTimeout)
                .takeoverDelay(takeoverDelay)
                .unenforcedLeaseAccepted(unenforcedLeaseAccepted)
                .remoteResignation(remoteResignation);
        if (safetyMargin != null) {
            builder.safetyMargin(safetyMargin);
        }
        if (queueSlice != null) {
            builder.queueSlice(queueSlice);
        }
        if (coolDown != null) {
            builder.coolDown(coolDown);
        }
        try {
            return builder.build();
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(withPropertyNames(String.valueOf(e.getMessage())), e);
        }
    }

    private static String withPropertyNames(String message) {
        String named = message;
        for (String option : OPTION_NAMES) {
            named = named.replaceAll("\\b" + option + "\\b", "pgleader." + kebab(option));
        }
        return named;
    }

    private static String kebab(String camel) {
        return camel.replaceAll("([A-Z])", "-$1").toLowerCase(Locale.ROOT);
    }

    /**
     * How leaderships spread over the instances; empty if the first that comes takes all.
     *
     * @throws IllegalArgumentException if a time is out of range
     */
    Optional<Spread> toSpread() {
        if (!spread.enabled()) {
            return Optional.empty();
        }
        Spread chosen = spread.time() == null ? Spread.evenly() : Spread.over(spread.time());
        return Optional.of(
                spread.rebalanceInterval() == null ? chosen : chosen.rebalanceEvery(spread.rebalanceInterval()));
    }

    /** The elections by name, the one of {@link #key} first. */
    Map<String, Candidature> candidatures(Environment environment) {
        return candidatures(key, elections, environment);
    }

    static Map<String, Candidature> candidatures(
            @Nullable String key, Map<String, ElectionProperties> elections, Environment environment) {
        Map<String, Candidature> candidatures = new LinkedHashMap<>();
        String defaultKey = defaultKey(key, elections.isEmpty(), environment);
        if (defaultKey != null) {
            String property = key == null || key.isBlank() ? "spring.application.name" : "pgleader.key";
            candidatures.put(defaultKey, new Candidature(lockKey(property, defaultKey), false));
        }
        elections.forEach((name, election) -> {
            String property = "pgleader.elections." + name + ".key";
            if (election.key() == null) {
                throw new LeaderConfigurationException(
                        "The election \"" + name + "\" has no key.",
                        "Set " + property + " to what its instances compete for, for instance " + property
                                + "=my-service/" + name + ".");
            }
            Candidature named = new Candidature(lockKey(property, election.key()), election.paused());
            if (candidatures.put(name, named) != null) {
                throw new LeaderConfigurationException(
                        "There are two elections named \"" + name
                                + "\": one of pgleader.elections, and that of pgleader.key,"
                                + " which is named after its key.",
                        "Remove pgleader.key, or rename one of them.");
            }
        });
        return candidatures;
    }

    private static @Nullable String defaultKey(@Nullable String key, boolean required, Environment environment) {
        if (key != null && !key.isBlank()) {
            return key;
        }
        if (!required) {
            return null;
        }
        Optional<String> applicationName = applicationName(environment);
        if (applicationName.isEmpty() && LeaderMode.of(environment) != LeaderMode.ELECT) {
            return "application";
        }
        if (applicationName.isEmpty()) {
            throw new LeaderConfigurationException(
                    "It isn't known what the instances of this application compete for: neither pgleader.key nor"
                            + " spring.application.name is set.",
                    "Set spring.application.name, or set pgleader.key to a name that is unique within the database,"
                            + " for instance pgleader.key=my-service. With pgleader.enabled=false this instance takes"
                            + " no part in elections.");
        }
        return applicationName.get();
    }

    static Optional<String> applicationName(Environment environment) {
        return Optional.ofNullable(environment.getProperty("spring.application.name"))
                .filter(name -> !name.isBlank());
    }

    private static LockKey lockKey(String property, String text) {
        try {
            boolean number = text.startsWith("bigint:") || text.startsWith("int4:");
            return number ? LockKey.parse(text) : LockKey.named(text);
        } catch (IllegalArgumentException e) {
            throw new LeaderConfigurationException(
                    property + " is \"" + text + "\", which is no key: " + e.getMessage(),
                    "Set " + property + " to a name that is unique within the database, or to bigint:<number> or"
                            + " int4:<number>,<number>.",
                    e);
        }
    }

    /** What an election is about, as far as it is configured. */
    record Candidature(LockKey key, boolean paused) {}
}
