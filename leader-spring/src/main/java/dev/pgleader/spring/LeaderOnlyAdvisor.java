package dev.pgleader.spring;

import java.lang.reflect.Method;
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
