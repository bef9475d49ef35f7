package dev.pgleader.spring;

import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.core.ReactiveAdapter;

/**
 * What a {@link LeaderOnly} method returns that is reactive: at each subscription it asks who leads, and only on the leader the method is
 * called. The call ends with the publisher that the method returned, or when its subscriber cancels.
 */
final class LeaderOnlyPublisher implements Publisher<Object> {

    private final LeaderOnlyMethod method;
    private final ProxyMethodInvocation invocation;
    private final ReactiveAdapter adapter;

    private LeaderOnlyPublisher(LeaderOnlyMethod method, ProxyMethodInvocation invocation, ReactiveAdapter adapter) {
        this.method = method;
        this.invocation = invocation;
        this.adapter = adapter;
    }

    /** As the type that the method returns. */
    static Object adapted(LeaderOnlyMethod method, Object invocation, ReactiveAdapter adapter) {
        return adapter.fromPublisher(new LeaderOnlyPublisher(method, (ProxyMethodInvocation) invocation, adapter));
    }

    @Override
    public void subscribe(Subscriber<? super Object> subscriber) {
        Optional<LeaderOnlyMethod.Call> begun = method.begin();
        if (begun.isEmpty()) {
            subscriber.onSubscribe(Nothing.INSTANCE);
            subscriber.onComplete();
            return;
        }
        LeaderOnlyMethod.Call call = begun.get();
        Publisher<Object> publisher;
        try {
            publisher = publisher(call);
        } catch (Throwable e) {
            call.close();
            subscriber.onSubscribe(Nothing.INSTANCE);
            subscriber.onError(e);
            return;
        }
        try {
            publisher.subscribe(new Counted(subscriber, call));
        } catch (Throwable e) {
            call.close();
            throw e;
        } finally {
            call.detach();
        }
    }

    private Publisher<Object> publisher(LeaderOnlyMethod.Call call) throws Throwable {
        var each = (ProxyMethodInvocation) invocation.invocableClone();
        LeaderOnlyInterceptor.passLeadership(each, call.inCore().leadership());
        @Nullable Object result = each.proceed();
        return adapter.toPublisher(result);
    }

    /** The subscription to a publisher that publishes nothing. */
    private enum Nothing implements Subscription {
        INSTANCE;

        @Override
        public void request(long count) {}

        @Override
        public void cancel() {}
    }

    /** Passes all on, and ends the call with it. */
    private record Counted(Subscriber<? super Object> subscriber, LeaderOnlyMethod.Call call)
            implements Subscriber<Object> {

        @Override
        public void onSubscribe(Subscription subscription) {
            subscriber.onSubscribe(new Subscription() {
                @Override
                public void request(long count) {
                    subscription.request(count);
                }

                @Override
                public void cancel() {
                    try {
                        subscription.cancel();
                    } finally {
                        call.close();
                    }
                }
            });
        }

        @Override
        public void onNext(Object value) {
            subscriber.onNext(value);
        }

        @Override
        public void onError(Throwable failure) {
            call.close();
            subscriber.onError(failure);
        }

        @Override
        public void onComplete() {
            call.close();
            subscriber.onComplete();
        }
    }
}
