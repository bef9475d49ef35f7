package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import dev.pgleader.spring.LeaderOnlyMethods.Guard;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.MethodClassKey;
import org.springframework.core.env.Environment;

/**
 * The {@link LeaderOnly} methods of the application, with what becomes of their calls. Touches no bean before it is asked: proxies are made
 * before most beans. Thread-safe.
 */
final class LeaderOnlyCalls {

    private static final String ON_REVOKED = "pgleader.leader-only.on-revoked";

    private final ConfigurableListableBeanFactory beanFactory;
    private final Environment environment;
    private final LeaderOnlyMethods methods;
    private final Electors electors;
    private final Map<MethodClassKey, Optional<LeaderOnlyMethod>> known = new ConcurrentHashMap<>();
    private final Map<String, LeaderOnlyMethod> byName = new ConcurrentHashMap<>();
    private final List<Consumer<LeaderOnlyMethod>> watchers = new CopyOnWriteArrayList<>();

    LeaderOnlyCalls(ConfigurableListableBeanFactory beanFactory, Environment environment, LeaderOnlyMethods methods) {
        this.beanFactory = beanFactory;
        this.environment = environment;
        this.methods = methods;
        this.electors = new Electors(beanFactory);
    }

    /** The method, if it is leader-only, with the elector that it depends on; null if anybody may call it. */
    @Nullable
    LeaderOnlyMethod of(Method method, Class<?> targetClass) {
        MethodClassKey key = new MethodClassKey(method, targetClass);
        Optional<LeaderOnlyMethod> found = known.get(key);
        if (found == null) {
            // Not under a lock of the map: beans may be made, and ask the same.
            found = Optional.ofNullable(methods.guardOf(method, targetClass)).map(guard -> register(method, guard));
            known.put(key, found);
        }
        return found.orElse(null);
    }

    private LeaderOnlyMethod register(Method method, Guard guard) {
        String election = String.valueOf(beanFactory.resolveEmbeddedValue(guard.election()));
        LeaderElector elector = electors.find(election, "@LeaderOnly at " + describe(method) + "()")
                .orElse(null);
        boolean interruptible = switch (guard.onRevoked()) {
            case INTERRUPT -> true;
            case LET_END -> false;
            case AS_CONFIGURED ->
                environment.getProperty(ON_REVOKED, LeaderOnly.OnRevoked.class, LeaderOnly.OnRevoked.LET_END)
                        == LeaderOnly.OnRevoked.INTERRUPT;
        };
        String name = describe(method);
        // Methods of the same name, and the same method in several beans, are counted together.
        String identity = name + " " + interruptible + " " + election;
        LeaderOnlyMethod added = new LeaderOnlyMethod(name, elector, interruptible);
        LeaderOnlyMethod before = byName.putIfAbsent(identity, added);
        if (before != null) {
            return before;
        }
        added.watchCutOffs();
        watchers.forEach(watcher -> watcher.accept(added));
        return added;
    }

    /** Tells of each method that is known now or later, some perhaps twice. */
    void watch(Consumer<LeaderOnlyMethod> watcher) {
        watchers.add(watcher);
        byName.values().forEach(watcher);
    }

    static String describe(Method method) {
        return method.getDeclaringClass().getName() + "." + method.getName();
    }
}
