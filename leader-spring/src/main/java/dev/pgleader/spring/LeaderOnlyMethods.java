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

    private final Map<MethodClassKey, Optional<String>> found = new ConcurrentHashMap<>();

    /** The election that {@code method} of {@code targetClass} depends on, empty if it isn't named; null if on none. */
    @Nullable
    String electionOf(Method method, Class<?> targetClass) {
        if (method.getDeclaringClass() == Object.class
                || !AnnotationUtils.isCandidateClass(targetClass, LeaderOnly.class)) {
            return null;
        }
        return found.computeIfAbsent(
                        new MethodClassKey(method, targetClass),
                        key -> search(method, targetClass).map(annotation -> annotation.getString("value")))
                .orElse(null);
    }

    /** All methods of the class that are leader-only, with their election. */
    Map<Method, String> in(Class<?> targetClass) {
        return MethodIntrospector.selectMethods(
                targetClass, (MethodIntrospector.MetadataLookup<String>) method -> electionOf(method, targetClass));
    }

    private static Optional<MergedAnnotation<LeaderOnly>> search(Method method, Class<?> targetClass) {
        Method specific = AopUtils.getMostSpecificMethod(method, targetClass);
        MergedAnnotation<LeaderOnly> atMethod =
                MergedAnnotations.from(specific, SearchStrategy.TYPE_HIERARCHY).get(LeaderOnly.class);
        if (!atMethod.isPresent()) {
            atMethod = MergedAnnotations.from(method, SearchStrategy.TYPE_HIERARCHY)
                    .get(LeaderOnly.class);
        }
        if (atMethod.isPresent()) {
            return Optional.of(atMethod);
        }
        // A type's annotation means what others call: no private helpers, no main(), and not equals() and the like.
        if (!Modifier.isPublic(specific.getModifiers())
                || Modifier.isStatic(specific.getModifiers())
                || ReflectionUtils.isObjectMethod(specific)) {
            return Optional.empty();
        }
        MergedAnnotation<LeaderOnly> atClass =
                MergedAnnotations.from(targetClass, SearchStrategy.SUPERCLASS).get(LeaderOnly.class);
        return atClass.isPresent() ? Optional.of(atClass) : atInterface(specific, targetClass);
    }

    private static Optional<MergedAnnotation<LeaderOnly>> atInterface(Method method, Class<?> targetClass) {
        for (Class<?> declaring : ClassUtils.getAllInterfacesForClassAsSet(targetClass)) {
            MergedAnnotation<LeaderOnly> annotation = MergedAnnotations.from(declaring, SearchStrategy.TYPE_HIERARCHY)
                    .get(LeaderOnly.class);
            if (annotation.isPresent()
                    && ReflectionUtils.findMethod(declaring, method.getName(), method.getParameterTypes()) != null) {
                return Optional.of(annotation);
            }
        }
        return Optional.empty();
    }
}
