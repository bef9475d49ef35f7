package dev.pgleader.spring;

import dev.pgleader.Leadership;
import java.lang.reflect.Method;
import java.util.Optional;
import java.util.concurrent.CompletionStage;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.jspecify.annotations.Nullable;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.aop.support.AopUtils;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;

/** Makes a call of a {@link LeaderOnly} method if this instance leads, as a part of the term. */
final class LeaderOnlyInterceptor implements MethodInterceptor {

    private final LeaderOnlyCalls calls;

    LeaderOnlyInterceptor(LeaderOnlyCalls calls) {
        this.calls = calls;
    }

    @Override
    public @Nullable Object invoke(MethodInvocation invocation) throws Throwable {
        Method method = invocation.getMethod();
        Object target = invocation.getThis();
        LeaderOnlyMethod guarded =
                calls.of(method, target == null ? method.getDeclaringClass() : AopUtils.getTargetClass(target));
        if (guarded == null) {
            return invocation.proceed();
        }
        ReactiveAdapter adapter = reactiveAdapter(method.getReturnType());
        if (adapter != null && invocation instanceof ProxyMethodInvocation proxied) {
            return LeaderOnlyPublisher.adapted(guarded, proxied.invocableClone(), adapter);
        }
        Optional<LeaderOnlyMethod.Call> begun = guarded.begin();
        return begun.isPresent() ? proceed(invocation, begun.get()) : SkippedResult.of(method.getReturnType());
    }

    /** Null unless the method returns a publisher, which does its work when it is subscribed to. */
    private static @Nullable ReactiveAdapter reactiveAdapter(Class<?> returnType) {
        if (CompletionStage.class.isAssignableFrom(returnType) || returnType == Object.class) {
            return null;
        }
        ReactiveAdapterRegistry registry = ReactiveAdapterRegistry.getSharedInstance();
        ReactiveAdapter adapter = registry.hasAdapters() ? registry.getAdapter(returnType) : null;
        return adapter != null && adapter.supportsEmpty() ? adapter : null;
    }

    private static @Nullable Object proceed(MethodInvocation invocation, LeaderOnlyMethod.Call call) throws Throwable {
        boolean goesOn = false;
        try {
            passLeadership(invocation, call.inCore().leadership());
            Object result = invocation.proceed();
            if (result instanceof CompletionStage<?> stage) {
                goesOn = true;
                call.detach();
                var unused = stage.whenComplete((value, failure) -> call.close());
            }
            return result;
        } finally {
            if (!goesOn) {
                call.close();
            }
        }
    }

    /** A method that wants to know its term has a parameter for it, which callers leave to us. */
    static void passLeadership(MethodInvocation invocation, Leadership leadership) {
        Object[] arguments = invocation.getArguments();
        Class<?>[] types = invocation.getMethod().getParameterTypes();
        for (int i = 0; i < types.length; i++) {
            if (types[i] == Leadership.class && arguments[i] == null) {
                arguments[i] = leadership;
            }
        }
    }
}
