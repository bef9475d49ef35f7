package dev.pgleader.spring;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.support.AopUtils;
import org.springframework.core.MethodClassKey;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.core.annotation.MergedAnnotation;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/** Finds {@link LeaderOnly}: at the method, what it overrides or implements, its class, or its interface. Thread-safe. */
final class LeaderOnlyMethods {

    /**
     * What an annotation says.
     *
     * @param election the election that the method depends on; empty if it isn't named
     * @param onRevoked what to do with calls when the term ends
     * @param atMethod whether it is at the method itself, not at a class or an interface
     */
    record Guard(String election, LeaderOnly.OnRevoked onRevoked, boolean atMethod) {
        static Guard of(MergedAnnotation<LeaderOnly> annotation, boolean atMethod) {
            return new Guard(
                    annotation.getString("value"),
                    annotation.getEnum("onRevoked", LeaderOnly.OnRevoked.class),
                    atMethod);
        }
    }

    private final Map<MethodClassKey, Optional<Guard>> found = new ConcurrentHashMap<>();

    /** What guards {@code method} of {@code targetClass}; null if nothing does. */
    @Nullable
    Guard guardOf(Method method, Class<?> targetClass) {
        if (method.getDeclaringClass() == Object.class
                || !AnnotationUtils.isCandidateClass(targetClass, LeaderOnly.class)) {
            return null;
        }
        return found.computeIfAbsent(new MethodClassKey(method, targetClass), key -> search(method, targetClass))
                .orElse(null);
    }

    /** All methods of the class that are leader-only. */
    Map<Method, Guard> in(Class<?> targetClass) {
        return MethodIntrospector.selectMethods(
                targetClass, (MethodIntrospector.MetadataLookup<Guard>) method -> guardOf(method, targetClass));
    }

    /** Whether the class, or an ancestor of it, has the annotation, which then means all its methods that a proxy can have. */
    static boolean isAtClass(Class<?> targetClass) {
        return MergedAnnotations.from(targetClass, SearchStrategy.SUPERCLASS).isPresent(LeaderOnly.class);
    }

    private static Optional<Guard> search(Method method, Class<?> targetClass) {
        Method specific = AopUtils.getMostSpecificMethod(method, targetClass);
        MergedAnnotation<LeaderOnly> atMethod =
                MergedAnnotations.from(specific, SearchStrategy.TYPE_HIERARCHY).get(LeaderOnly.class);
        if (!atMethod.isPresent()) {
            atMethod = MergedAnnotations.from(method, SearchStrategy.TYPE_HIERARCHY)
                    .get(LeaderOnly.class);
        }
        if (atMethod.isPresent()) {
            return Optional.of(Guard.of(atMethod, true));
        }
        // A type's annotation means what others call: no private helpers, no main(), and not equals() and the like.
        if (!isForOthers(specific, targetClass)) {
            return Optional.empty();
        }
        MergedAnnotation<LeaderOnly> atClass =
                MergedAnnotations.from(targetClass, SearchStrategy.SUPERCLASS).get(LeaderOnly.class);
        return atClass.isPresent() ? Optional.of(Guard.of(atClass, false)) : atInterface(specific, targetClass);
    }

    /** A helper that isn't public is covered where it can be, and otherwise means nothing to others. */
    private static boolean isForOthers(Method method, Class<?> targetClass) {
        int modifiers = method.getModifiers();
        if (Modifier.isStatic(modifiers) || method.isSynthetic() || ReflectionUtils.isObjectMethod(method)) {
            return false;
        }
        return Modifier.isPublic(modifiers)
                || LeaderOnlyRefusal.of(method, targetClass).isEmpty();
    }

    private static Optional<Guard> atInterface(Method method, Class<?> targetClass) {
        for (Class<?> declaring : ClassUtils.getAllInterfacesForClassAsSet(targetClass)) {
            MergedAnnotation<LeaderOnly> annotation = MergedAnnotations.from(declaring, SearchStrategy.TYPE_HIERARCHY)
                    .get(LeaderOnly.class);
            if (annotation.isPresent()
                    && ReflectionUtils.findMethod(declaring, method.getName(), method.getParameterTypes()) != null) {
                return Optional.of(Guard.of(annotation, false));
            }
        }
        return Optional.empty();
    }
}
