package dev.pgleader.spring;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.pgleader.LeaderElector;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.Access;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;
import org.springframework.boot.actuate.endpoint.annotation.WriteOperation;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;

/**
 * The actuator endpoint {@code leader}: tells of the elections, and changes this instance's part in them where {@code
 * management.endpoint.leader.access=unrestricted}. Never asks the database.
 */
@Endpoint(id = "leader", defaultAccess = Access.READ_ONLY)
public final class LeaderEndpoint {

    private static final Duration PATIENCE = Duration.ofSeconds(1);
    private static final long POLL_NANOS = TimeUnit.MILLISECONDS.toNanos(5);
    private static final int ACCEPTED = 202;
    private static final int CONFLICT = 409;

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

    /**
     * What came of a command.
     *
     * @param outcome {@code done}, {@code accepted} if it isn't done yet, or {@code refused}
     * @param message what hinders it, if anything does
     * @param elections what this instance knows of each election now, by name
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record Answer(String outcome, @Nullable String message, Map<String, ElectionDescription> elections) {}

    private final Supplier<Collection<LeaderElector>> electors;

    /** An endpoint for these electors, which are looked up at each call. */
    public LeaderEndpoint(Supplier<Collection<LeaderElector>> electors) {
        this.electors = electors;
    }

    /** All elections, as this instance sees them. */
    @ReadOperation
    public Elections elections() {
        return new Elections(describe());
    }

    private Map<String, ElectionDescription> describe() {
        Map<String, ElectionDescription> elections = new LinkedHashMap<>();
        electors.get().forEach(elector -> elections.put(elector.name(), ElectionDescription.of(elector)));
        return elections;
    }

    /**
     * Has this instance do something, and waits a second for that: 200 with the state after it; 202 if callbacks or calls take longer; 400
     * and 409, with a message, if it can't be done.
     *
     * @param action {@code resign}, {@code pause} or {@code resume}
     * @param election where; may be left out if there is one election
     */
    @WriteOperation
    public WebEndpointResponse<Answer> act(@Nullable String action, @Nullable String election) {
        Optional<Action> known = Arrays.stream(Action.values())
                .filter(each -> each.name().equalsIgnoreCase(action))
                .findFirst();
        if (known.isEmpty()) {
            List<String> names = Arrays.stream(Action.values())
                    .map(each -> each.name().toLowerCase(Locale.ROOT))
                    .toList();
            return refused(
                    WebEndpointResponse.STATUS_BAD_REQUEST,
                    "action must be one of " + String.join(", ", names) + ", but is " + action);
        }
        Optional<LeaderElector> elector = find(election);
        if (elector.isEmpty()) {
            List<String> names =
                    electors.get().stream().map(LeaderElector::name).toList();
            return refused(
                    WebEndpointResponse.STATUS_BAD_REQUEST,
                    "election must be one of " + String.join(", ", names) + ", but is " + election);
        }
        return act(known.get(), elector.get());
    }

    private WebEndpointResponse<Answer> act(Action action, LeaderElector elector) {
        CompletableFuture<Void> done = switch (action) {
            case RESIGN -> elector.resign();
            case PAUSE -> elector.pause();
            case RESUME -> resume(elector);
        };
        boolean paused = action == Action.PAUSE;
        long begin = System.nanoTime();
        while (!done.isDone() || (action != Action.RESIGN && elector.status().paused() != paused)) {
            if (done.isCompletedExceptionally() || System.nanoTime() - begin > PATIENCE.toNanos()) {
                break;
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
        if (done.isCompletedExceptionally()) {
            return refused(CONFLICT, "This instance takes no part in the election " + elector.name() + " now");
        }
        boolean isDone =
                done.isDone() && (action == Action.RESIGN || elector.status().paused() == paused);
        return isDone
                ? new WebEndpointResponse<>(new Answer("done", null, describe()))
                : new WebEndpointResponse<>(
                        new Answer("accepted", "Callbacks or leader-only calls haven't ended yet", describe()),
                        ACCEPTED);
    }

    private static CompletableFuture<Void> resume(LeaderElector elector) {
        elector.resume();
        return CompletableFuture.completedFuture(null);
    }

    private WebEndpointResponse<Answer> refused(int status, String message) {
        return new WebEndpointResponse<>(new Answer("refused", message, describe()), status);
    }

    private Optional<LeaderElector> find(@Nullable String election) {
        Collection<LeaderElector> all = electors.get();
        return election == null && all.size() != 1
                ? Optional.empty()
                : all.stream()
                        .filter(elector -> election == null || elector.name().equals(election))
                        .findFirst();
    }
}
