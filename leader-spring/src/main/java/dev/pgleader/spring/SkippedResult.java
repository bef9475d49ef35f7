package dev.pgleader.spring;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;

/** What a call returns that isn't made; {@link LeaderOnly} has the table. */
final class SkippedResult {

    private static final Map<Class<?>, Supplier<Object>> EMPTY = Map.ofEntries(
            Map.entry(Optional.class, Optional::empty),
            Map.entry(OptionalInt.class, OptionalInt::empty),
            Map.entry(OptionalLong.class, OptionalLong::empty),
            Map.entry(OptionalDouble.class, OptionalDouble::empty),
            Map.entry(Future.class, SkippedResult::completed),
            Map.entry(CompletionStage.class, SkippedResult::completed),
            Map.entry(CompletableFuture.class, SkippedResult::completed),
            Map.entry(Iterable.class, List::of),
            Map.entry(Collection.class, List::of),
            Map.entry(List.class, List::of),
            Map.entry(Set.class, Set::of),
            Map.entry(Map.class, Map::of),
            Map.entry(Stream.class, Stream::empty));

    private SkippedResult() {}

    static @Nullable Object of(Class<?> returnType) {
        Supplier<Object> empty = EMPTY.get(returnType);
        if (empty != null) {
            return empty.get();
        }
        ReactiveAdapter adapter = ReactiveAdapterRegistry.getSharedInstance().getAdapter(returnType);
        if (adapter == null || !adapter.supportsEmpty()) {
            return null;
        }
        Object nothing = adapter.getDescriptor().getEmptyValue();
        // The adapter may be one for a supertype.
        return returnType.isInstance(nothing) ? nothing : null;
    }

    @SuppressWarnings("FutureReturnValueIgnored") // It can't fail.
    private static Object completed() {
        return CompletableFuture.completedFuture(null);
    }
}
