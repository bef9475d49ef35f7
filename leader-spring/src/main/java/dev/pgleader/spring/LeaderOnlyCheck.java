package dev.pgleader.spring;

import dev.pgleader.spring.LeaderOnlyMethods.Guard;
import java.lang.reflect.Method;
import java.util.Map;
import org.springframework.aop.Advisor;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.beans.factory.support.MergedBeanDefinitionPostProcessor;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.util.ReflectionUtils;

/** Refuses to start an application in which a {@link LeaderOnly} would silently have no effect. */
final class LeaderOnlyCheck implements MergedBeanDefinitionPostProcessor, SmartInitializingSingleton {

    private final ConfigurableListableBeanFactory beanFactory;
    private final LeaderOnlyMethods methods;
    private final LeaderOnlyCalls calls;

    LeaderOnlyCheck(ConfigurableListableBeanFactory beanFactory, LeaderOnlyMethods methods, LeaderOnlyCalls calls) {
        this.beanFactory = beanFactory;
        this.methods = methods;
        this.calls = calls;
    }

    /** Before a proxy is made, whose own complaints nobody would understand. */
    @Override
    public void postProcessMergedBeanDefinition(RootBeanDefinition definition, Class<?> beanType, String beanName) {
        Map<Method, Guard> guarded = methods.in(beanType);
        guarded.forEach((method, guard) -> {
            LeaderOnlyRefusal.of(method, beanType).ifPresent(refusal -> refuse(refusal, method, beanName));
            LeaderOnlyRefusal.ofCaller(method, beanType, definition, guard.atMethod())
                    .ifPresent(refusal -> refuse(refusal, method, beanName));
        });
        if (LeaderOnlyMethods.isAtClass(beanType)) {
            ReflectionUtils.doWithMethods(
                    beanType,
                    method -> LeaderOnlyRefusal.ofUncovered(method, beanType)
                            .filter(refusal -> !guarded.containsKey(method))
                            .ifPresent(refusal -> refuse(refusal, method, beanName)));
        }
    }

    /** Beans that were made before there were proxies have been seen by nobody so far. */
    @Override
    public void afterSingletonsInstantiated() {
        for (String beanName : beanFactory.getSingletonNames()) {
            Object bean = beanFactory.getSingleton(beanName);
            if (bean != null) {
                Class<?> type = AopUtils.getTargetClass(bean);
                methods.in(type).keySet().forEach(method -> {
                    LeaderOnlyRefusal.of(method, type).ifPresent(refusal -> refuse(refusal, method, beanName));
                    requireIntercepted(method, bean, beanName);
                    calls.of(method, type);
                });
            }
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
            refuse(
                    new LeaderOnlyRefusal(
                            "the bean has no proxy before it, and the method would run on every instance: the bean was"
                                    + " created too early, for instance because a BeanPostProcessor needs it, or isn't"
                                    + " created by the container",
                            "Move the method to a bean of its own that nothing needs so early."),
                    method,
                    beanName);
        }
        try {
            AopUtils.selectInvocableMethod(method, bean.getClass());
        } catch (IllegalStateException e) {
            refuse(
                    new LeaderOnlyRefusal(
                            "the bean's proxy has only the interfaces of the bean, and none of them has this method",
                            "Declare the method in an interface, or remove spring.aop.proxy-target-class=false."),
                    method,
                    beanName);
        }
    }

    private static void refuse(LeaderOnlyRefusal refusal, Method method, String beanName) {
        throw new LeaderConfigurationException(
                "@LeaderOnly can't work at " + LeaderOnlyCalls.describe(method) + "() of the bean \"" + beanName
                        + "\": " + refusal.why() + ".",
                refusal.action());
    }
}
