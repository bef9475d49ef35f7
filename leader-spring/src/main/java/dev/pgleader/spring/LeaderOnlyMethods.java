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
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.core.annotation.MergedAnnotation;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/** Finds {@link LeaderOnly}: at the method, what it overrides or implements, its class, or its interface. Thread-safe. */
final class LeaderOnlyMethods {

    private final Map<MethodClassKey, Optional<LeaderOnly>> found = new ConcurrentHashMap<>();

    /** The annotation that holds for {@code method} of {@code targetClass}; null if none does. */
    @Nullable
    LeaderOnly annotationOf(Method method, Class<?> targetClass) {
        if (method.getDeclaringClass() == Object.class
                || !AnnotationUtils.isCandidateClass(targetClass, LeaderOnly.class)) {
            return null;
        }
        return found.computeIfAbsent(
                        new MethodClassKey(method, targetClass), key -> Optional.ofNullable(search(method, targetClass)))
                .orElse(null);
    }

    /** All methods of the class that are leader-only, with the annotation that says so. */
    Map<Method, LeaderOnly> in(Class<?> targetClass) {
        return MethodIntrospector.selectMethods(
                targetClass, (MethodIntrospector.MetadataLookup<LeaderOnly>) method -> annotationOf(method, targetClass));
    }

    private static @Nullable LeaderOnly search(Method method, Class<?> targetClass) {
        Method specific = AopUtils.getMostSpecificMethod(method, targetClass);
        LeaderOnly atMethod = AnnotatedElementUtils.findMergedAnnotation(specific, LeaderOnly.class);
        if (atMethod == null && !specific.equals(method)) {
            atMethod = AnnotatedElementUtils.findMergedAnnotation(method, LeaderOnly.class);
        }
        if (atMethod != null) {
            return atMethod;
        }
        // A type's annotation means what others call: no private helpers, no main(), and not equals() and the like.
        if (!Modifier.isPublic(specific.getModifiers())
                || Modifier.isStatic(specific.getModifiers())
                || ReflectionUtils.isObjectMethod(specific)) {
            return null;
        }
        MergedAnnotation<LeaderOnly> atClass =
                MergedAnnotations.from(targetClass, SearchStrategy.SUPERCLASS).get(LeaderOnly.class);
        return atClass.isPresent() ? atClass.synthesize() : atInterface(specific, targetClass);
    }

    private static @Nullable LeaderOnly atInterface(Method method, Class<?> targetClass) {
        for (Class<?> declaring : ClassUtils.getAllInterfacesForClassAsSet(targetClass)) {
            MergedAnnotation<LeaderOnly> annotation = MergedAnnotations.from(declaring, SearchStrategy.TYPE_HIERARCHY)
                    .get(LeaderOnly.class);
            if (annotation.isPresent()
                    && ReflectionUtils.findMethod(declaring, method.getName(), method.getParameterTypes()) != null) {
                return annotation.synthesize();
            }
        }
        return null;
    }
}
