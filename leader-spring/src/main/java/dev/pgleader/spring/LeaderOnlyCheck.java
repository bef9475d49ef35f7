package dev.pgleader.spring;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.Map;
import org.springframework.aop.Advisor;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.beans.factory.support.MergedBeanDefinitionPostProcessor;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.util.ClassUtils;

/** Refuses to start an application in which a {@link LeaderOnly} would silently have no effect. */
final class LeaderOnlyCheck implements MergedBeanDefinitionPostProcessor, SmartInitializingSingleton {

    private final ConfigurableListableBeanFactory beanFactory;
    private final LeaderOnlyMethods methods;
    private final LeaderOnlyElectors electors;

    LeaderOnlyCheck(
            ConfigurableListableBeanFactory beanFactory, LeaderOnlyMethods methods, LeaderOnlyElectors electors) {
        this.beanFactory = beanFactory;
        this.methods = methods;
        this.electors = electors;
    }

    /** Before a proxy is made, whose own complaints nobody would understand. */
    @Override
    public void postProcessMergedBeanDefinition(RootBeanDefinition definition, Class<?> beanType, String beanName) {
        methods.in(beanType).keySet().forEach(method -> requireInterceptable(method, beanType, beanName));
    }

    /** Beans that were made before there were proxies have been seen by nobody so far. */
    @Override
    public void afterSingletonsInstantiated() {
        for (String beanName : beanFactory.getSingletonNames()) {
            Object bean = beanFactory.getSingleton(beanName);
            if (bean != null) {
                Class<?> type = AopUtils.getTargetClass(bean);
                Map<Method, String> guarded = methods.in(type);
                guarded.forEach((method, election) -> {
                    requireInterceptable(method, type, beanName);
                    requireIntercepted(method, bean, beanName);
                    electors.find(election, method);
                });
            }
        }
    }

    private static void requireInterceptable(Method method, Class<?> type, String beanName) {
        int modifiers = method.getModifiers();
        Class<?> returnType = method.getReturnType();
        if (returnType.isPrimitive() && returnType != void.class) {
            throw refused(
                    method,
                    beanName,
                    "it returns " + returnType + ", and a skipped call has no " + returnType + " to return",
                    "Return Optional<"
                            + ClassUtils.resolvePrimitiveIfNecessary(returnType).getSimpleName()
                            + "> or void, or take the annotation away and ask LeaderElector.isLeader() in the method.");
        }
        if (Modifier.isPrivate(modifiers) || Modifier.isStatic(modifiers) || Modifier.isFinal(modifiers)) {
            String kind = Modifier.isPrivate(modifiers) ? "private" : Modifier.isStatic(modifiers) ? "static" : "final";
            throw refused(
                    method,
                    beanName,
                    "it is " + kind + ", so no proxy can stand before it and it would run on every instance",
                    "Make the method neither private nor static nor final.");
        }
        if (Modifier.isFinal(type.getModifiers()) && !Proxy.isProxyClass(type) && !ClassUtils.isLambdaClass(type)) {
            throw refused(
                    method,
                    beanName,
                    "its class " + type.getName() + " is final, so no proxy can stand before it",
                    "Make the class non-final; a record can't be.");
        }
    }

    private static void requireIntercepted(Method method, Object bean, String beanName) {
        boolean intercepted = false;
        if (bean instanceof Advised proxy) {
            for (Advisor advisor : proxy.getAdvisors()) {
                intercepted |= advisor instanceof LeaderOnlyAdvisor;
            }
        }
        if (!intercepted) {
            throw refused(
                    method,
                    beanName,
                    "the bean has no proxy before it, and the method would run on every instance: the bean was created too"
                            + " early, for instance because a BeanPostProcessor needs it, or isn't created by the container",
                    "Move the method to a bean of its own that nothing needs so early.");
        }
        try {
            AopUtils.selectInvocableMethod(method, bean.getClass());
        } catch (IllegalStateException e) {
            throw refused(
                    method,
                    beanName,
                    "the bean's proxy has only the interfaces of the bean, and none of them has this method",
                    "Declare the method in an interface, or remove spring.aop.proxy-target-class=false.");
        }
    }

    private static LeaderConfigurationException refused(Method method, String beanName, String why, String action) {
        return new LeaderConfigurationException(
                "@LeaderOnly can't work at " + LeaderOnlyElectors.describe(method) + " of the bean \"" + beanName
                        + "\": " + why + ".",
                action);
    }
}
