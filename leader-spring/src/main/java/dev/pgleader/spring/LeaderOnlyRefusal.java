package dev.pgleader.spring;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.Aware;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.FactoryBean;
import org.springframework.beans.factory.InitializingBean;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.support.AbstractBeanDefinition;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.context.event.ApplicationReadyEvent;
import org.springframework.boot.context.event.ApplicationStartedEvent;
import org.springframework.context.ApplicationListener;
import org.springframework.context.Lifecycle;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.event.ContextClosedEvent;
import org.springframework.context.event.ContextRefreshedEvent;
import org.springframework.context.event.ContextStartedEvent;
import org.springframework.context.event.ContextStoppedEvent;
import org.springframework.context.event.EventListener;
import org.springframework.core.ResolvableType;
import org.springframework.core.annotation.MergedAnnotation;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.util.ClassUtils;

/**
 * Why {@link LeaderOnly} can't work at a method.
 *
 * @param why the reason, to follow the method's name and a colon
 * @param action what to do about it
 */
record LeaderOnlyRefusal(String why, String action) {

    /** What Spring calls on the bean itself, past its proxy, so that it would run on every instance. */
    private static final List<Class<?>> CALLED_PAST_THE_PROXY =
            List.of(InitializingBean.class, DisposableBean.class, Aware.class);

    /** The annotations for that, by name, since not all of them are on every class path. */
    private static final List<String> CALLED_PAST_THE_PROXY_BY = List.of(
            "jakarta.annotation.PostConstruct",
            "jakarta.annotation.PreDestroy",
            "javax.annotation.PostConstruct",
            "javax.annotation.PreDestroy",
            "org.springframework.context.annotation.Bean");

    /** The annotations for methods that only take what the container has for them; those of a class are to run everywhere. */
    private static final List<String> INJECTING = List.of(
            "jakarta.annotation.Resource",
            "jakarta.inject.Inject",
            "jakarta.persistence.PersistenceContext",
            "jakarta.persistence.PersistenceUnit",
            "javax.annotation.Resource",
            "javax.inject.Inject",
            "org.springframework.beans.factory.annotation.Autowired",
            "org.springframework.beans.factory.annotation.Lookup",
            "org.springframework.beans.factory.annotation.Value");

    private static final String SPRING = "org.springframework.";

    /** What is called once, before this instance can lead, or when it doesn't any more: it would run nowhere. */
    private static final List<Class<?>> CALLED_TOO_EARLY = List.of(
            ApplicationRunner.class,
            CommandLineRunner.class,
            SmartInitializingSingleton.class,
            SmartLifecycle.class,
            Lifecycle.class,
            FactoryBean.class);

    private static final List<Class<?>> EARLY_EVENTS = List.of(
            ContextRefreshedEvent.class,
            ContextStartedEvent.class,
            ApplicationStartedEvent.class,
            ApplicationReadyEvent.class);

    private static final List<Class<?>> LATE_EVENTS = List.of(ContextClosedEvent.class, ContextStoppedEvent.class);

    private static final String TO_ELECTED =
            "Do it in an @EventListener(LeaderElectedEvent.class) method, which is called whenever this instance is elected.";

    /** What keeps a proxy from standing before the method, whoever calls it. */
    static Optional<LeaderOnlyRefusal> of(Method method, Class<?> type) {
        int modifiers = method.getModifiers();
        Class<?> returnType = method.getReturnType();
        if (returnType.isPrimitive() && returnType != void.class) {
            return refusal(
                    "it returns " + returnType + ", and a skipped call has no " + returnType + " to return",
                    "Return Optional<"
                            + ClassUtils.resolvePrimitiveIfNecessary(returnType).getSimpleName()
                            + "> or void, or take the annotation away and ask LeaderElector.isLeader() in the method.");
        }
        if (Modifier.isPrivate(modifiers) || Modifier.isStatic(modifiers) || Modifier.isFinal(modifiers)) {
            String kind = Modifier.isPrivate(modifiers) ? "private" : Modifier.isStatic(modifiers) ? "static" : "final";
            return refusal(
                    "it is " + kind + ", so no proxy can stand before it and it would run on every instance",
                    "Make the method neither private nor static nor final.");
        }
        if (Modifier.isFinal(type.getModifiers()) && !Proxy.isProxyClass(type) && !ClassUtils.isLambdaClass(type)) {
            return refusal(
                    "its class " + type.getName() + " is final, so no proxy can stand before it",
                    "Make the class non-final; a record can't be.");
        }
        boolean packagePrivate = !Modifier.isPublic(modifiers) && !Modifier.isProtected(modifiers);
        if (packagePrivate
                && !method.getDeclaringClass().getPackageName().equals(type.getPackageName())
                && !method.getDeclaringClass().isInterface()) {
            return refusal(
                    "it is package-private in another package than the bean's class " + type.getName()
                            + ", so no proxy can stand before it and it would run on every instance",
                    "Make the method public or protected.");
        }
        Class<?>[] parameters = method.getParameterTypes();
        if (parameters.length > 0
                && parameters[parameters.length - 1].getName().equals("kotlin.coroutines.Continuation")) {
            return refusal(
                    "it is a suspending function, whose end isn't known to its caller",
                    "Return a Mono or a CompletableFuture, or ask LeaderElector.isLeader() in the function.");
        }
        return Optional.empty();
    }

    /**
     * Why the method would run everywhere or nowhere because of who calls it.
     *
     * @param atMethod whether the annotation is at the method itself, not at its class
     */
    static Optional<LeaderOnlyRefusal> ofCaller(
            Method method, Class<?> type, RootBeanDefinition definition, boolean atMethod) {
        Set<String> annotations = annotationsAt(method, type);
        for (String annotation : annotations) {
            if (CALLED_PAST_THE_PROXY_BY.contains(annotation) || (atMethod && INJECTING.contains(annotation))) {
                return pastTheProxy("@" + ClassUtils.getShortName(annotation));
            }
        }
        for (Class<?> caller : CALLED_PAST_THE_PROXY) {
            if ((atMethod || caller != Aware.class) && implementsMethodOf(caller, method, type)) {
                return pastTheProxy(caller.getSimpleName());
            }
        }
        if (isInitOrDestroyMethod(method, type, definition)) {
            return pastTheProxy("init or destroy method");
        }
        for (Class<?> caller : CALLED_TOO_EARLY) {
            if (implementsMethodOf(caller, method, type)) {
                return caller == FactoryBean.class
                        ? refusal(
                                "the container calls it to make a bean, and a skipped call makes none",
                                "Put the annotation at the methods of the bean that it makes.")
                        : tooEarly(
                                caller.getSimpleName(),
                                Lifecycle.class.isAssignableFrom(caller)
                                        ? "Take @LeaderLifecycle at the bean, in place of @LeaderOnly."
                                        : TO_ELECTED);
            }
        }
        return ofEvents(method, type);
    }

    /**
     * Why a method that the annotation of its class doesn't cover would run on every instance: Spring finds it by an annotation. What no
     * proxy can stand before and nobody but its own class calls is fine.
     */
    static Optional<LeaderOnlyRefusal> ofUncovered(Method method, Class<?> type) {
        boolean found = annotationsAt(method, type).stream()
                .anyMatch(annotation -> CALLED_PAST_THE_PROXY_BY.contains(annotation)
                        || (annotation.startsWith(SPRING)
                                && !annotation.startsWith("org.springframework.lang.")
                                && !INJECTING.contains(annotation)));
        return found ? of(method, type) : Optional.empty();
    }

    private static Set<String> annotationsAt(Method method, Class<?> type) {
        Set<String> names = new TreeSet<>();
        MergedAnnotations.from(AopUtils.getMostSpecificMethod(method, type), SearchStrategy.TYPE_HIERARCHY).stream()
                .forEach(annotation -> names.add(annotation.getType().getName()));
        return names;
    }

    private static Optional<LeaderOnlyRefusal> ofEvents(Method method, Class<?> type) {
        Set<Class<?>> events = new LinkedHashSet<>();
        MergedAnnotation<EventListener> listener =
                MergedAnnotations.from(method, SearchStrategy.TYPE_HIERARCHY).get(EventListener.class);
        if (listener.isPresent()) {
            events.addAll(List.of(listener.getClassArray("classes")));
            if (events.isEmpty()) {
                events.addAll(List.of(method.getParameterTypes()));
            }
        } else if (method.getName().equals("onApplicationEvent") && ApplicationListener.class.isAssignableFrom(type)) {
            events.add(ResolvableType.forClass(type)
                    .as(ApplicationListener.class)
                    .getGeneric(0)
                    .resolve(Object.class));
        }
        for (Class<?> event : events) {
            if (EARLY_EVENTS.contains(event)) {
                return tooEarly(event.getSimpleName(), TO_ELECTED);
            }
            if (LATE_EVENTS.contains(event)) {
                return refusal(
                        "it is called for " + event.getSimpleName()
                                + ", when this instance doesn't lead any more, so it would run nowhere",
                        "Do it in an @EventListener(LeaderRevokedEvent.class) method.");
            }
        }
        return Optional.empty();
    }

    private static Optional<LeaderOnlyRefusal> pastTheProxy(String what) {
        return refusal(
                "the container calls it (" + what + ") on the bean itself, so it would run on every instance",
                "Put the annotation at the methods that others call, and not at this one. What is to be done when this"
                        + " instance is elected goes into an @EventListener(LeaderElectedEvent.class) method.");
    }

    private static Optional<LeaderOnlyRefusal> tooEarly(String what, String action) {
        return refusal(
                "it is called once (" + what
                        + "), when the application starts and nobody can have been elected yet, so it would run nowhere",
                action);
    }

    private static Optional<LeaderOnlyRefusal> refusal(String why, String action) {
        return Optional.of(new LeaderOnlyRefusal(why, action));
    }

    private static boolean implementsMethodOf(Class<?> caller, Method method, Class<?> type) {
        if (!caller.isAssignableFrom(type)) {
            return false;
        }
        // Aware itself has no methods, Spring's sub-interfaces have.
        return ClassUtils.getAllInterfacesForClassAsSet(type).stream()
                .filter(declaring -> caller.isAssignableFrom(declaring)
                        && declaring.getName().startsWith(SPRING))
                .anyMatch(declaring -> ClassUtils.hasMethod(declaring, method.getName(), method.getParameterTypes()));
    }

    private static boolean isInitOrDestroyMethod(Method method, Class<?> type, RootBeanDefinition definition) {
        if (method.getParameterCount() > 0) {
            return false;
        }
        String name = method.getName();
        String[] init = definition.getInitMethodNames();
        if (init != null && List.of(init).contains(name)) {
            return true;
        }
        String[] destroy = definition.getDestroyMethodNames();
        if (destroy == null) {
            return AutoCloseable.class.isAssignableFrom(type) && name.equals("close");
        }
        boolean inferred = List.of(destroy).contains(AbstractBeanDefinition.INFER_METHOD);
        return List.of(destroy).contains(name)
                || (inferred && name.equals("close"))
                || (inferred && name.equals("shutdown") && !ClassUtils.hasMethod(type, "close"));
    }
}
