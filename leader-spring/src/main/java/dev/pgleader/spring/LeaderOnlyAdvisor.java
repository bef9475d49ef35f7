package dev.pgleader.spring;

import dev.pgleader.LeaderElector;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.StaticMethodMatcherPointcutAdvisor;
import org.springframework.core.Ordered;

/** Has {@link LeaderOnly} methods called on the leader alone. The outermost advice: a skipped call opens no transaction. */
final class LeaderOnlyAdvisor extends StaticMethodMatcherPointcutAdvisor {

    private static final long serialVersionUID = 1L;

    private static final Logger LOG = LoggerFactory.getLogger(LeaderOnly.class);

    private final transient LeaderOnlyMethods methods;

    LeaderOnlyAdvisor(LeaderOnlyMethods methods, LeaderOnlyElectors electors) {
        super(new Gate(methods, electors));
        this.methods = methods;
        setOrder(Ordered.HIGHEST_PRECEDENCE + 100);
    }

    @Override
    public boolean matches(Method method, Class<?> targetClass) {
        return methods.electionOf(method, targetClass) != null;
    }

    private static final class Gate implements MethodInterceptor {

        private final LeaderOnlyMethods methods;
        private final LeaderOnlyElectors electors;
        private final Map<String, Optional<LeaderElector>> byElection = new ConcurrentHashMap<>();

        Gate(LeaderOnlyMethods methods, LeaderOnlyElectors electors) {
            this.methods = methods;
            this.electors = electors;
        }

        @Override
        public @Nullable Object invoke(MethodInvocation invocation) throws Throwable {
            Method method = invocation.getMethod();
            Object target = invocation.getThis();
            Class<?> targetClass = target == null ? method.getDeclaringClass() : AopUtils.getTargetClass(target);
            String election = methods.electionOf(method, targetClass);
            if (election == null || leads(election, method)) {
                return invocation.proceed();
            }
            LOG.trace("Skipped {}: this instance doesn't lead", method);
            return SkippedResult.of(method.getReturnType());
        }

        private boolean leads(String election, Method method) {
            return byElection
                    .computeIfAbsent(election, name -> electors.find(name, method))
                    .map(LeaderElector::isLeader)
                    .orElse(false);
        }
    }
}
