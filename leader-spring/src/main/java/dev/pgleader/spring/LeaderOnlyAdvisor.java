package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;


import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.StaticMethodMatcherPointcutAdvisor;
import org.springframework.core.Ordered;

/** Has {@link LeaderOnly} methods called on the leader alone. The outermost advice: a skipped call opens no transaction. */
final class LeaderOnlyAdvisor extends StaticMethodMatcherPointcutAdvisor {

    private static final long serialVersionUID = 1L;

    private final transient LeaderOnlyMethods methods;

    LeaderOnlyAdvisor(LeaderOnlyMethods methods, LeaderOnlyCalls calls) {
        super(new LeaderOnlyInterceptor(calls));
        this.methods = methods;
        setOrder(Ordered.HIGHEST_PRECEDENCE + 100);
    }

    @Override
    public boolean matches(Method method, Class<?> targetClass) {
        return methods.guardOf(method, targetClass) != null;
    }
}
